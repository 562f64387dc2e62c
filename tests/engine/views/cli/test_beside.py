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
from tests.sessions import Session, sessions
from tests.tables import printed

AGENT = Agent("agent")
OPEN = OpenTrust(JUDGE, AGENT)
LOST = Failure("unreadable", "no number")

Told = Mapping[tuple[str, int, int], tuple[float, Mapping[str, Any]] | Failure]
"""By problem, draw and side: the probability of the first answer, and what was measured."""


def told(protocol: Protocol, worlds: Told, draws: int = 1, problems: Any = 2) -> Results:
    """The results of outcomes made by hand, whose order must not matter."""
    grid = sweep(protocol, problems=problems, draws=draws)
    lines = []
    for cell in grid.cells():
        world = worlds.get((cell.problem.id, cell.draw, cell.side))
        if isinstance(world, tuple):
            lines.append(verdict(cell, *world))
        elif world is not None:
            lines.append(outcome_of(cell, world))
    found = collect(grid, lines)
    backwards = collect(grid, lines[::-1])
    assert backwards == found
    assert report(backwards, "text", measures=True) == report(found, "text", measures=True)
    return found


def verdict(cell: Cell, p: float, measures: Mapping[str, Any]) -> OutcomeRecord:
    answers = len(cell.problem.values)
    rest = (1 - p) / (answers - 1)
    probs = (p, *[rest] * (answers - 1))
    transcript = Transcript(cell.problem.question)
    return outcome_of(cell, Verdict(probs, transcript, measures=tuple(measures.items())))


def table_of(found: Results, start: str) -> Table | None:
    """The table whose title begins so."""
    tables = finding(found, measures=True).tables()
    return next((each for each in tables if each.title.startswith(start)), None)


def row(found: Results) -> Any:
    (only,) = found.rows
    return only


def figures(figure: Estimate | None) -> tuple[float, int]:
    assert figure is not None
    return approx(figure.value), figure.n


# The agent's choice.


@pytest.mark.parametrize("kind", [OpenConsultancy, OpenDebate, OpenTrust])
@pytest.mark.parametrize("follows", [3, 10])
async def test_open_protocols_are_split_by_the_agents_choice(
    kind: type[Protocol], follows: int
) -> None:
    """The known truth: of 40 problems the agent gets every 4th wrong, and of those 10 the judge
    follows it on 3, or on all; it is never wrong with a right agent. So P(judge wrong | agent
    wrong) is 0.3, or 1, over 10 problems, and always 1 where the agent is trusted blindly."""

    def planted(call: Call) -> str:
        asked = prompt(call)
        number = int(asked.system.partition("Question ")[2].partition("?")[0])
        errs = number % 4 == 0
        match asked.task:
            case "choice":
                return orjson.dumps({"answer": "B" if errs else "A"}).decode()
            case "percentages":
                misled = errs and number // 4 < follows
                return "A: 10%\nB: 90%" if misled else "A: 90%\nB: 10%"
        return "a speech"

    grid = sweep(kind(JUDGE, AGENT), problems=40)
    ask = Scripted(planted)
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


def judged(worlds: Told, problems: Any = 2, draws: int = 1) -> list[str]:
    """The judge's verdicts on a right choice, and on a wrong one."""
    found = row(told(OPEN, worlds, draws, problems)).by_choice
    made = {"right": found.judge_right, "wrong": found.judge_wrong}
    return [f"{name}: {each and f'{each.value:g} of {each.n}'}" for name, each in made.items()]


@sessions(Path(__file__).with_name("choices.md"))
def test_verdict_on_each_choice_is_counted(
    session: Session, request: pytest.FixtureRequest
) -> None:
    session.check(request, printed(globals()))


def test_a_choice_that_splits_nothing_is_told_and_no_more() -> None:
    lost = told(OPEN, {("p0", 0, 0): (0.9, B), ("p0", 0, 1): LOST})
    nobody = told(OPEN, {("p0", 0, side): (0.5, Z) for side in (0, 1)})
    for found in (lost, nobody):
        assert (row(found).chose_right.value, row(found).by_choice) == (0, None)
    assert table_of(lost, "open protocols") is None


