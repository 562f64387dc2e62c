"""Figures of raters against what is reckoned by hand from what they answered."""

from pathlib import Path

import pytest

from oversight.engine.analysis.scoring.agreement import krippendorff_alpha
from oversight.engine.extensions.people.journal import (
    BeliefBefore,
    RaterJournal,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
)
from oversight.engine.extensions.people.panel import seated_raters
from oversight.engine.extensions.people.raters import rater_agreement, rater_standings
from oversight.engine.extensions.people.task import Moment, answer_digests
from oversight.engine.run.loaded_sweep import open_run
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
) -> TaskAnswered:
    """truth: the probability of the right answer. turned: whether the answers were shown in the
    other order."""
    digest, order = answer_digests(problem.question)
    probs = (truth, 1 - truth) if problem.best == 0 else (1 - truth, truth)
    if turned:
        order, probs = order[::-1], probs[::-1]
    task = f"{digest}-{rater}"
    return TaskAnswered(rater, task, digest, digest, order, {}, probs, seconds, 0)


def test_every_figure_is_that_of_the_answers_in_whatever_order_they_were_shown(run):
    a, b, c = open_run(run).sweep.problems
    seated_raters(run / "persons", ["raters"], 2)
    journal = RaterJournal(run)
    one, two = "raters-1", "raters-2"
    first = answered(one, a, 0.9, seconds=20)
    for event in (
        TaskGiven(one, first.task, first.problem, MOMENT, 0),
        BeliefBefore(one, first.task, tuple(reversed(first.probs or ())), 5.0),
        first,
        answered(two, a, 0.8, turned=True),
        answered(one, b, 0.3, turned=True),
        answered(two, b, 0.6),
        answered(two, c, 0.7),
        TaskAbstained(one, "other", "x", "y", "asked", 3.0, 0),
        TaskGiven(two, "under way", "p", MOMENT, 0),
    ):
        journal.append(event)
    found = rater_agreement(run)
    assert found.tasks == 3
    rater, other = found.raters
    # Brier of two answers is -2 (1 - p)^2.
    one_s, two_s = rater.its, other.its
    assert one_s is not None and one_s.score.value == pytest.approx(-(0.02 + 0.98) / 2)
    assert (rater.judged, one_s.right.value, rater.abstained) == (2, 0.5, 1)
    assert one_s.moved is not None and one_s.moved.value == pytest.approx(-0.02 + 1.62)
    assert rater.seconds == 15.0
    # Sure to 0.9 and 0.7, right in one of two.
    assert one_s.calibration.overconfidence == pytest.approx(0.8 - 0.5)
    assert two_s is not None and two_s.score.value == pytest.approx(-(0.08 + 0.32 + 0.18) / 3)
    probs = [
        [(p, 1 - p) if problem.best == 0 else (1 - p, p) for p in stated]
        for problem, stated in ((a, (0.9, 0.8)), (b, (0.3, 0.6)))
    ]
    by_hand = krippendorff_alpha(probs)
    assert by_hand is not None and found.interval is not None and found.nominal is not None
    assert found.interval.alpha == pytest.approx(by_hand.alpha)
    assert (found.interval.units, found.interval.values) == (2, 4)
    assert found.beside == ()
    standing = {each.rater: each for each in rater_standings(run)}
    assert (standing[one].answered, standing[one].abstained, standing[one].under_way) == (2, 1, 0)
    assert (standing[two].answered, standing[two].under_way) == (3, 1)
    told = within("measure", "people", run, cwd=run.parent.parent)
    assert told.code == 0 and "Krippendorff's alpha" in told.out
