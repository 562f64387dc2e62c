"""Answers that differ in degree, asked of every kind of judge."""

import math

import pytest
from msgspec.structs import replace

from oversight.cache import Call
from oversight.protocols import Answer, Debate, NaiveJudge, Problem, Question
from oversight.protocols.datasets.forms import JsonLines
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.scores import brier
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, Scripted, prompt

ROUTES = Question(
    "Which way to the harbour?",
    (Answer("A", "over the hill"), Answer("B", "by the shore"), Answer("C", "through the town")),
    graded=True,
)
WAYS = Problem("ways", ROUTES, (2, 0.5, -1))


async def test_grades_count_by_how_much_better_an_answer_is():
    """The known truth: every speech for an answer weighs what the answer is worth, in nats, and a
    judge adds them up. In a debate it hears all three in every world, so its verdict is the softmax
    of the values, and the score difference is the sum of value times the Brier score of that
    verdict, with the values' mean taken off; a judge who finds all alike has a third of each."""

    def weighs(call: Call) -> str:
        if prompt(call).task != "percentages":
            return prompt(call).side
        heard = [WAYS.values["ABC".index(said)] for said in prompt(call).speeches]
        weights = [math.exp(value) for value in heard] or [1.0, 1.0, 1.0]
        shares = [100 * weight / sum(weights) for weight in weights]
        return "\n".join(f"{label}: {p:.9f}%" for label, p in zip("ABC", shares, strict=True))

    centred = replace(WAYS, values=tuple(value - 0.5 for value in WAYS.values))
    softmax = [math.exp(value) / sum(map(math.exp, WAYS.values)) for value in WAYS.values]
    expected = sum(v * brier(tuple(softmax), n) for n, v in enumerate(centred.values))
    asd = await Debate(JUDGE, ALICE, rounds=1).agent_score_difference(centred, Scripted(weighs))
    assert asd == pytest.approx(expected, abs=1e-6) and asd > 1
    naive = await NaiveJudge(JUDGE).agent_score_difference(centred, Scripted(weighs))
    assert naive == pytest.approx(0, abs=1e-6)


def test_a_file_says_so_by_its_grades_or_in_so_many_words(tmp_path):
    told = [WAYS, APPLES, replace(APPLES, id="said", question=replace(CRATES, graded=True))]
    told.append(Problem("denied", replace(ROUTES, graded=False), WAYS.values))
    write_jsonl(told, tmp_path / "p.jsonl")
    assert JsonLines("p.jsonl").load(tmp_path) == tuple(told)
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [line.count('"graded"') for line in lines] == [0, 0, 1, 1]
    relabelled = JsonLines("p.jsonl", relabel=True).load(tmp_path)
    assert [each.question.graded for each in relabelled] == [True, False, True, False]
