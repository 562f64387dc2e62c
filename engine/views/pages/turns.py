"""The turns of a transcript as a page has them: marked, compared, with their drafts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ....cache.call import Call
from ....cache.reply import Reply
from ....protocols.question import Problem
from ....protocols.transcript import Turn
from ...run.record.values import RecordedCall, RecordedJudgement
from .text import differing, quoted, shown

DRAFTS = ("draft", "rewrite")
"""Roles of the calls from which a turn is chosen."""

MIN_TEXT = 300
"""Minimum bytes of markup granted to each text."""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """One call of a world."""

    call: RecordedCall
    dollars: float | None
    """None where no price is known."""
    request: Call | None = None
    """As the store has it; None where no store is at hand."""
    reply: Reply | None = None

    @property
    def address(self) -> str:
        return self.call.address


@dataclass(frozen=True, slots=True)
class ShownDraft:
    """One candidate for a turn."""

    text: Markup
    address: str
    chosen: bool
    rating: float | None
    """P(the side that it argues for), as the selection judge had it; None where it was not read."""
    said: str
    """Label for a draft that is not a first one, such as a rewrite."""


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn, ready to be shown."""

    number: int
    """From 1."""
    turn: Turn
    text: Markup
    tools: tuple[tuple[str, Markup, Markup, bool], ...]
    """(tool, arguments, result, failed)."""
    marks: tuple[tuple[str, str], ...]
    """(kind, words) of each remark on the turn."""
    asked: AskedCall | None
    shared: bool
    """Whether the other world has the same call."""
    good: bool | None
    """Whether it argues for a best answer; None where it takes no side."""
    drafts: tuple[ShownDraft, ...] = ()
    """The candidates that it was chosen from, itself among them; () where there was one."""


def shown_turn(
    at: int,
    turn: Turn,
    other: Turn | None,
    asked: Mapping[str, AskedCall],
    common: set[str],
    rated: Mapping[str, RecordedJudgement],
    room: int,
    problem: Problem,
) -> ShownTurn:
    """A turn as a page has it. at: its number from 0. other: the turn of the other world that it is
    compared with. common: addresses of calls that both worlds make. rated: what the selection judge
    made of drafts. room: bytes of markup for each text."""
    good = None
    if turn.side is not None:
        good = problem.values[problem.question.place(turn.side)] == max(problem.values)
    text, marks = quoted(turn.text, turn.quotes)
    if other is not None and other.text != turn.text:
        marks += differing(text, quoted(other.text, other.quotes)[0])
    tools = tuple(
        (use.tool, shown(use.arguments, most=room), shown(use.result, most=room), use.failed)
        for use in turn.tools
    )
    return ShownTurn(
        at + 1,
        turn,
        shown(text, (mark for mark in marks if mark.end > mark.start), room),
        tools,
        tuple(_marks(turn)),
        asked.get(turn.call),
        turn.call in common,
        good,
        tuple(_drafts(turn, asked, rated, room, problem)),
    )


def _drafts(
    turn: Turn,
    asked: Mapping[str, AskedCall],
    rated: Mapping[str, RecordedJudgement],
    room: int,
    problem: Problem,
) -> Iterator[ShownDraft]:
    """The candidates for a turn: what the same seat drafted after the same turns."""
    spoken = asked.get(turn.call)
    if spoken is None or spoken.call.role not in DRAFTS:
        return
    moment = spoken.call.seat, spoken.call.heard
    beside = [
        each
        for each in asked.values()
        if each.call.role in DRAFTS and (each.call.seat, each.call.heard) == moment
    ]
    if len(beside) < 2:
        return
    labels = [answer.label for answer in problem.question.answers]
    for each in beside:
        judged, rating = rated.get(each.address), None
        side = turn.side.label if turn.side else judged.side if judged else ""
        if judged and judged.probs and side in labels:
            at = labels.index(side) if len(judged.probs) == len(labels) else 0
            rating = judged.probs[at]
        said = each.call.role if each.call.role != DRAFTS[0] else ""
        text = shown(each.call.text, most=max(room // len(beside), MIN_TEXT))
        yield ShownDraft(text, each.address, each is spoken, rating, said)


def matching(turns: Sequence[Turn], others: Sequence[Turn]) -> dict[int, Turn]:
    """By number, the turn of the other world in which the same speaker speaks as often before."""
    spoken = {(turn.speaker, time): turn for turn, time in _times(others)}
    return {
        n: spoken[turn.speaker, time]
        for n, (turn, time) in enumerate(_times(turns))
        if (turn.speaker, time) in spoken
    }


def _times(turns: Sequence[Turn]) -> Iterator[tuple[Turn, int]]:
    times: Counter[str] = Counter()
    for turn in turns:
        yield turn, times[turn.speaker]
        times[turn.speaker] += 1


def _marks(turn: Turn) -> Iterator[tuple[str, str]]:
    if turn.outcome != "ok":
        yield "bad", turn.outcome
    if turn.forged:
        yield "bad", f"{turn.forged} spoofed tags"
    if turn.hidden:
        yield "bad", f"{turn.hidden} hidden"
    if turn.cut:
        yield "warn", "cut at the word limit"
    if turn.conceded:
        yield "bad", "conceded"
    if turn.check not in ("unchecked", "on side"):
        yield "bad", f"side check: {turn.check}"
    if turn.retries:
        yield "warn", f"draft {turn.retries + 1}"
    if turn.quotes:
        true = sum(quote.verified is True for quote in turn.quotes)
        kind = "good" if true == len(turn.quotes) else "bad"
        yield kind, f"quotes {true}/{len(turn.quotes)}"
