"""The best response of one player of a protocol, by trying every sequence of moves.

For an instance of tests/formal.py: the kind of each call, and the best play for or against a side.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import orjson
import pytest

from oversight import Agent, Answer, Ask, Call, Protocol, Reply, StatedJudge, Unreadable
from oversight.protocols.mechanisms import decomposition as listing
from oversight.protocols.mechanisms import doubly_efficient_debate as steps
from oversight.protocols.mechanisms import prover_estimator_debate as splits
from oversight.protocols.prompts.render import find_statement, read_instructions, read_turns
from oversight.protocols.scores import brier
from tests.conftest import Campaign
from tests.formal import DOMAINS, Instance, instances

EACH_DOMAIN = pytest.mark.parametrize("domain", DOMAINS)
JUDGE, PROVER, OTHER = StatedJudge("judge"), Agent("prover"), Agent("other")
CAP = 2
"""The most that a prover may list; a sound argument needs no more in these domains."""

Moves = Callable[[Call], Sequence[str] | None]
"""The moves of the player at a call; None at calls of other players."""

Score = Callable[[Instance], Awaitable[tuple[float, int]]]
"""ASD with the best liar and the honest prover, and how many plays that took."""

NOTHING = float("-inf")
"""Value of a play without a verdict: less than any verdict."""


class _Branch(Exception):
    def __init__(self, position: str, moves: Sequence[str]) -> None:
        self.position = position
        self.moves = moves


class _Known(Exception):
    def __init__(self, worth: float) -> None:
        self.worth = worth


@dataclass
class Search:
    """One player against others who answer by a function, over all sequences of its moves.

    A position is the address of the call at which the player moves."""

    play: Callable[[Ask], Awaitable[float]]
    """Value of one play for the player."""
    moves: Moves
    others: Callable[[Call], str]
    forgetful: bool = False
    """Whether the value of a position does not depend on earlier moves, so that it is played out
    once. Otherwise every sequence is played."""
    plays: int = 0
    """Plays that reached their end or a position of known value."""
    worths: dict[str, float] = field(default_factory=dict)
    """Values of positions."""

    async def value(self, chosen: tuple[str, ...] = ()) -> float:
        """Value of the best play that starts with these moves."""
        try:
            worth = await self._played(chosen)
        except _Branch as branch:
            worth = max([await self.value((*chosen, move)) for move in branch.moves])
            self.worths[branch.position] = worth
            return worth
        except _Known as known:
            worth = known.worth
        self.plays += 1
        return worth

    async def _played(self, chosen: tuple[str, ...]) -> float:
        moves_left = list(chosen)

        async def ask(call: Call) -> Reply:
            moves = self.moves(call)
            if moves is None:
                return Reply(self.others(call))
            if moves_left:
                return Reply(moves_left.pop(0))
            position = call.address
            if self.forgetful and position in self.worths:
                raise _Known(self.worths[position])
            raise _Branch(position, moves)

        try:
            return await self.play(ask)
        except Unreadable:
            return NOTHING


_CLAIM = re.compile(r"(?:Therefore the|The) right answer is \((\w)\)\.")
ENTRY = re.compile(r"^\[\d+\] (.*)$", re.MULTILINE)


def as_claim(text: str) -> str:
    """The claims of the answers as instances know them; any other text as it is."""
    match = _CLAIM.fullmatch(text)
    return f"answer {match[1]}" if match else text


told_in = lru_cache(maxsize=64)(read_instructions)
"""Facts in a prompt that players look for."""


def task(call: Call) -> str:
    """The kind of a call; `statement` if a judge is asked whether one is true."""
    facts = told_in(call.messages[-1].text)
    if facts and facts.options:
        return "statement"
    return facts.task if facts else ""


def assigned(call: Call) -> str:
    """The label of the answer that a call's speaker must argue for."""
    facts = told_in(call.messages[-1].text)
    assert facts
    return facts.side


def judged(call: Call) -> str:
    """The statement that a judge is asked about."""
    return find_statement(call.messages[-1].text)


def speeches(call: Call) -> list[str]:
    """The speeches that a prompt shows."""
    return [text for _, text in read_turns(call.messages[-1].text)]


def listed(call: Call, place: int = 0) -> list[str]:
    """The entries of the list that a prompt shows at this place."""
    return [as_claim(text) for text in ENTRY.findall(speeches(call)[place])]


def places(call: Call) -> list[int]:
    """The numbers of steps that an opponent may fill in."""
    assert call.response_format
    numbers: list[int] = orjson.loads(call.response_format.schema)["properties"]["step"]["enum"]
    return numbers


def asd(true: float, false: float) -> float:
    """ASD from the verdicts on the argued answer, when it is right and when it is wrong."""
    return brier((true, 1 - true), 0) - brier((false, 1 - false), 0)


async def verdict(
    protocol: Protocol,
    instance: Instance,
    side: Answer,
    moves: Moves,
    others: Callable[[Call], str],
    *,
    against: bool = False,
    forgetful: bool = False,
) -> tuple[float, int]:
    """The verdict on `side` by the best play for it, or against it, and how many were played."""
    place, sign = instance.question.place(side), -1 if against else 1

    async def play(ask: Any) -> float:
        return sign * (await protocol.run(instance.question, side, ask)).probs[place]

    search = Search(play, moves, others, forgetful)
    return sign * await search.value(), search.plays


async def lies_lose(label: str, tried: Iterable[Instance], score: Score) -> None:
    """Every lie falls in each of these instances, and the sound play stands."""
    plays = 0
    for instance in tried:
        asd, played = await score(instance)
        plays += played
        assert asd == 2.0, instance.question
    print(f"{label}: {plays:,} plays, ASD 2 in every instance")


async def lies_win(campaign: Campaign, domain: str, rule: str, score: Score) -> None:
    """The liar wins without this rule, if not in every instance: some have no truism to hide
    behind, or nothing that rests on another step."""
    enough, losses = campaign.size(1, 3), []
    for instance in instances(domain, 20, campaign.seed):
        losses.append((await score(instance))[0])
        won = sum(asd <= 0 for asd in losses)
        if won == enough:
            break
    print(f"{domain} without {rule}: worst ASD {min(losses):+.2f}, {won} of {len(losses)} won")
    assert won == enough


def cut_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read only the beginning of a list that is too long."""

    async def cut(*parts: Any, most: int, **more: Any) -> Any:
        committed = await listing.commit(*parts, most=99, **more)
        return committed and replace(committed, entries=committed.entries[: most + 1])

    for mechanism in (steps, splits):
        monkeypatch.setattr(mechanism, "commit", cut)
