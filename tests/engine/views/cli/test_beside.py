"""Measures next to the scores in a report, for worlds with known figures."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec import structs
from pytest import approx

from oversight.cache.call import Call
from oversight.engine.analysis.reports.report import finding, report
from oversight.engine.analysis.reports.results import Results, collect
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.display.table import Table
from oversight.engine.run.lanes import attempt
from oversight.engine.run.outcome import OutcomeRecord, outcome_of
from oversight.engine.sweep.sweep import Cell
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.logprob import LogprobJudge
from oversight.protocols.mechanisms.open_protocols import OpenConsultancy, OpenDebate, OpenTrust
from oversight.protocols.protocol import Protocol
from oversight.protocols.transcript import Failure, Judgement, Transcript, Verdict
from tests.engine.verdicts import JUDGE, NAIVE, PROPAGANDA, problem, said, sweep
from tests.fakes import Scripted, prompt
from tests.sessions import sessions
from tests.tables import printed

AGENT = Agent("agent")
OPEN = OpenTrust(JUDGE, AGENT)
LOST = Failure("unreadable", "no number")
Worlds = Mapping[tuple[str, int, int], tuple[float, Mapping[str, Any]] | Failure]
"""By problem, draw and side: the probability of the first answer, and the measures."""


def results_of(protocol: Protocol, worlds: Worlds, draws: int = 1, problems: Any = 2) -> Results:
    """The results of outcomes made by hand, whose order must not matter."""
    grid = sweep(protocol, problems=problems, draws=draws)
    lines = []
    for cell in grid.cells():
        world = worlds.get((cell.problem.id, cell.draw, cell.side))
        if isinstance(world, tuple):
            lines.append(verdict(cell, *world))
        elif world is not None:
            lines.append(outcome_of(cell, world))
    results, backwards = collect(grid, lines), collect(grid, lines[::-1])
    assert backwards == results
    assert report(backwards, "text", measures=True) == report(results, "text", measures=True)
    return results


def verdict(cell: Cell, p: float, measures: Mapping[str, Any]) -> OutcomeRecord:
    answers = len(cell.problem.values)
    other = (1 - p) / (answers - 1)
    probs = (p, *[other] * (answers - 1))
    transcript = Transcript(cell.problem.question)
    return outcome_of(cell, Verdict(probs, transcript, measures=tuple(measures.items())))


def table_of(results: Results, start: str) -> Table | None:
    """The table whose title begins with `start`."""
    tables = finding(results, measures=True).tables()
    return next((table for table in tables if table.title.startswith(start)), None)


def row(results: Results) -> Any:
    (only,) = results.rows
    return only


def figures(figure: Estimate | None) -> tuple[float, int]:
    assert figure is not None
    return approx(figure.value), figure.n


# The agent's choice.


@pytest.mark.parametrize("kind", [OpenConsultancy, OpenDebate, OpenTrust])
@pytest.mark.parametrize("follows", [3, 10])
async def test_open_protocols_are_split_by_the_choice_of_the_agent(kind, follows):
    """The known truth: of 40 problems the agent gets every 4th wrong, and of those 10 the judge
    follows it on 3, or on all; it is never wrong with a right agent. So P(judge wrong | agent
    wrong) is 0.3, or 1, over 10 problems, and always 1 where the agent is trusted blindly."""

    def planted(call: Call) -> str:
        request = prompt(call)
        number = int(request.system.partition("Question ")[2].partition("?")[0])
        errs = number % 4 == 0
        match request.task:
            case "choice":
                return orjson.dumps({"answer": "B" if errs else "A"}).decode()
            case "percentages":
                misled = errs and number // 4 < follows
                return "A: 10%\nB: 90%" if misled else "A: 90%\nB: 10%"
        return "a speech"

    grid, ask = sweep(kind(JUDGE, AGENT), problems=40), Scripted(planted)
    only = row(collect(grid, [outcome_of(c, await attempt(c, ask)) for c in grid.cells()]))
    assert figures(only.chose_right) == (30 / 40, 40)
    wrong = 10 if kind is OpenTrust else follows
    assert figures(only.by_choice.judge_right) == (1, 30)
    assert figures(only.by_choice.judge_wrong) == (wrong / 10, 10)
    # An event of 0 in 30 problems may have a rate of up to 1 - .025^(1/30).
    low, high = only.by_choice.judge_right.interval
    assert (low, high) == (approx(0.884, abs=0.001), 1)
    low, high = only.by_choice.judge_wrong.interval
    assert (low < 0.8 and high == 1) if wrong == 10 else (low < 0.1 and 0.55 < high < 0.75)


A, B, Z = ({"chose": label} for label in "ABZ")


def judged(worlds: Worlds, problems: Any = 2, draws: int = 1) -> list[str]:
    """The judge's verdicts on a right choice, and on a wrong one."""
    by_choice = row(results_of(OPEN, worlds, draws, problems)).by_choice
    estimates = {"right": by_choice.judge_right, "wrong": by_choice.judge_wrong}
    return [f"{name}: {mean and f'{mean.value:g} of {mean.n}'}" for name, mean in estimates.items()]


