"""A sweep and the settings of its run, made ready: what Python and the command line execute."""

import os
from dataclasses import replace

from ...run.listing import folder_named
from ...run.loaded_sweep import LoadedSweep, load_sweep
from ...run.run import RunOptions
from ...run.stores import store_name
from ...sweep.sweepfile import SweepFile
from .settings import TAGS_VARIABLE, FolderSettings, RunSettings, all_tags


def folder_options(settings: FolderSettings, overrides: tuple[str, ...] = ()) -> RunOptions:
    """The options of a run of which only its place is set. overrides: its `--set` flags."""
    return RunOptions(
        store_name(settings.store),
        settings.folder,
        overrides=overrides,
        max_cost=settings.max_cost,
        max_tokens=settings.max_tokens,
        prices=settings.price_list,
        tags=all_tags(settings.tag, os.environ.get(TAGS_VARIABLE, "")),
        changed_code="adopt" if settings.adopt_code else "refuse",
        terms=settings.terms,
    )


def prepared(
    file: SweepFile, settings: RunSettings, overrides: tuple[str, ...] = ()
) -> tuple[LoadedSweep, RunOptions]:
    """A sweep with the settings of its run. overrides: the `--set` flags that it was read with.
    UsageError for what does not fit the sweep, or each other."""
    if settings.part:
        from ...run.parts import SweepPart

        file = SweepPart.read(settings.part).of(file)
    loaded = load_sweep(file)
    options = replace(
        folder_options(settings, overrides),
        mode=settings.cache,
        retry_failed=settings.retry_failed,
        part=settings.part,
        accept_empty=settings.accept_empty,
        keeps_going=settings.keep_going,
        sources=tuple(map(folder_named, settings.sources)) if settings.sources else None,
        verify=settings.verify,
        workers=settings.workers,
        ray=settings.ray,
    )
    return loaded, options
