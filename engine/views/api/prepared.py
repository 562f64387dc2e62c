"""A sweep and the settings of its run, ready for Python and the command line."""

from dataclasses import fields

from ...run.loaded_sweep import LoadedSweep, load_sweep, part_of
from ...run.settings import FolderSettings, RunSettings
from ...sweep.sweepfile import SweepFile


def run_settings(settings: FolderSettings) -> RunSettings:
    """The settings of a run, without settings of one command only."""
    given = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return RunSettings(
        **{each.name: given[each.name] for each in fields(RunSettings) if each.name in given}
    )


def prepared(file: SweepFile, settings: RunSettings) -> tuple[LoadedSweep, RunSettings]:
    """A sweep with the settings of its run. UsageError for settings that do not fit
    the sweep or each other."""
    if settings.part:
        file = part_of(file, settings.part)
    return load_sweep(file), run_settings(settings)
