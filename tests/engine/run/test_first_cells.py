"""The first cell of each row: a protocol that is not repeatable is reported there."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import ClassVar

import pytest

from oversight.cache.call import Ask
from oversight.engine.run.first_cells import COMPOSED, FirstCells
from oversight.engine.run.lanes import NotedOutcome, attempt_noted
from oversight.engine.run.schedule import UNREPEATABLE
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.question import Answer, Problem, Question
from oversight.protocols.transcript import Failure, Transcript, Turn, Verdict
from tests.fakes import Scripted
from tests.run_folders import outcomes
from tests.virtual import run
from tests.world import sweep


@dataclass(frozen=True)
class Own(NaiveJudge):
    """Asks the judge after each note, and measures a number: both as the test says."""

    notes: ClassVar[Iterator[int]]
    numbers: ClassVar[Iterator[int]]

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript = Transcript(question)
        for n in range(next(self.notes)):
            transcript = transcript.then(Turn("Note", f"note {n}"))
            verdict = await self.judge.judge(transcript, ask)
        return verdict

    async def appraise(self, problem: Problem, side: Answer, verdict: Verdict, ask: Ask):
        return (("number", next(self.numbers)),)


COIN = random.Random(4)
CALLS = "composed twice, its calls differ: take randomness from ask"


@pytest.mark.parametrize(("notes", "numbers", "message"), [
    (repeat(2), repeat(1), ""), (count(1), repeat(1), f"{CALLS} (messages"),
    (chain([3], repeat(2)), repeat(1), f"{CALLS} (2 calls, 3 before)"),
    ((COIN.randrange(1, 3) for _ in count()), repeat(1), CALLS),
    (chain(repeat(2, COMPOSED), [3]), repeat(1), CALLS),
    (repeat(2), count(), "composed twice, its verdicts differ"),
])  # fmt: skip
def test_first_cell_that_is_not_repeatable_fails(notes, numbers, message, monkeypatch):
    monkeypatch.setattr(Own, "notes", notes, raising=False)
    monkeypatch.setattr(Own, "numbers", numbers, raising=False)
    grid = sweep(Own(StatedJudge("sim/judge")))
    ask = Scripted(lambda call: "A: 80%\nB: 20%")

    async def outcomes_of_two() -> list[NotedOutcome]:
        checks, (first, second, *_) = FirstCells(grid.rows), grid.cells()
        noted = await attempt_noted(first, ask)
        sent = len(ask.calls)
        checked = [noted, await checks.checked(first, noted), await checks.checked(second, noted)]
        assert len(ask.calls) == sent, "no model is asked again"
        return checked

    noted, first, second = run(outcomes_of_two())
    assert second is noted, "only the first cell of a row is checked"
    if message:
        assert isinstance(first.outcome, Failure) and first.outcome.kind == UNREPEATABLE
        assert first.outcome.message.startswith(message) and first.notes is noted.notes
    else:
        assert first is noted


CODE = """\
import random
from dataclasses import dataclass
from oversight.protocols import {base}

@dataclass(frozen=True)
class Own({base}):
    async def {method}(self, *given, **named):
        if {heads}:
            await super().{method}(*given[:-1], lambda call: given[-1](call.drawn(1)), **named)
        return await super().{method}(*given, **named)
"""
ROLES = [
    ("Propaganda", "converse", "agents: sim/strong\nprotocols: own.py:Own"),
    ("Agent", "speak", "agents: {kind: own.py:Own, model: sim/strong}\nprotocols: propaganda"),
    ("StatedJudge", "judge", "protocols: naive_judge"),
]


@pytest.mark.wire
@pytest.mark.known_truth
@pytest.mark.parametrize("heads", ["random.random() < .5", "len(repr(given[0])) % 2"])
@pytest.mark.parametrize(("base", "method", "lines"), ROLES)
def test_run_reports_randomness_in_any_own_class(base, method, lines, heads, place, command):
    """The coin is seeded: of 13 tosses, several differ. A paused row asks nothing more."""
    (place / "own.py").write_text(CODE.format(base=base, method=method, heads=heads))
    judge = "{kind: own.py:Own, model: sim/judge}" if base == "StatedJudge" else "sim/judge"
    problems = "problems: {bundled: {name: arithmetic, limit: 20}}\nmax_cells: 1"
    (place / "own.yaml").write_text(f"{problems}\njudges: {judge}\n{lines}\n")
    random.seed(3)
    ran = command("run", "own.yaml", "--run-folder", "run")
    failures = [outcome.failure for outcome in outcomes(place / "run") if outcome.failure]
    if "random" not in heads:
        assert ran.code == 0 and not failures, ran.err
        return
    assert ran.code == 3 and "its first cell failed: unrepeatable" in ran.err, ran.err
    assert len(failures) == 1 and failures[0].message.startswith(CALLS)
    assert "cells were not started: their rows are paused" in ran.err