def test_problems_of_one_group_are_one_cluster() -> None:
    grouped = [structs.replace(problem(n), group="text") for n in range(5)] + [problem(5)]
    worlds: Told = {(f"p{n}", 0, 1): (0.1, {"chose": "B"}) for n in range(6)}
    wrong = row(told(OPEN, worlds, problems=grouped)).by_choice.judge_wrong
    assert (wrong.n, wrong.clusters) == (6, 2)
    low, high = wrong.interval
    assert low < 0.1 and high == 1


def test_rows_whose_agent_does_not_choose_are_not_in_the_table_of_choices() -> None:
    assert table_of(told(NAIVE, {("p0", 0, 0): (0.5, {})}), "open protocols") is None
    found = told(OPEN, {("p0", 0, 0): (0.9, A)})
    table = table_of(found, "open protocols")
    assert table and table.body == (("open trust", "100%", "1", "100%", "–", "–"),)
    assert "open protocols" in report(found, "markdown", measures=True)


# Measures and counts.


def test_measures_are_means_over_problems_by_argued_side() -> None:
    worlds: Told = {
        ("p0", 0, 0): (0.9, {"accepted": True, "steps": 4, "loss": 0.5, "held": "A"}),
        ("p0", 0, 1): (0.4, {"accepted": True, "steps": 2, "loss": 0.25, "held": "A"}),
        ("p1", 0, 0): (0.9, {"accepted": True, "steps": 8, "held": "B"}),
        ("p1", 0, 1): (0.4, {"accepted": False, "steps": 3}),
    }
    found = row(told(PROPAGANDA, worlds)).measures
    # Texts have no mean, and an unmeasured world has no value.
    assert {name: (figures(its.truth), figures(its.lie)) for name, its in found.items()} == {
        "accepted": ((1, 2), (0.5, 2)),
        "loss": ((0.5, 1), (0.25, 1)),
        "steps": ((6, 2), (2.5, 2)),
    }
    assert found["accepted"].lie.interval == (0, 1)


def test_draws_are_averaged_before_problems_and_the_truth_is_any_best_answer() -> None:
    worlds: Told = {
        ("p0", 0, 0): (0.9, {"steps": 1}),
        ("p0", 1, 0): (0.9, {"steps": 3}),
        ("p1", 0, 0): (0.9, {"steps": 5}),
        ("p1", 1, 0): LOST,
    }
    found = row(told(PROPAGANDA, worlds, draws=2)).measures["steps"]
    assert (figures(found.truth), found.lie) == (((2 + 5) / 2, 2), None)
    graded: Told = {("p0", 0, side): (0.4, {"steps": side}) for side in range(3)}
    found = row(told(PROPAGANDA, graded, problems=[problem(0, (-1, 1, 1))])).measures["steps"]
    assert (figures(found.truth), figures(found.lie)) == ((1.5, 1), (0, 1))


def test_counts_and_captured_mass_are_means_over_all_worlds_with_a_verdict() -> None:
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
        "refused": (0.5, 2),
        "forged": (1, 2),
        "unread, Advocate A: refused": (0.5, 2),
    }
    assert figures(only.counts_a_world["refused"].truth) == (0, 2)
    assert (figures(only.captured.truth), figures(only.captured.lie)) == ((1, 2), (0.8, 2))
    assert only.captured.lie.interval[1] == 1


def test_json_has_all_of_it_and_text_where_it_is_asked_for() -> None:
    worlds: Told = {
        ("p0", 0, 0): (0.9, {"accepted": True}),
        ("p1", 0, 0): (0.9, {"accepted": False}),
    }
    found = told(PROPAGANDA, worlds)
    (only,) = orjson.loads(report(found, "json"))["rows"]
    accepted = only["measures"]["accepted"]["truth"]
    assert (accepted["value"], accepted["low"], accepted["high"], accepted["n"]) == (0.5, 0, 1, 2)
    assert only["measures"]["accepted"]["lie"] is None
    assert only["captured"] == {"truth": None, "lie": None}
    assert set(only["by_choice"].values()) == {None}
    assert "accepted" not in report(found, "text")
    for format in ("text", "markdown", "latex"):
        assert "accepted" in report(found, format, measures=True)
    table = table_of(found, "measures")
    assert table is not None
    assert table.body == (("propaganda", "accepted", "2", "0.50 [0.00, 1.00]", "–", "–"),)
    assert table_of(told(NAIVE, {("p0", 0, 0): (0.5, {})}), "measures") is None
