"""Running protocols from Python: the same engine, store and run folders as the command line's."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cache.cached import Cache, Mode
from cache.disk import DiskStore
from engine.books.accounts import Accounts
from engine.books.prices import listed
from engine.errors import Halt
from engine.loop import event_loop
from engine.models import Terms
from engine.opening import MADE_IN_PYTHON, opened, run_folder
from engine.plans.walk import require_abilities
from engine.reports.report import report, save_report
from engine.reports.results import Results, collect
from engine.runs.lanes import CRASH
from engine.runs.noted import noted
from engine.runs.replaying import LANES
from engine.runs.runfolder import QUARANTINE, outcomes
from engine.runs.sitting import Sitting
from engine.settings import store_path
from engine.sweeps.document import Document
from engine.sweeps.sweepfile import SweepFile, Top, check_fit
from protocols.protocol import Protocol
from protocols.question import Problem


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    results: Results
    folder: Path
    stopped: Halt | None
    """Why it stopped before its end; None if it is complete."""

    def table(self, format: str = "text") -> str:
        """The report as `text`, `markdown`, `json`, `latex` or `csv`."""
        return report(self.results, format)


def run(protocols: Iterable[Protocol], problems: Iterable[Problem], **settings: Any) -> Report:
    """`run_async`, for code that is not asynchronous. RuntimeError where a loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("an event loop is running, as in a notebook: await run_async(…) there")
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        return runner.run(run_async(protocols, problems, **settings))


async def run_async(
    protocols: Iterable[Protocol],
    problems: Iterable[Problem],
    *,
    name: str = "python",
    score: str = "brier",
    draws: int = 1,
    seed: int = 0,
    lanes: int = 256,
    cache: Mode = "use",
    models: Mapping[str, Mapping[str, Any]] | None = None,
    retry_failed: bool = False,
    max_cost: float | None = None,
    store: Path | None = None,
    folder: Path | None = None,
    accept_empty: bool = False,
) -> Report:
    """Run every protocol on every problem, in one world for each answer, and score the rows.

    The parameters are those of a sweep file and of `oversight run`. Calling it again resumes: a
    cell that has an outcome is not run again, and a call that was paid is not paid again.
    ValueError for a parameter out of range, SweepError for what cannot be run, RunFolderError for
    a folder of another sweep.
    """
    file = SweepFile(
        Document("Python", MADE_IN_PYTHON, {}, {}),
        Top(name, seed, draws, lanes),
        tuple(problems),
        tuple(protocols),
        models or {},
        {},
    )
    check_fit(file.document, file.protocols, file.problems)
    sweep = opened(file)
    place = store_path(store)
    replies = DiskStore(place)
    try:
        with run_folder(sweep, folder, (), str(place.resolve())) as landed:
            held = len(replies)
            asks = not landed.complete or landed.failed
            if cache in ("use", "replay") and asks and not accept_empty:
                landed.check_store(held, place)
            landed.forget_failures(None if retry_failed else {CRASH})
            ask = Cache(replies, sweep.models, identity=sweep.models.identity, mode=cache)
            accounts = Accounts(landed.path, sweep.models.accounts)
            before = accounts.total()
            spent = before.dollars + before.doubtful
            sweep.models.prepare(
                sweep.sweep.roles, Terms(listed(), max_cost, spent, landed.path / QUARANTINE)
            )
            await require_abilities(sweep.sweep, sweep.models.simulated)
            sitting = Sitting(sweep.sweep, landed, ask, sweep.latch)

            def standing() -> int:
                return held + (ask.statistics.new if cache == "use" else 0)

            try:
                async with noted(landed, standing, sweep.latch), accounts.kept(sweep.latch):
                    stopped = await sitting.run(LANES if cache == "replay" else lanes)
            finally:
                await sweep.models.close()
            results = collect(sweep.sweep, outcomes(landed.path), score=score)
            save_report(results, landed.path)
            return Report(results, landed.path, stopped)
    finally:
        replies.close()