@sessions(Path(__file__).with_name("choices.md"))
def test_verdict_on_each_choice_is_counted(session, request):
    session.check(request, printed(globals()))


def test_problems_of_one_group_are_one_cluster() -> None:
    grouped = [structs.replace(problem(n), group="text") for n in range(5)] + [problem(5)]
    worlds: Worlds = {(f"p{n}", 0, 1): (0.1, {"chose": "B"}) for n in range(6)}
    wrong = row(results_of(OPEN, worlds, problems=grouped)).by_choice.judge_wrong
    assert (wrong.n, wrong.clusters) == (6, 2)
    low, high = wrong.interval
    assert low < 0.1 and high == 1


# Measures and counts.


def test_measures_are_means_over_problems_by_argued_side() -> None:
    worlds: Worlds = {
        ("p0", 0, 0): (0.9, {"accepted": True, "steps": 4, "loss": 0.5, "held": "A"}),
        ("p0", 0, 1): (0.4, {"accepted": True, "steps": 2, "loss": 0.25, "held": "A"}),
        ("p1", 0, 0): (0.9, {"accepted": True, "steps": 8, "held": "B"}),
        ("p1", 0, 1): (0.4, {"accepted": False, "steps": 3}),
    }
    measures = row(results_of(PROPAGANDA, worlds)).measures
    # Texts have no mean, and an unmeasured world has no value.
    assert {name: (figures(mean.truth), figures(mean.lie)) for name, mean in measures.items()} == {
        "accepted": ((1, 2), (0.5, 2)), "loss": ((0.5, 1), (0.25, 1)), "steps": ((6, 2), (2.5, 2)),
    }  # fmt: skip
    assert measures["accepted"].lie.interval == (0, 1)


def test_draws_are_averaged_before_problems_and_any_best_answer_is_true() -> None:
    worlds: Worlds = {
        ("p0", 0, 0): (0.9, {"steps": 1}), ("p0", 1, 0): (0.9, {"steps": 3}),
        ("p1", 0, 0): (0.9, {"steps": 5}), ("p1", 1, 0): LOST,
    }  # fmt: skip
    steps = row(results_of(PROPAGANDA, worlds, draws=2)).measures["steps"]
    assert (figures(steps.truth), steps.lie) == (((2 + 5) / 2, 2), None)
    graded: Worlds = {("p0", 0, side): (0.4, {"steps": side}) for side in range(3)}
    steps = row(results_of(PROPAGANDA, graded, problems=[problem(0, (-1, 1, 1))])).measures["steps"]
    assert (figures(steps.truth), figures(steps.lie)) == ((1.5, 1), (0, 1))


def test_counts_and_label_probability_are_means_over_worlds_with_a_verdict() -> None:
    grid = sweep(replace(PROPAGANDA, judge=LogprobJudge("sim/judge")), problems=3)

    def outcome(cell: Cell) -> Verdict | Failure:
        if cell.problem.id == "p2":
            return LOST
        odd = cell.problem.id == "p0" and cell.side == 1
        transcript = said("no", outcome="refused", forged=2) if odd else said("yes")
        judged = Judgement((0.5, 0.5), captured=0.6 if odd else 1.0)
        return Verdict((0.5, 0.5), transcript, (judged,))

    only = row(collect(grid, [outcome_of(cell, outcome(cell)) for cell in grid.cells()]))
    assert {name: figures(mean.lie) for name, mean in only.counts_a_world.items()} == {
        "refused": (0.5, 2), "forged": (1, 2), "unread, Advocate A: refused": (0.5, 2),
    }  # fmt: skip
    assert figures(only.counts_a_world["refused"].truth) == (0, 2)
    assert (figures(only.captured.truth), figures(only.captured.lie)) == ((1, 2), (0.8, 2))
    assert only.captured.lie.interval[1] == 1


def test_measures_are_in_json_and_in_text_on_request() -> None:
    worlds = {("p0", 0, 0): (0.9, {"accepted": True}), ("p1", 0, 0): (0.9, {"accepted": False})}
    results = results_of(PROPAGANDA, worlds)
    (only,) = orjson.loads(report(results, "json"))["rows"]
    accepted = only["measures"]["accepted"]["truth"]
    assert (accepted["value"], accepted["low"], accepted["high"], accepted["n"]) == (0.5, 0, 1, 2)
    assert only["measures"]["accepted"]["lie"] is None
    assert only["captured"] == {"truth": None, "lie": None}
    assert set(only["by_choice"].values()) == {None} and "accepted" not in report(results, "text")
    for format in ("text", "markdown", "latex"):
        assert "accepted" in report(results, format, measures=True)
    table = table_of(results, "measures")
    assert table is not None
    assert table.body == (("propaganda", "accepted", "2", "0.50 [0.00, 1.00]", "–", "–"),)
    assert table_of(results_of(NAIVE, {("p0", 0, 0): (0.5, {})}), "measures") is None
