"""A sweep and the settings of its run, made ready: what Python and the command line execute."""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..fleet.executor_choice import executor_for
from ..runs.executor import MakeExecutor
from ..runs.listing import folder_named
from ..runs.loaded_sweep import LoadedSweep, load_sweep
from ..runs.parts import SweepPart
from ..runs.run import RunOptions
from ..runs.stores import store_name
from ..sweeps.sweepfile import SweepFile
from .settings import TAGS_VARIABLE, FolderSettings, RunSettings, all_tags

if TYPE_CHECKING:
    from ..decisions.sequential import SequentialDesign


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A sweep, loaded, and how it is to be run."""

    loaded: LoadedSweep
    options: RunOptions
    executor: MakeExecutor
    design: "SequentialDesign | None"
    """Set if the run may stop once it is precise enough."""


def folder_options(its: FolderSettings, overrides: tuple[str, ...] = ()) -> RunOptions:
    """The options of a run of which only its place is set. overrides: its `--set` flags."""
    return RunOptions(
        store_name(its.store),
        its.folder,
        overrides=overrides,
        max_cost=its.max_cost,
        prices=its.price_list,
        tags=all_tags(its.tag, os.environ.get(TAGS_VARIABLE, "")),
        changed_code="adopt" if its.adopt_code else "refuse",
    )


def prepared(file: SweepFile, its: RunSettings, overrides: tuple[str, ...] = ()) -> PreparedRun:
    """A sweep with the settings of its run. overrides: the `--set` flags that it was read with.
    UsageError for what does not fit the sweep, or each other."""
    loaded = load_sweep(SweepPart.read(its.part).of(file) if its.part else file)
    design = _design(its, loaded)
    options = replace(
        folder_options(its, overrides),
        mode=its.cache,
        retry_failed=its.retry_failed,
        part=its.part,
        accept_empty=its.accept_empty,
        keeps_going=its.keep_going,
        sources=tuple(map(folder_named, its.sources)) if its.sources else None,
        verify=its.verify,
        batches=design.batches if design else None,
    )
    place = str(options.store)
    quota = its.quota_weight if its.quota else 0.0
    executor = executor_for(its.workers, loaded, place, quota=quota, ray=its.ray, batch=its.terms)
    return PreparedRun(loaded, options, executor, design)


def _design(its: RunSettings, loaded: LoadedSweep) -> "SequentialDesign | None":
    if its.until is None and its.stop_when is None:
        return None
    # Imported here, with numpy: nothing before the first request of other runs needs it.
    from ..decisions.sequential import SequentialDesign
    from ..decisions.statement import read_direction, read_precision

    aim = read_direction(its.stop_when) if its.stop_when else read_precision(str(its.until))
    return SequentialDesign(loaded.sweep, aim, its.score)
