"""A sweep and the settings of its run, ready for Python and the command line."""

from dataclasses import fields

from ...run.loaded_sweep import LoadedSweep, load_sweep, part_of
from ...run.settings import FolderSettings, RunSettings
from ...sweep.sweepfile import SweepFile


def run_settings(settings: FolderSettings) -> RunSettings:
    """The settings of a run, without settings that only one command has."""
    names = {field.name for field in fields(settings)}
    common = [field.name for field in fields(RunSettings) if field.name in names]
    return RunSettings(**{name: getattr(settings, name) for name in common})


def prepared(file: SweepFile, settings: RunSettings) -> tuple[LoadedSweep, RunSettings]:
    """A sweep with its run's settings. UsageError for those that do not fit it or each other."""
    if settings.part:
        file = part_of(file, settings.part)
    return load_sweep(file), run_settings(settings)
