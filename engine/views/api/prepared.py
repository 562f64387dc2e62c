"""A sweep and the settings of its run, made ready: what Python and the command line execute."""

import os
from dataclasses import fields

from ...run.loaded_sweep import LoadedSweep, load_sweep, part_of
from ...run.settings import TAGS_VARIABLE, FolderSettings, RunSettings, tags_for_all
from ...sweep.sweepfile import SweepFile


def run_settings(settings: FolderSettings) -> RunSettings:
    """The settings of a run, with the tags that the environment sets for all."""
    given = {each.name: getattr(settings, each.name) for each in fields(settings)}
    known = {each.name: given[each.name] for each in fields(RunSettings) if each.name in given}
    tags = (*tags_for_all(os.environ.get(TAGS_VARIABLE, "")), *settings.tag)
    return RunSettings(**{**known, "tag": tags})


def prepared(file: SweepFile, settings: RunSettings) -> tuple[LoadedSweep, RunSettings]:
    """A sweep with the settings of its run. UsageError for what does not fit the sweep, or each
    other."""
    if settings.part:
        file = part_of(file, settings.part)
    return load_sweep(file), run_settings(settings)
