"""The readings of replies by each kind of judge (`readings.md`), and properties of all replies."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oversight.cache.reply import Reply, Token
from oversight.protocols import Answer, Question, Transcript, Unreadable
from oversight.protocols.judges.logprob import LogprobJudge, read_masses
from oversight.protocols.judges.stated import DistributionJudge, read_percentages
from oversight.protocols.judges.votes import read_conclusion
from tests.fakes import CRATES, Scripted, token
from tests.sessions import sessions
from tests.tables import expressions

FILE, TRANSCRIPT = Path(__file__).with_name("readings.md"), Transcript(CRATES)
THREE = Question("?", tuple(Answer(label, label.lower()) for label in "ABC"))
WORDED = Question("Is it raining?", (Answer("True", "It is."), Answer("False", "It is not.")))
NEAR = Question("?", (Answer("A", "x"), Answer("AA", "y")))


def stated(text: str, question: Question = CRATES, cut: bool = False) -> tuple[float, ...]:
    return read_percentages(Reply(text, outcome="truncated" if cut else "ok"), question)


def voted(text: str, question: Question = CRATES, cut: bool = False) -> str:
    reply = Reply(text, outcome="truncated" if cut else "ok")
    return question.answers[read_conclusion(reply, question)].label


async def filled(text: str) -> tuple[float, ...]:
    judge = DistributionJudge("sim/weak")
    return (await judge.judge(TRANSCRIPT, Scripted(lambda call: text))).probs


def label(*tokens: Token, text: str = "") -> tuple[float, ...]:
    speech = text or "".join(token.text for token in tokens)
    return tuple(read_masses(Reply(speech, logprobs=tokens), CRATES))


def said(words: list[str]) -> tuple[float, ...]:
    """A reply of these tokens. A label has probability .8 and the other label .2."""
    tokens = []
    for word in words:
        other = {"A": {"B": 0.2}, "B": {"A": 0.2}}.get(word.strip(" ()*Ġ▁"))
        tokens.append(token(word, 0.8, **other) if other else token(word, 0.9, x=0.1))
    return label(*tokens)


@sessions(FILE)
def test_replies_are_read_exactly_or_not_at_all(session, request):
    session.check(request, expressions(globals() | {"inf": math.inf, "log": math.log}))
    if session.heading.startswith("quotes"):  # the judge is never deceived
        read = re.findall(r"^(?!\$|Unreadable|```).+$", session.text, re.MULTILINE)
        assert set(read) <= {"0.9, 0.1", "'A'"}


@given(st.integers(2, 98), st.floats(0, 1), st.permutations(range(3)), st.data())
def test_order_unit_and_decoration_do_not_matter(first, share, order, data):
    second = int((100 - first) * share)
    percents = [first, second, 100 - first - second]
    form = data.draw(st.sampled_from(["{}: {}%", "({}): {}", "**{}**: {} %", "{} = {}.0%"]))
    lines = [form.format(THREE.answers[place].label, percents[place]) for place in order]
    text = data.draw(st.sampled_from(["\n", ", ", " ; ", "\n\n"])).join(lines)
    assert stated(text, THREE) == pytest.approx([percent / 100 for percent in percents])


@given(st.text("AB:=*()%.,-/ \n0123456789e", max_size=40))
@example("A: 1\nB: " + "9" * 400)
def test_any_text_is_probabilities_or_unreadable(text):
    try:
        probs = stated(text)
    except Unreadable:
        return
    assert math.isclose(sum(probs), 1) and min(probs) >= 0
    assert "A" in text and "B" in text


@given(st.text("ANSWERanswer:=*() \nB.is", max_size=40))
def test_any_text_is_one_vote_or_unreadable(text):
    try:
        vote = voted(text)
    except Unreadable:
        return
    assert vote in text.upper()


async def test_judgement_has_the_label_probability_of_at_most_one():
    for at, captured in (
        (token("A", 0.3, B=0.1, The=0.6), 0.4),
        (Token("A", 0.001, (("A", 0.001), ("B", -5.0))), 1.0),
    ):
        ask = Scripted(lambda call, at=at: Reply("A", logprobs=(at,)))
        verdict = await LogprobJudge("sim/weak").judge(TRANSCRIPT, ask)
        assert verdict.judgements[0].captured == pytest.approx(captured, abs=1e-12)
        assert captured == 1 or verdict.probs == pytest.approx((0.75, 0.25))


def test_candidate_that_may_begin_a_sentence_is_not_a_label():
    ten = Question("?", tuple(Answer(label, label.lower()) for label in "ABCDEFGHIJ"))
    for speech, p, other, masses in (
        ("C", 0.5, {"I": 0.4}, {"C": 0.5}),
        (" I", 0.4, {"C": 0.5}, {"I": 0.4, "C": 0.5}),
    ):
        at = token(speech, p, **other)
        result = read_masses(Reply(speech.strip(), logprobs=(at,)), ten)
        assert {"ABCDEFGHIJ"[n]: p for n, p in enumerate(result) if p} == pytest.approx(masses)


REPLIES = Path(__file__).parent.parent / "samples" / "judge_replies.jsonl"
"""Replies of SmolLM2-135M-Instruct to requests for a label after debates, consultancies and no
speech at all. Of each token's candidates, the two likeliest and the labels are kept.

kind: an `echo` of a tag or of a speaker's name, a reply with `none` of the labels, or a `verdict`.
"""


def kept_replies() -> Iterator[tuple[str, list[Token]]]:
    for line in REPLIES.read_bytes().splitlines():
        row = orjson.loads(line)
        yield row["kind"], [Token(text, p, tuple(top.items())) for text, p, top in row["tokens"]]


def test_echoed_names_in_real_replies_are_not_verdicts():
    result: Counter[tuple[str, bool]] = Counter()
    for kind, tokens in kept_replies():
        try:
            label(*tokens)
        except Unreadable:
            result[kind, False] += 1
        else:
            result[kind, True] += 1
    assert result == {("echo", False): 124, ("none", False): 80, ("verdict", True): 43}
