"""Figures of raters against what is reckoned by hand from what they answered."""

from pathlib import Path

import pytest

from oversight.engine.analysis.scoring.agreement import krippendorff_alpha
from oversight.engine.extensions.people.journal import (
    BeliefBefore,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    Withdrawn,
    note,
    seated_raters,
)
from oversight.engine.extensions.people.results import rater_agreement, rater_standings
from oversight.engine.extensions.people.task import Moment, answer_digests
from oversight.engine.run.opened import open_run
from oversight.protocols.question import Problem
from tests.command_line import within

pytestmark = pytest.mark.wire

MOMENT = Moment("", "", 0, 0, "", "")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rated")
    (place / "rated.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 3}}\njudges: sim/judge\n"
        "protocols: naive_judge\n"
    )
    assert within("run", "rated.yaml", cwd=place, OVERSIGHT_STORE=str(place / "store")).code == 0
    return next((place / "runs").glob("rated-*"))


def answered(
    rater: str, problem: Problem, truth: float, *, turned: bool = False, seconds: float = 10.0
) -> tuple[TaskGiven, TaskAnswered]:
    """truth: the probability of the right answer. turned: whether the answers were shown in the
    other order."""
    digest, order = answer_digests(problem.question)
    probs = (truth, 1 - truth) if problem.best == 0 else (1 - truth, truth)
    if turned:
        order, probs = order[::-1], probs[::-1]
    task = f"{digest}-{rater}"
    given = TaskGiven(rater, task, digest, digest, order, MOMENT, 0)
    return given, TaskAnswered(rater, task, {}, probs, seconds, 0)


def test_every_figure_is_that_of_the_answers_in_whatever_order_they_were_shown(run):
    a, b, c = open_run(run).sweep.problems
    seated_raters(run / "persons", ["raters"], 3)
    one, two = "raters-1", "raters-2"
    given, first = answered(one, a, 0.9, seconds=20)
    for event in (
        given,
        BeliefBefore(one, first.task, tuple(reversed(first.probs or ())), 5.0),
        first,
        *answered(two, a, 0.8, turned=True),
        *answered(one, b, 0.3, turned=True),
        *answered(two, b, 0.6),
        *answered(two, c, 0.7),
        TaskAbstained(one, "other", 3.0, 0),
        TaskGiven(two, "under way", "x", "p", (), MOMENT, 0),
        *answered("raters-3", a, 0.1),
        Withdrawn("raters-3", False, 0),
    ):
        note(run, event)
    found = rater_agreement(run).plain()
    raters = {each["judge"]: each for each in found["raters"]}
    its, other = raters[one], raters[two]
    # Brier of two answers is -2 (1 - p)^2.
    assert its["score"]["value"] == pytest.approx(-(0.02 + 0.98) / 2)
    assert (its["n"], its["right"]) == (2, 0.5)
    assert its["moved"]["value"] == pytest.approx(-0.02 + 1.62)
    # Sure to 0.9 and 0.7, right in one of two.
    assert its["calibration"]["overconfidence"] == pytest.approx(0.8 - 0.5)
    assert other["score"]["value"] == pytest.approx(-(0.08 + 0.32 + 0.18) / 3)
    probs = [
        [(p, 1 - p) if problem.best == 0 else (1 - p, p) for p in stated]
        for problem, stated in ((a, (0.9, 0.8)), (b, (0.3, 0.6)))
    ]
    by_hand = krippendorff_alpha(probs)
    interval = found["agreement"][0]
    assert by_hand is not None and interval["alpha"]["value"] == pytest.approx(by_hand.alpha.value)
    assert (interval["units"], interval["values"]) == (2, 4)
    assert found["beside"] == []
    standing = {each.rater: each for each in rater_standings(run)}
    assert (standing[one].answered, standing[one].abstained, standing[one].under_way) == (2, 1, 0)
    assert (standing[two].answered, standing[two].under_way) == (3, 1)
    assert standing[one].seconds == 15.0
    told = within("measure", "people", run, cwd=run.parent.parent)
    assert told.code == 0 and "Krippendorff's alpha" in told.out
