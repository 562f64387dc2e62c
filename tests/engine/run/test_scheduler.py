import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from msgspec import structs

from oversight.cache.cache import Cache
from oversight.cache.call import Ask, Call
from oversight.cache.errors import DamagedEntry, ReplayMiss, StoreFull
from oversight.cache.reply import Reply
from oversight.cache.store import MemoryStore
from oversight.engine import errors
from oversight.engine.extensions.simulation import SimModel
from oversight.engine.run.lanes import LANES_FROM_STORE, CellOutcome, attempt, attempt_noted
from oversight.engine.stop import StopToken
from oversight.engine.sweep.sweep import Cell, Sweep
from oversight.protocols.agents.agent import Agent
from oversight.protocols.drafting import BestOf
from oversight.protocols.errors import Unreadable
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question
from oversight.protocols.transcript import Failure, Transcript, Verdict
from tests.fakes import Scripted, prompt, run_cells
from tests.virtual import now, run
from tests.world import shipments, simulated, sweep

JUDGE = StatedJudge("sim/judge")
SURE = "A: 80%\nB: 20%"


class Kept(dict[int, CellOutcome]):
    """Outcomes by place, in the order in which they completed."""

    def __call__(self, cell: Cell, outcome: CellOutcome) -> None:
        assert cell.place not in self
        self[cell.place] = outcome

    @property
    def kinds(self) -> list[str]:
        """`ok` or the kind of the failure, in the order of the sweep."""
        ends = (self[place] for place in sorted(self))
        return [end.kind if isinstance(end, Failure) else "ok" for end in ends]


def ran(
    grid: Sweep,
    ask: Ask,
    *,
    lanes: int = 4,
    stop_token: StopToken | None = None,
    keep: Callable[[Cell, CellOutcome], None] | None = None,
) -> tuple[Kept, StopToken]:
    results, stop_token = Kept(), stop_token or StopToken()
    run(run_cells(grid.cells(), ask, keep or results, lanes=lanes, stop_token=stop_token))
    return results, stop_token


def failing(when: Callable[[Call], bool], fault: BaseException) -> Scripted:
    def answer(call: Call) -> str:
        if when(call):
            raise fault
        return SURE

    return Scripted(answer)


def about(n: int) -> Callable[[Call], bool]:
    return lambda call: f"Shipment {n}:" in prompt(call).system


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (Unreadable("no number", "gibberish", "c1"), "unreadable", "no number"),
        (errors.InvalidRequest("400: no such field"), "InvalidRequest", "400: no such field"),
        (errors.ContextLengthExceeded("9,000 of 8,000 tokens"), "ContextLengthExceeded",
         "9,000 of 8,000 tokens"),
        (ZeroDivisionError("division by zero"), "crash", "ZeroDivisionError: division by zero"),
        (ExceptionGroup("two", [errors.InvalidRequest("a"), KeyError("b")]), "InvalidRequest", "a"),
        (ExceptionGroup("in", [ExceptionGroup("in", [KeyError("b")])]), "crash", "KeyError: 'b'"),
    ],
)  # fmt: skip
def test_one_bad_cell_stops_no_other(fault, kind, message):
    results, stop_token = ran(sweep(problems=3), failing(about(1), fault))
    assert results.kinds == ["ok", "ok", kind, kind, "ok", "ok"]
    failure = results[2]
    assert isinstance(failure, Failure) and failure.message == message and stop_token.halt is None


def test_a_muddled_reply_stands_in_the_failure_and_a_refusal_is_another_kind():
    def answer(call: Call) -> Reply:
        return Reply("I would rather not.", outcome="refused" if about(0)(call) else "ok")

    results, _ = ran(sweep(), Scripted(answer))
    assert results.kinds == ["declined", "declined", "unreadable", "unreadable"]
    assert all(failure.raw == "I would rather not." for failure in results.values())
    assert all(len(failure.call) == 64 for failure in results.values())


def test_a_crash_is_logged_once_with_its_cell_and_its_traceback(caplog):
    grid = sweep(problems=1)
    with caplog.at_level(logging.ERROR):
        ran(grid, failing(lambda call: True, RuntimeError("a bug")))
    (record,) = caplog.records
    assert record.getMessage().startswith(f"cell {next(grid.cells()).id} crashed")
    assert "a bug" in str(record.exc_info)


