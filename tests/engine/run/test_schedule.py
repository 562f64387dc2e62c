"""Rules of all schedules, and of each: passes, first cells and pauses."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oversight.cache.call import Call
from oversight.engine.errors import Interrupted, Pending
from oversight.engine.run.lanes import attempt_noted, run_lanes
from oversight.engine.run.later import Passes
from oversight.engine.run.record.values import CellEnd, RecordedCell
from oversight.engine.run.schedule import (
    FAILED_ALIKE,
    FIRST_CELLS,
    InOrder,
    Schedule,
    StagedStart,
)
from oversight.engine.stop import StopToken
from oversight.engine.sweep.sweep import Cell, Sweep
from oversight.protocols import NaiveJudge, StatedJudge
from oversight.protocols.transcript import Failure, Transcript, Verdict
from tests.fakes import Scripted
from tests.sessions import sessions
from tests.tables import printed
from tests.virtual import run
from tests.world import sweep

SURE = "A: 80%\nB: 20%"
GOOD, BAD = StatedJudge("sim/judge"), StatedJudge("sim/mute")
LANES = 100
GRID = sweep(NaiveJudge(GOOD), NaiveJudge(BAD), problems=20)
ROWS = GRID.rows


class Replies:
    """Replies come between two passes, after a second; three of them at most."""

    def __init__(self, stop_token: StopToken) -> None:
        self._stop, self.passes, self.under_way = stop_token, 0, 0

    async def begin(self) -> bool:
        assert not self.under_way, "a pass ends before the next begins"
        await asyncio.sleep(1)
        self.passes += 1
        return self._stop.halt is None and self.passes <= 4


Make = Callable[[Callable[[], Iterator[Cell]], Replies], Schedule[Cell, RecordedCell]]
ORDERS: dict[str, Make] = {
    "plain": lambda missing, later: InOrder(missing()), "passes": lambda missing,
    later: Passes(missing, later.begin), "first cells": lambda missing,
    later: StagedStart(InOrder(missing()), ROWS, None, total=len(GRID)),
    "one first cell": lambda missing,
    later: StagedStart(InOrder(missing()), ROWS, None, first_cells=1), "pauses": lambda missing,
    later: StagedStart(InOrder(missing()), ROWS, first_cells=None),
    "paused first cells": lambda missing,
    later: StagedStart(InOrder(missing()), ROWS, total=len(GRID)), "paused passes": lambda missing,
    later: StagedStart(Passes(missing, later.begin), ROWS, first_cells=None),
}  # fmt: skip


def ended_in(outcome: CellEnd) -> RecordedCell:
    return RecordedCell(0, "", 0, 0, 0, 0, outcome)


VERDICT = ended_in(Verdict((0.8, 0.2), Transcript(GRID.problems[0].question)))
orders = pytest.mark.parametrize("make", ORDERS.values(), ids=ORDERS)


class Work:
    """Attempts on an order in virtual time, and what they saw."""

    def __init__(self, make: Make, end: Callable[[Cell, int], RecordedCell | Exception]) -> None:
        """end: how a cell ends, by how often it was begun before."""
        self.begun: Counter[int] = Counter()
        self.kept: dict[int, RecordedCell] = {}
        self.most = 0
        self.stop_token, self._end = StopToken(), end
        self.later = Replies(self.stop_token)
        self.schedule = make(self._missing, self.later)

    def _missing(self) -> Iterator[Cell]:
        return (cell for cell in GRID.cells() if cell.place not in self.kept)

    async def attempt(self, cell: Cell) -> RecordedCell:
        end = self._end(cell, self.begun[cell.place])
        self.begun[cell.place] += 1
        self.later.under_way += 1
        self.most = max(self.most, self.later.under_way)
        await asyncio.sleep(random.Random(cell.place).random())
        self.later.under_way -= 1
        if isinstance(end, Exception):
            raise end
        return end

    def keep(self, cell: Cell, end: RecordedCell) -> None:
        assert cell.place not in self.kept
        self.kept[cell.place] = end

    def run(self, lanes: int = 8) -> None:
        run(run_lanes(
            self.schedule, self.attempt, self.keep, lanes=lanes, stop_token=self.stop_token,
        ))  # fmt: skip


@orders
@pytest.mark.parametrize("lanes", [1, 8, LANES])
def test_every_order_hands_out_each_cell_once_and_ends_for_all_lanes(make, lanes):
    work = Work(make, lambda cell, before: VERDICT)
    work.run(lanes)
    assert sorted(work.kept) == list(range(len(GRID))) and set(work.begun.values()) == {1}
    assert work.most <= lanes and work.stop_token.last_cells


@orders
def test_every_order_goes_on_where_every_third_cell_fails(make):
    def end(cell: Cell, before: int) -> RecordedCell:
        failed = Failure("unreadable", f"cell {'abcdefgh'[cell.place % 8]}")
        return ended_in(failed) if cell.place % 3 == 0 else VERDICT

    work = Work(make, end)
    work.run()
    assert sorted(work.kept) == list(range(len(GRID)))


@orders
@pytest.mark.parametrize("fault", [Interrupted(2), Pending("a")], ids=["a stop", "a late reply"])
def test_every_order_ends_where_a_cell_has_no_result(make, fault):
    """At a stop no cell starts that lanes do not hold already."""
    work = Work(make, lambda cell, before: fault if cell.place == 9 else VERDICT)
    work.run()
    stopped = work.stop_token.halt is not None
    assert stopped == isinstance(fault, Interrupted)
    assert 9 not in work.kept and (stopped or len(work.kept) == len(GRID) - 1)
    assert len(work.begun) == len(GRID) if not stopped else len(work.kept) < 20


@orders
def test_every_order_may_be_cancelled_while_lanes_wait_for_it(make):
    work = Work(make, lambda cell, before: VERDICT)

    async def main() -> None:
        lanes = run_lanes(
            work.schedule, work.attempt, work.keep, lanes=LANES, stop_token=work.stop_token
        )
        running = asyncio.create_task(lanes)
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_passes_run_only_waiting_work_again():
    def end(cell: Cell, before: int) -> RecordedCell | Exception:
        return Pending("a") if before < cell.place % 3 else VERDICT

    work = Work(ORDERS["passes"], end)
    work.run()
    assert sorted(work.kept) == list(range(len(GRID)))
    assert all(times == 1 + place % 3 for place, times in work.begun.items())
    assert work.later.passes == 3


def watched(grid: Sweep, answer: Callable[[Call], str], *, active: bool = True):
    """Return results by place, the halt, and the cells of a row under way before one completed."""
    ask = Scripted(answer, delay=1.0)
    earlier = () if active else None
    schedule, results = StagedStart(InOrder(grid.cells()), grid.rows, earlier, total=len(grid)), {}
    started: list[int] = []

    async def attempted(cell: Cell) -> RecordedCell:
        if not results:
            started.append(cell.place)
        return ended_in((await attempt_noted(cell, ask)).outcome)

    def keep(cell: Cell, end: RecordedCell) -> None:
        results[cell.place] = end

    run(run_lanes(schedule, attempted, keep, lanes=LANES, stop_token=StopToken()))
    missing = (cell for cell in grid.cells() if cell.place not in results)
    return results, schedule.halt(missing), len(started)


def mute(call: Call) -> str:
    return "no idea" if call.model == "sim/mute" else SURE


def test_a_row_begins_with_a_few_cells_and_ends_with_all_of_them():
    grid = sweep(NaiveJudge(GOOD), problems=50)
    results, halt, first = watched(grid, mute)
    assert sorted(results) == list(range(len(grid))) and first == FIRST_CELLS and halt is None


def test_a_row_that_is_never_readable_is_paused_and_the_others_go_on():
    grid = sweep(NaiveJudge(GOOD), NaiveJudge(BAD), problems=50)
    results, halt, _ = watched(grid, mute)
    failed = [cell for cell in results.values() if isinstance(cell.outcome, Failure)]
    assert FAILED_ALIKE <= len(failed) < FAILED_ALIKE + FIRST_CELLS
    assert len(results) - len(failed) == len(grid) // 2 and halt is not None
    assert "sim/mute" in str(halt) and "unreadable" in str(halt) and "--keep-going" in str(halt)
    results, halt, _ = watched(grid, mute, active=False)
    assert len(results) == len(grid) and halt is None


def alike(*messages: object, kind: str = "InvalidRequest") -> list[Failure]:
    return [Failure(kind, f"refused by {message}") for message in messages]


def paused(before: list[Failure | None], *ends: CellEnd) -> str:
    """How many of 20 cells begin before their row is paused, and why; before: earlier outcomes."""
    cells = [cell for cell in GRID.cells() if cell.row is ROWS[0]][:20]
    earlier: Any = [(ROWS[0], end) for end in before]
    schedule, results = StagedStart(InOrder(cells), ROWS, earlier), dict[int, RecordedCell]()
    remaining = iter([*ends, *[VERDICT.outcome] * 20])

    async def attempted(cell: Cell) -> RecordedCell:
        return ended_in(next(remaining))

    def keep(cell: Cell, end: RecordedCell) -> None:
        results[cell.place] = end

    run(run_lanes(schedule, attempted, keep, lanes=1, stop_token=StopToken()))
    halt = schedule.halt(cell for cell in cells if cell.place not in results)
    return f"{len(results)}: {halt or 'all'}"


@sessions(Path(__file__).with_name("pauses.md"))
def test_a_row_is_paused_after_failures_of_one_cause_alone(session, request):
    names = dict(globals())
    session.check(request, printed(names), names)


def test_last_tenth_goes_by_the_mean_time_of_a_row():
    """Row 0 has taken more time in all, and row 1 more for each cell."""
    rows = [[cell for cell in GRID.cells() if cell.row is row] for row in ROWS]
    mixed = [*rows[0][:33], *rows[1][:3], rows[0][33], rows[1][3], rows[0][34], rows[1][4]]
    schedule, started = StagedStart(InOrder(mixed), ROWS, first_cells=None, total=40), list[int]()

    async def timed(cell: Cell) -> RecordedCell:
        started.append(ROWS.index(cell.row))
        await asyncio.sleep(1 + 4 * started[-1])
        return VERDICT

    run(run_lanes(schedule, timed, lambda cell, end: None, lanes=1, stop_token=StopToken()))
    assert started == [*[0] * 33, *[1] * 3, 1, 1, 0, 0]


def test_cells_of_a_short_run_are_ordered_by_the_lengths_of_their_chains():
    grid = sweep(NaiveJudge(GOOD), NaiveJudge(StatedJudge("sim/slow")), problems=50)
    steps = {row.address: n for n, row in enumerate(grid.rows)}
    schedule = StagedStart(
        InOrder(grid.cells()), grid.rows, first_cells=None, total=len(grid), steps=steps
    )
    started: list[int] = []

    async def attempted(cell: Cell) -> RecordedCell:
        started.append(grid.rows.index(cell.row))
        return VERDICT

    run(run_lanes(schedule, attempted, lambda cell, end: None, lanes=4, stop_token=StopToken()))
    assert started == [*[1] * 100, *[0] * 100]


def test_a_run_with_an_unreadable_judge_says_so_and_continues_with_a_flag(place, command):
    sweep_file = {
        "problems": {"bundled": {"name": "arithmetic", "limit": 20}},
        "judges": [{"kind": "stated", "model": name} for name in ("sim/judge", "sim/mute")],
        "protocols": {"naive_judge": None},
        "models": {"sim/mute": {"refusal": 1.0}},
        "max_cells": 4,
    }
    (place / "s.yaml").write_text(json.dumps(sweep_file))
    ended = command("run", "s.yaml")
    assert ended.code == 3
    assert "their rows are paused (" in ended.err and "its first 8 cells all failed" in ended.err
    ended = command("run", "s.yaml", "--keep-going")
    assert ended.code == 1
