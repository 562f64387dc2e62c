"""Every reader of a model's words takes linear time, so that no text can make it hang.

The measure is the number of characters read or copied, not seconds."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, SupportsIndex

import pytest
from msgspec import structs

from oversight.cache.normalize import normalized
from oversight.cache.reasoning import split_reasoning
from oversight.cache.reply import Reply, Token
from oversight.protocols import Debate, StatedJudge, Unreadable, Words, tags
from oversight.protocols.agents.agent import ADVOCATE, PRIVATE, SPEECH, TOOLS, Agent
from oversight.protocols.agents.tool import Allowance, Scene, check_claims
from oversight.protocols.agents.tools import calculate
from oversight.protocols.datasets.solution import steps
from oversight.protocols.judges.exchange import Renaming
from oversight.protocols.judges.logprob import read_masses
from oversight.protocols.judges.stated import read_percentages
from oversight.protocols.judges.votes import read_conclusion
from oversight.protocols.mechanisms.cross_examination import statements
from oversight.protocols.mechanisms.decomposition import numbered
from oversight.protocols.prompts.forms import TEXT, Form
from oversight.protocols.quotes import find_quotes, marked
from oversight.protocols.tags import escape_and_count, shown
from oversight.protocols.transcript import Quote
from tests.fakes import CRATES, Scripted, prompt

A, _ = CRATES.answers
MOST = 400
"""Maximum characters read or copied per character of a text."""


class TooMuch(Exception):
    pass


class Work:
    """The work done, and its limit."""

    spent = 0
    allowed = 0

    @classmethod
    def add(cls, characters: int) -> None:
        cls.spent += characters
        if cls.spent > cls.allowed:
            raise TooMuch(f"{cls.spent:,} of {cls.allowed:,} characters")


class Counted(str):
    """A text that counts the operations on it and on its parts."""

    __slots__ = ()

    def __getitem__(self, at: SupportsIndex | slice) -> "Counted":
        part_found = super().__getitem__(at)
        Work.add(len(part_found))
        return Counted(part_found)

    def __contains__(self, part: object) -> bool:
        Work.add(len(self))
        return super().__contains__(part)  # type: ignore[operator]

    def find(self, part: str, *within: Any) -> int:
        start, end = (*within, *(0, len(self))[len(within) :])
        part_found = super().find(part, *within)
        Work.add((part_found if part_found >= 0 else end) - start + 1)
        return part_found

    def index(self, part: str, *within: Any) -> int:
        if (part_found := self.find(part, *within)) < 0:
            raise ValueError(part)
        return part_found


def _counting(name: str) -> Callable[..., Any]:
    """A text method that reads a whole text."""
    plain = getattr(str, name)

    def method(self: Counted, *args: Any) -> Any:
        Work.add(len(self))
        return _counted(plain(self, *args))

    return method


def _counted(part_found: Any) -> Any:
    match part_found:
        case str():
            return Counted(part_found)
        case list() | tuple():
            return type(part_found)(map(_counted, part_found))
    return part_found


for _name in (
    *("partition", "rpartition", "split", "rsplit", "splitlines", "rfind", "count", "replace"),
    *("strip", "lstrip", "rstrip", "removesuffix", "removeprefix", "translate", "encode"),
    *("lower", "casefold", "isascii", "isspace", "isalnum"),
):
    setattr(Counted, _name, _counting(_name))


FORM = Form("note", {"note": TEXT}, lambda filled: filled.text("note"))
BRIEF = structs.replace(ADVOCATE, stance=Words(f"{PRIVATE} {SPEECH}"))
SCENE = Scene(CRATES, A)


def _renamed(text: str) -> str:
    return Renaming({"A": "B", "B": "A"}, ()).text(text)


def _pinned(text: str) -> object:
    return [entry.as_far_as("no such part") for entry in statements(text)[:3]]


def _claims_checked(text: str) -> object:
    return asyncio.run(check_claims(Allowance(TOOLS, ("calculator",)), text, SCENE))


READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "folding": (normalized, "a\u0301\u0316\u200b"),
    "thoughts": (split_reasoning, "<think></think>"), "reply": (Reply, "</think>"),
    "tags": (escape_and_count, "< /turn"),
    "marks": (lambda text: shown(text, len(text), ("quote", "claim"), True), "[</quote> ("),
    "parts": (lambda text: numbered([text]), "[2]"),
    "quotes": (lambda text: find_quotes(text, "a b c"), "<quote>"),
    "marked quotes": (lambda text: marked(text, (Quote("a", True),)), "<quote>a</quote>"),
    "speech": (lambda text: Agent("x").read(Reply(text), (), A, BRIEF), "<private> </private>"),
    "concession": (lambda text: Agent("x").read(Reply(text), (), A, ADVOCATE), " i concede"),
    "claims": (_claims_checked, '<claim tool="calculator" expect="1">'),
    "stated": (lambda text: read_percentages(Reply(text), CRATES), "A: 1, "),
    "votes": (lambda text: read_conclusion(Reply(text), CRATES), "Answer: A\n"),
    "cut": (lambda text: read_conclusion(Reply(text, outcome="truncated"), CRATES), "a"),
    "form": (lambda text: FORM.of(Reply(text)), '\n{"note": '),
    "arguments": (TOOLS["calculator"].read, '{"expression": '), "calculator": (calculate, "(1+"),
    "query": (lambda text: TOOLS["query"].read(text), "select "), "statements": (_pinned, "1. a "),
    "labels": (_renamed, "Debater A <quote>"), "solution": (steps, "3 = "),
}  # fmt: skip
"""Readers of models' texts by name, with the alphabet that each one reads."""

