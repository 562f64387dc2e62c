"""One hand for all answers, on a scripted model, and on one that puts every step alike."""

import re
from contextlib import suppress

import orjson
import pytest

from oversight.cache import Call, Reply
from oversight.protocols import Declined, Gsm8k, Problem, Unreadable, labelled
from oversight.protocols.datasets.leak import WORDING, leakage_check
from oversight.protocols.datasets.rewriting import Rewriter
from tests.fakes import Scripted
from tests.protocols.datasets.published import PUBLISHED, loaded, needs_published

REWRITER = Rewriter("model")
PAIR = [
    ("48", "She fills 4 crates.\n4 * 12 = 48.\nThe answer is 48.", 1.0),
    ("36", "She fills 3 crates.\n3 * 12 = 36.\nThe answer is 36.", -1.0),
]
PROBLEM = labelled("q1", "How many apples?", PAIR, passage="A farm.", group="g")
_SOLUTION = re.compile(r"<solution>\n(.*)\n</solution>", re.DOTALL)


def alike(call: Call) -> str:
    """A rewriter that keeps of each step its equations, or else its last number, in one phrase."""
    found = _SOLUTION.search(call.messages[0].text)
    assert found
    *steps, last = found[1].split("\n")
    kept = []
    for step in steps:
        left, *others = step.split(" = ")
        for right in others:
            if number := re.match(r"-?\d+(?:\.\d+)?", right):
                work = re.sub(r"[^\d.+\-*/() ]", "", left).strip(" .")
                kept.append(f"We get {work} = {number[0]}.")
            left = right
        if not others:
            kept += [f"We get {each}." for each in re.findall(r"\d+(?:\.\d+)?", step)[-1:]]
    final = last.removeprefix("The answer is ").removesuffix(".")
    return orjson.dumps({"steps": kept, "answer": float(final)}).decode()


def answering(steps: list[str], answer: object):
    return Scripted(lambda call: orjson.dumps({"steps": steps, "answer": answer}).decode())


async def test_works_are_rewritten_and_nothing_else():
    made = await REWRITER.rewrite(PROBLEM, Scripted(alike))
    works = {answer.text: answer.work for answer in made.question.answers}
    assert works == {
        "48": "We get 4.\nWe get 4 * 12 = 48.\nThe answer is 48.",
        "36": "We get 3.\nWe get 3 * 12 = 36.\nThe answer is 36.",
    }
    assert (made.id, made.values, made.group) == (PROBLEM.id, PROBLEM.values, "g")
    assert [a.label for a in made.question.answers] == ["A", "B"]
    assert made.question.passage == "A farm."


async def test_the_model_sees_one_solution_and_neither_question_nor_label_nor_value():
    ask = Scripted(alike)
    await REWRITER.rewrite(PROBLEM, ask)
    right, wrong = sorted(ask.calls, key=lambda call: "48" not in call.messages[0].text)
    for call in (right, wrong):
        said = "".join(message.text for message in call.messages)
        assert not re.search(r"How many|A farm|\(A\)|\(B\)|label", said)
    assert "36" not in right.messages[0].text and "48" not in wrong.messages[0].text
    swap = right.messages[0].text.replace("48", "36").replace("4", "3")
    assert swap == wrong.messages[0].text and right.messages[1] == wrong.messages[1]


@pytest.mark.parametrize(
    ("steps", "answer", "words"),
    [
        (["She fills 4.", "4 * 12 = 48."], 36, "was rewritten to come to '36'"),
        ([], 48, "has no steps"),
        (["She fills four."], 48, "the result 12 is gone"),
    ],
)
async def test_what_was_corrected_or_lost_leaves_the_question_out(steps, answer, words):
    pair = [("48", "He has 6 + 6 = 12.\nThe answer is 48.", v) for v in (1.0,)]
    pair.append(("50", "He has 6 + 6 = 12.\nThe answer is 50.", -1.0))
    with pytest.raises(Unreadable, match=words):
        await REWRITER.rewrite(labelled("q", "?", pair), answering(steps, answer))


async def test_an_answer_without_a_work_and_a_refusal_are_told():
    bare = labelled("q", "?", [("48", "", 1.0), ("50", "", -1.0)])
    with pytest.raises(Unreadable, match="has no worked solution to rewrite"):
        await REWRITER.rewrite(bare, Scripted(alike))
    with pytest.raises(Declined):
        await REWRITER.rewrite(PROBLEM, Scripted(lambda call: Reply("No.", outcome="refused")))


@pytest.mark.campaign
@needs_published
async def test_one_hand_hides_who_wrote_a_solution_of_gsm8k():
    """By wording 67 of 100 are told apart; where one hand puts every step alike, what is left is
    what the solutions do."""
    made: list[Problem] = []
    for problem in loaded(Gsm8k(str(PUBLISHED), right="person")):
        with suppress(Unreadable):
            made.append(await REWRITER.rewrite(problem, Scripted(alike)))
    assert len(made) > 1000
    (rule,) = (rule for rule in leakage_check(made).rules if rule.rule == WORDING)
    assert rule.accuracy < 0.62