def test_text_that_cannot_be_written_is_replaced_in_a_failure(caplog):
    # A captured record of half a character could not be handed from one process to another.
    caplog.set_level(logging.CRITICAL, "oversight")
    results, _ = ran(sweep(problems=1), failing(lambda call: True, OSError("no file \udce9.txt")))
    assert results[0] == Failure("crash", "OSError: no file ?.txt")


@pytest.mark.parametrize("grouped", [False, True])
def test_a_halt_stops_all_lanes_and_cells_that_were_cut_have_no_outcome(grouped):
    halt = errors.QuotaExhausted("no credit")
    fault = ExceptionGroup("g", [KeyError(), ExceptionGroup("g", [halt])]) if grouped else halt
    ask = failing(about(2), fault)
    results, stop_token = ran(sweep(problems=50), ask, lanes=3)
    assert stop_token.halt is halt and results.kinds == ["ok"] * len(results)
    assert 4 <= len(results) <= 6 and len(ask.calls) <= len(results) + 3


def test_a_halt_lets_cells_under_way_end_whose_calls_are_answered():
    stop_token = StopToken()

    async def ask(call: Call) -> Reply:
        await asyncio.sleep(1)
        stop_token.stop(errors.Interrupted(2))
        await asyncio.sleep(1)
        return Reply(SURE)

    results, _ = ran(sweep(problems=50), ask, lanes=6, stop_token=stop_token)
    assert sorted(results) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("fault", [StoreFull("no room"), DamagedEntry("k", "its checksum")])
def test_a_store_that_cannot_serve_stops_the_run_and_fails_no_cell(fault):
    results, stop_token = ran(sweep(problems=9), failing(about(1), fault), lanes=1)
    assert isinstance(stop_token.halt, errors.StoreFailed) and str(fault) in str(stop_token.halt)
    assert results.kinds == ["ok", "ok"]


def test_a_run_folder_that_takes_no_more_stops_the_run():
    results = Kept()

    def keep(cell: Cell, outcome: CellOutcome) -> None:
        if cell.place >= 2:
            raise errors.RunFolderError("outcomes.jsonl: No space left on device")
        results(cell, outcome)

    ask = Scripted(lambda call: SURE)
    _, stop_token = ran(sweep(problems=50), ask, keep=keep)
    assert isinstance(stop_token.halt, errors.StoreFailed) and "No space left" in str(
        stop_token.halt
    )
    assert sorted(results) == [0, 1] and len(ask.calls) <= 8


@pytest.mark.parametrize("grouped", [False, True])
def test_a_replay_miss_ends_the_run_bare(grouped):
    miss = ReplayMiss("sim/judge", "a" * 64)
    fault = ExceptionGroup("g", [KeyError(), miss]) if grouped else miss
    ask, results = failing(about(2), fault), Kept()
    with pytest.raises(ReplayMiss) as raised:
        ran(sweep(problems=50), ask, lanes=2, keep=results)
    assert raised.value is miss and results.kinds == ["ok"] * len(results) and len(ask.calls) < 10


def test_failure_to_keep_outcomes_is_reported():
    def keep(cell: Cell, outcome: CellOutcome) -> None:
        raise RuntimeError("a bug in the keeper")

    with pytest.raises(RuntimeError, match="a bug in the keeper"):
        ran(sweep(), Scripted(lambda call: SURE), keep=keep)


def test_cells_are_taken_only_when_lanes_are_free_and_a_cancelled_run_keeps_none():
    started: list[int] = []

    def cells() -> Iterator[Cell]:
        for cell in sweep(problems=50).cells():
            started.append(cell.place)
            yield cell

    async def main(seconds: float) -> None:
        ask = Scripted(lambda call: SURE, delay=1)
        async with asyncio.timeout(seconds):
            await run_cells(cells(), ask, results, lanes=5, stop_token=StopToken())

    results = Kept()
    with pytest.raises(TimeoutError):
        run(main(0.5))
    assert started == [0, 1, 2, 3, 4] and not results
    run(main(100))
    assert len(results) == 100