FRAGMENTS = (
    *("a", " ", "\n", "\t\n", "a ", "a. ", "3 <", "<", "< ", "<a", "</", '"', "'", "(", "{", "[["),
    *('{"', '\n{"a": ', "\n{ ", "{}\n", "}", "0", "9.", ".1", "1,", "-", "= ", "x ", "*", "`"),
    *("A", "A: ", "A: 1\n", "A (48", "the answer is ", "Answer", "answer: \n", "1) ", "%", " to "),
    *("<turn ", "</turn>", "<quote>", "</quote>", "<private>", "</private>", "<speech>"),
    *("</speech>", "<claim ", "</claim>", "<think>", "</think>", "<|end|></think>", "<|channel|>"),
)


def work(read: Callable[[str], object], fragment: str, length: int) -> int:
    """The work to read a text of this length."""
    text = fragment * (length // len(fragment))
    Work.spent, Work.allowed = 0, MOST * length
    with suppress(Unreadable):
        read(Counted(text))
    return Work.spent


@pytest.mark.parametrize("name", READERS)
def test_every_reader_of_a_models_words_takes_linear_time(name):
    read, alphabet = READERS[name]
    for fragment in (alphabet, *FRAGMENTS):
        once, twice = (work(read, fragment, length) for length in (1_000, 2_000))
        assert twice <= 2.5 * once + 2_000, fragment


@pytest.mark.parametrize("name", READERS)
def test_long_texts_of_a_readers_alphabet_do_not_slow_it(name):
    read, alphabet = READERS[name]
    assert work(read, alphabet, 20_000) <= MOST * 20_000


@pytest.mark.parametrize("text", ["A", " ", "a", "B is", "The answer is A "])
def test_a_verdict_is_looked_for_among_twenty_thousand_tokens(text):
    words = text.split(" ")
    tokens = tuple(Token(Counted(word), -0.1) for word in words) * (20_000 // len(words))
    Work.spent, Work.allowed = 0, MOST * 200_000
    with pytest.raises(Unreadable):
        read_masses(Reply("x", logprobs=tokens), CRATES)


@pytest.mark.parametrize("unit", ["<", "<a ", "</quote>", "[", "(verified) "])
async def test_a_speech_is_escaped_once_however_often_it_is_laid_out(unit, monkeypatch):
    """In a debate judged in both orders, long speeches cost at most three times the characters of
    harmless speeches of the same length."""
    work_done, texts, find = [], [], tags.find_tags
    monkeypatch.setattr(tags, "find_tags", lambda *args: texts.append(args[0]) or find(*args))
    speakers = Agent("alice", words=10**6), Agent("bob", words=10**6)
    for speech in ("x" * 20_000, unit * (20_000 // len(unit))):
        ask = Scripted(lambda c, s=speech: s if prompt(c).task == "speak" else "A: 50%\nB: 50%")
        await Debate(StatedJudge("judge", both_orders=True), *speakers).run(CRATES, A, ask)
        work_done.append(sum(map(len, texts)))
    assert work_done[1] <= 4 * work_done[0]


def test_the_count_detects_quadratic_readers():
    def read(text: str) -> None:
        while text:
            text = text[1:]

    with pytest.raises(TooMuch):
        work(read, "a", 4_000)
