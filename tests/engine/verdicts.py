"""Hand-made outcomes, for tests of the analysis."""

from collections.abc import Callable, Iterator, Mapping

from oversight.engine.analysis.reports.results import Results, collect
from oversight.engine.run.outcome import OutcomeRecord, outcome_of
from oversight.engine.sweep.sweep import Cell, Sweep, report_rows
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Problem, Question
from oversight.protocols.transcript import Failure, Transcript, Turn, Verdict

JUDGE = StatedJudge("sim/judge")
NAIVE = NaiveJudge(JUDGE)
PROPAGANDA = Propaganda(JUDGE, Agent("sim/strong"))

Worlds = tuple[float | Failure | None, ...]
"""Probability of the first of two answers in each world, or its failure; None: did not run."""


def problem(n: int, values: tuple[float, ...] = (1, -1), group: str = "") -> Problem:
    answers = tuple(Answer("ABCD"[place], str(place)) for place in range(len(values)))
    return Problem(f"p{n}", Question(f"Question {n}?", answers), values, group)


def sweep(*protocols: Protocol, problems: int | list[Problem] = 2, draws: int = 1) -> Sweep:
    questions = [problem(n) for n in range(problems)] if isinstance(problems, int) else problems
    return Sweep("s", tuple(questions), report_rows(protocols), draws)


def records(
    grid: Sweep, worlds: Mapping[tuple[str, str, int], Worlds], **more: object
) -> Iterator[OutcomeRecord]:
    """worlds: by (kind of protocol, problem, draw). more: further parts of each verdict."""
    for cell in grid.cells():
        world = worlds.get((cell.row.kind, cell.problem.id, cell.draw))
        outcome = world[cell.side] if world else None
        if isinstance(outcome, float):
            outcome = verdict(cell, outcome, 1 - outcome, **more)
        if outcome is not None:
            yield outcome_of(cell, outcome)


def completed(grid: Sweep, outcome: Callable[[Cell], Verdict | Failure]) -> list[OutcomeRecord]:
    """A run in which every cell has an outcome."""
    return [outcome_of(cell, outcome(cell)) for cell in grid.cells()]


def verdict(cell: Cell, *probs: float, **more: object) -> Verdict:
    return Verdict(probs, Transcript(cell.problem.question), **more)


def results(grid: Sweep, worlds: Mapping[tuple[str, str, int], Worlds], **how: object) -> Results:
    return collect(grid, records(grid, worlds), **how)


SMALL = {
    ("naive judge", "p0", 0): (0.7, 0.7),
    ("naive judge", "p1", 0): (0.5, 0.5),
    ("propaganda", "p0", 0): (0.9, 0.6),
    ("propaganda", "p1", 0): (0.8, 0.3),
}
"""Two protocols on two problems."""


def said(text: str, **turn: object) -> Transcript:
    return Transcript(problem(0).question, (Turn("Advocate A", text, **turn),))
