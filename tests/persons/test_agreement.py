"""Figures of raters, compared with figures calculated by hand from their answers."""

from pathlib import Path

import pytest

from oversight.engine.analysis.scoring.agreement import krippendorff_alpha
from oversight.engine.extensions.people.journal import (
    BeliefBefore,
    TaskAnswered,
    TaskGiven,
    Withdrawn,
    note,
    seated_raters,
)
from oversight.engine.extensions.people.results import rater_agreement, rater_standings
from oversight.engine.extensions.people.task import Moment, answer_digests
from oversight.engine.run.replay import open_run
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
    """truth: the probability of the right answer. turned: whether answers were swapped."""
    digest, order = answer_digests(problem.question)
    probs = (truth, 1 - truth) if problem.best == 0 else (1 - truth, truth)
    if turned:
        order, probs = order[::-1], probs[::-1]
    task = f"{digest}-{rater}"
    task_given = TaskGiven(rater, task, digest, digest, order, MOMENT, 0)
    return task_given, TaskAnswered(rater, task, {}, probs, seconds, 0)


def test_figures_do_not_depend_on_the_order_of_answers(run):
    a, b, c = open_run(run).sweep.problems
    seated_raters(run / "persons", ["raters"], 3)
    one, two = "raters-1", "raters-2"
    task_given, first = answered(one, a, 0.9, seconds=20)
    for event in (
        task_given,
        BeliefBefore(one, first.task, tuple(reversed(first.probs or ())), 5.0),
        first,
        *answered(two, a, 0.8, turned=True),
        *answered(one, b, 0.3, turned=True),
        *answered(two, b, 0.6),
        *answered(two, c, 0.7),
        TaskAnswered(one, "other", None, None, 3.0, 0),
        TaskGiven(two, "under way", "x", "p", (), MOMENT, 0),
        *answered("raters-3", a, 0.1),
        Withdrawn("raters-3", False, 0),
    ):
        note(run, event)
    figures = rater_agreement(run).plain()
    raters = {rater["judge"]: rater for rater in figures["raters"]}
    first_rater, second_rater = raters[one], raters[two]
    # Brier of two answers is -2 (1 - p)^2.
    assert first_rater["score"]["value"] == pytest.approx(-(0.02 + 0.98) / 2)
    assert (first_rater["n"], first_rater["right"]) == (2, 0.5)
    assert first_rater["moved"]["value"] == pytest.approx(-0.02 + 1.62)
    # Sure to 0.9 and 0.7, right in one of two.
    assert first_rater["calibration"]["overconfidence"] == pytest.approx(0.8 - 0.5)
    assert second_rater["score"]["value"] == pytest.approx(-(0.08 + 0.32 + 0.18) / 3)
    probs = [
        [(p, 1 - p) if problem.best == 0 else (1 - p, p) for p in probs_of]
        for problem, probs_of in ((a, (0.9, 0.8)), (b, (0.3, 0.6)))
    ]
    by_hand, interval = krippendorff_alpha(probs), figures["agreement"][0]
    assert by_hand is not None and interval["alpha"]["value"] == pytest.approx(by_hand.alpha.value)
    assert (interval["units"], interval["values"]) == (2, 4) and figures["beside"] == []
    standings = {standing.rater: standing for standing in rater_standings(run)}
    mine = standings[one]
    assert (mine.answered, mine.abstained, mine.under_way, mine.seconds) == (2, 1, 0, 15.0)
    assert (standings[two].answered, standings[two].under_way) == (3, 1)
    ran = within("measure", "people", run, cwd=run.parent.parent)
    assert ran.code == 0 and "Krippendorff's alpha" in ran.out