def test_a_few_lanes_run_until_a_reply_is_waited_for():
    def most_at_once(waited_for: bool) -> int:
        answered = Counter[int]()

        def answer(call: Call) -> str:
            answered[round(now())] += 1
            return SURE

        def waits() -> bool:
            return waited_for and bool(ask.calls)

        results, ask, cells = Kept(), Scripted(answer, delay=1), sweep(problems=50).cells()
        run(run_cells(cells, ask, results, lanes=40, stop_token=StopToken(), waits=waits))
        assert len(results) == 100
        return max(answered.values())

    assert most_at_once(False) == LANES_FROM_STORE < 40 and most_at_once(True) == 40


def test_signals_are_handled_even_if_every_cell_is_answered_at_once():
    stop_token, results = StopToken(), Kept()

    async def main() -> None:
        asyncio.get_running_loop().call_later(0, stop_token.stop, errors.Interrupted(2))
        cells, ask = sweep(problems=50).cells(), Scripted(lambda call: SURE)
        await run_cells(cells, ask, results, lanes=1, stop_token=stop_token)

    run(main())
    assert len(results) < 10


def test_each_draw_asks_for_different_samples():
    ask = Scripted(lambda call: SURE)
    ran(sweep(problems=1, draws=3), ask)
    assert sorted(call.draw for call in ask.calls) == [(0,), (0,), (1,), (1,), (2,), (2,)]


@dataclass(frozen=True)
class Odd(Protocol):
    """A protocol that returns any value."""

    gives: Callable[[Transcript], object] = lambda transcript: None

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        return self.gives(Transcript(question))


def odd(gives: Callable[[Transcript], object]) -> CellOutcome:
    cell = next(sweep(problems=1).cells())
    row = replace(cell.row, protocol=Odd(JUDGE, gives))
    return run(attempt(structs.replace(cell, row=row), Scripted(lambda call: SURE)))


@pytest.mark.parametrize("gives", [
    lambda transcript: None, lambda transcript: (0.5, 0.5),
    *(partial(Verdict, probs) for probs in ((1.0,), (0.2, 0.2, 0.6), (0.9, 0.2), (0.5, 0.2))),
    *(partial(Verdict, probs) for probs in ((1.2, -0.2), (np.nan, 0.5), ("0.5", "half"))),
    *(partial(Verdict, (1.0, 0.0), measures=(("loss", it),)) for it in (np.nan, object())),
])  # fmt: skip
def test_invalid_verdict_fails_its_cell_before_it_reaches_a_figure(gives):
    outcome = odd(gives)
    assert isinstance(outcome, Failure) and outcome.kind == "crash"


def test_numbers_of_other_kinds_are_made_plain():
    outcome = odd(lambda transcript: Verdict(tuple(np.array([1.0, 0.0])), transcript))
    assert isinstance(outcome, Verdict) and [type(p) for p in outcome.probs] == [float, float]


def test_an_interrupt_is_never_taken_for_a_failure_of_the_cell():
    with pytest.raises(KeyboardInterrupt):
        odd(lambda transcript: (_ for _ in ()).throw(KeyboardInterrupt))


def test_shared_results_appear_in_each_cell_as_in_a_single_cell():
    model = simulated(shipments(3), SimModel(refusal=0.1, muddle=0.1))
    agent, judge = Agent("sim/it"), StatedJudge("sim/it")
    debates = [
        Debate(judge, role, rounds=n) for role in (agent, BestOf(3, agent, judge)) for n in (1, 2)
    ]
    cells = list(sweep(NaiveJudge(judge), *debates, problems=3, draws=2).cells())

    async def ends(shares: bool) -> tuple[list[CellOutcome], list[list[str]], int, Cache]:
        cache = Cache(MemoryStore(), model, identity=lambda call: "here")
        shared = cache.shared_results if shares else None
        async with cache:
            results = await asyncio.gather(*(attempt_noted(cell, cache, shared) for cell in cells))
        notes = [sorted(map(repr, end.notes)) for end in results]
        return [end.outcome for end in results], notes, cache.statistics.asked, cache

    alone, together = run(ends(False)), run(ends(True))
    assert together[:3] == alone[:3]
    assert {type(outcome) for outcome in alone[0]} == {Verdict, Failure}
    assert alone[3].statistics.new == together[3].statistics.new < alone[2]
