"""Quality and agreement of raters, by a few lines of arithmetic: known truths."""

import json

import pytest

from oversight.engine.analysis.raters import alphas, raters
from oversight.engine.analysis.reading import ASIDE
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from oversight.engine.extensions.people.journal import (
    BeliefBefore,
    JudgedTranscript,
    TaskAnswered,
    TaskGiven,
    Withdrawn,
    note,
)
from oversight.engine.extensions.people.results import PeopleJudged
from oversight.engine.extensions.people.task import Moment, answer_digests
from oversight.engine.run.replay import open_run

EVEN, MOMENT = (0.5, 0.5), Moment("", "", 0, 0, "", "")


def judged(judge: str, id: str, p: float, side: int | None = None, **more: object) -> Judgement:
    """A verdict on two answers; the first is right. side: the argued answer, by default all."""
    probs = (p, 1 - p)
    worlds = tuple(probs if side in (None, n) else () for n in range(2))
    keys = {"problem": id, "judge": judge}
    return Judgement(id, (1, -1), worlds, keys, everywhere=side is None, **more)


def test_a_rater_is_as_good_as_the_brier_scores_of_the_truth() -> None:
    every = [
        judged("one", "a", 0.9, first=EVEN),
        judged("one", "b", 0.3, side=1),
        judged("two", "a", 0.8, side=0, first=(0.6, 0.4)),
        judged("two", "b", 0.5),
        judged("two", "c", 0.6, side=1),
    ]
    one, two = raters(Judgements.of(every))
    # -2 (1 - p)^2: -.02 and -.98; -.08, -.5 and -.32.
    assert (one.judge, one.n, one.score.value) == ("one", 2, pytest.approx(-0.5))
    assert (two.judge, two.n, two.score.value) == ("two", 3, pytest.approx(-0.3))
    # A tie counts half.
    assert (one.right.value, two.right.value) == (0.5, pytest.approx(2.5 / 3))
    assert one.moved and one.moved.value == pytest.approx(-0.02 + 0.5)
    assert two.moved and two.moved.value == pytest.approx(-0.08 + 0.32)
    assert one.calibration.overconfidence == pytest.approx((0.9 + 0.7) / 2 - 0.5)
    # All is chance: .4608 within the two, and .0888 within the three, over three degrees.
    within = (0.4608 + 0.0888) / 3
    assert within / 2 > (one.score.value - two.score.value) ** 2
    assert one.shrunk == two.shrunk == pytest.approx((2 * -0.5 + 3 * -0.3) / 5)


@pytest.mark.parametrize("key", ["file", "setting", "speaker", "repeat"])
def test_conversations_about_one_question_are_told_apart_by_each_key(key: str) -> None:
    lines = [
        Judgement(id, (1, -1), ((p, 1 - p),) * 2, keys | {"problem": id, key: value}, None, True)
        for id in "abc"
        for value, p in (("1", 0.9), ("2", 0.2))
        for keys in ({"judge": "one"}, {"judge": "two"})
    ]
    agreement = alphas(Judgements.of(lines))["probabilities (interval); every answer argued"]
    assert agreement and (agreement.units, agreement.alpha.value) == (6, 1)


def test_beliefs_and_verdicts_of_raters_are_in_the_order_of_the_question(place, command) -> None:
    """The rater saw (C), (A), (B); a withdrawn rater counts nowhere."""
    values = {"A": 1, "B": -1, "C": 0}
    answers = [{"label": k, "text": f"It is {k}.", "value": values[k]} for k in values]
    row = {"id": "q", "question": "Which?", "answers": answers, "group": "g"}
    (place / "d.jsonl").write_text(json.dumps(row))
    text = "problems: {file: d.jsonl}\njudges: sim/judge\nprotocols: naive_judge\n"
    (place / "small.yaml").write_text(text)
    assert command("run", "small.yaml", "--run-folder", "run").code == 0
    digest, (a, b, c) = answer_digests(open_run(run := place / "run").sweep.problems[0].question)
    transcript = JudgedTranscript("debate", "sim/judge", "q", "B", (0.7, 0.2, 0.1))
    for rater in ("one", "gone"):
        note(run, TaskGiven(rater, "t", "request", digest, (c, a, b), MOMENT, 0, transcript))
        note(run, BeliefBefore(rater, "t", (0.1, 0.3, 0.6), 1.0))
        note(run, TaskAnswered(rater, "t", {}, (0.2, 0.5, 0.3), 2.0, 0))
    note(run, Withdrawn("gone", False, 0))
    labels = '["A", "B", "C"]'
    keys = {"labels": labels, "repeat": "request", "group": "g", "setting": "debate"}
    aside = keys | {"judge": "sim/judge", ASIDE: "sim/judge"}
    of_rater, of_judge = ((), (0.5, 0.3, 0.2), ()), ((), (0.7, 0.2, 0.1), ())
    assert [*PeopleJudged().judgements(run)] == [
        Judgement("q", (1, -1, 0), of_rater, keys | {"judge": "one"}, (0.3, 0.6, 0.1), line=3),
        Judgement("q", (1, -1, 0), of_judge, aside, line=3),
    ]
