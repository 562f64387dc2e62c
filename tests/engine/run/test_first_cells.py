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
from oversight.engine.run.order import UNREPEATABLE
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.protocol import NamedMeasures
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

    async def appraise(
        self, problem: Problem, side: Answer, verdict: Verdict, ask: Ask
    ) -> NamedMeasures:
        return (("number", next(self.numbers)),)


COIN = random.Random(4)
CALLS = "composed twice, its calls differ: take randomness from ask"


@pytest.mark.parametrize(
    ("notes", "numbers", "message"),
    [
        (repeat(2), repeat(1), ""),
        (count(1), repeat(1), f"{CALLS} (messages"),
        (chain([3], repeat(2)), repeat(1), f"{CALLS} (2 calls, 3 before)"),
        ((COIN.randrange(1, 3) for _ in count()), repeat(1), CALLS),
        (chain(repeat(2, COMPOSED), [3]), repeat(1), CALLS),
        (repeat(2), count(), "composed twice, its verdicts differ"),
    ],
)
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
import {module}
from dataclasses import dataclass
from oversight.protocols import {base}

@dataclass(frozen=True)
class Own({base}):
    async def {method}(self, *given, **named):
        if {tails}:
            {again}
        return await super().{method}(*given, **named)
"""
PURE = "len(str(given[0])) % 2"
"""Depends on the arguments alone."""


@pytest.mark.wire
@pytest.mark.known_truth
@pytest.mark.parametrize("tails", ["random.random() < .5", PURE])
@pytest.mark.parametrize("role", ["protocol", "agent", "judge"])
def test_run_reports_randomness_in_any_own_class(role, tails, place, command):
    """The coin is seeded: of 13 tosses, several differ. Paused rows ask nothing more."""
    base, method, again, lines = {
        "protocol": (
            "Propaganda",
            "converse",
            "given = (await super().converse(*given, **named), *given[1:])",
            "agents: sim/strong\njudges: sim/judge\nprotocols: {naive_judge: , own.py:Own: }\n",
        ),
        "agent": (
            "Agent",
            "speak",
            "await super().speak(*given[:-1], lambda call: given[-1](call.drawn(1)))",
            "agents: {kind: own.py:Own, model: sim/strong}\njudges: sim/judge\n"
            "protocols: {naive_judge: , propaganda: }\n",
        ),
        "judge": (
            "StatedJudge",
            "judge",
            "await super().judge(*given[:-1], lambda call: given[-1](call.drawn(1)))",
            "judges: {kind: own.py:Own, model: sim/judge}\nprotocols: naive_judge\n",
        ),
    }[role]
    code = CODE.format(module="random", base=base, method=method, tails=tails, again=again)
    (place / "own.py").write_text(code)
    problems = "problems: {bundled: {name: arithmetic, limit: 20}}\nmax_cells: 1\n"
    (place / "own.yaml").write_text(problems + lines)
    random.seed(3)
    ran = command("run", "own.yaml", "--run-folder", "run")
    failed = [each for each in outcomes(place / "run") if each.failure]
    if tails == PURE:
        assert ran.code == 0 and not failed, ran.err
    else:
        assert ran.code == 3 and "its first cell failed: unrepeatable" in ran.err, ran.err
        assert len(failed) == 1 and failed[0].failure.message.startswith(CALLS)
        assert "cells were not started: their rows are paused" in ran.err
