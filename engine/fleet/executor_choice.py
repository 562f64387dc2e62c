"""Chooses where the cells of a run are executed: in this process or by workers, with batches or
without."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

from ..batches.terms import FOLDER, LIVE, BatchTerms
from ..errors import UsageError
from ..models.directory import ModelDirectory
from ..providers.catalogue import entry, provider_of
from ..runs.executor import Assignment, Executor, MakeExecutor
from ..runs.loaded_sweep import LoadedSweep
from ..runs.session import RunSession
from ..simulation.model import PREFIX
from ..sweeps.sweep import Sweep
from ..system.settings import is_url

Workers: TypeAlias = int | Literal["auto"]
"""`auto`: one per core where this machine is the bottleneck, else one."""


def executor_for(
    workers: Workers,
    loaded: LoadedSweep,
    store: str,
    *,
    quota: float = 0.0,
    ray: str = "",
    batch: BatchTerms = LIVE,
) -> MakeExecutor:
    """An executor in this process, or a fleet where there are several workers or a quota.

    store: its folder or URL, as workers are to open it. quota: its weight where limits are shared
    with other runs of this store; else 0. ray: address of a Ray cluster, or `auto`; empty for
    processes of this machine. batch: which models are asked in batches, beside those that the sweep
    file names; a run that has batches out collects them in any case.
    ValueError for fewer workers than one; UsageError for a quota in a folder, and for a model that
    cannot be asked in batches.
    """
    if quota and not is_url(store):
        raise UsageError(
            "a quota is shared through a database: name one with --store postgresql://…"
        )
    sweep = loaded.sweep
    batched = batched_models(loaded.models, sweep.models, batch.every)
    count = 1 if batched and workers == "auto" else _cores(sweep) if workers == "auto" else workers
    if count < 1:
        raise ValueError(f"workers: {count} is less than 1")
    # One worker runs all cells of a problem: more workers than problems would have nothing to do.
    count = min(count, len(sweep.problems))
    placed: MakeExecutor = RunSession
    if ray:
        from .ray_fleet import RayFleet  # an extra: only imported where used

        placed = partial(RayFleet, address=ray, workers=count, store=store, quota=quota)
    elif count > 1 or quota:
        from .fleet import Fleet  # these and batches: a tenth of the time until the first request

        placed = partial(Fleet, workers=count, store=store, quota=quota)

    def make(assignment: Assignment) -> Executor:
        # Workers cannot wait for the people whom this process serves: their cells are run again.
        apart = placed is not RunSession and assignment.later is not None
        if assignment.mode == "replay":
            return placed(assignment)
        if batched or apart or (assignment.folder.path / FOLDER).exists():
            from ..batches.rounds import batch_plan, has_batches

            if batched or apart or has_batches(assignment.folder.path):
                plan = batch_plan(assignment, batched, batch)
                assignment = replace(assignment, rounds=plan.rounds(assignment.loaded.models))
        return placed(assignment)

    return make


def batched_models(models: ModelDirectory, names: Sequence[str], every: bool) -> tuple[str, ...]:
    """The models that are asked in batches. every: also where the sweep file says nothing.
    UsageError for a model that cannot be asked so, and if `every` is set and none can."""
    batched = models.batched(names, every)
    if every and not batched:
        raise UsageError(f"no model of this sweep can be asked in batches: {', '.join(names)}")
    return batched


def _cores(sweep: Sweep) -> int:
    """The number of workers for `auto`. One process is enough for any vendor's account."""
    bound_here = all(m.startswith(PREFIX) or entry(provider_of(m)).own for m in sweep.models)
    if not bound_here:
        return 1
    # Only the cores that this process may use count, where the system can say which.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
