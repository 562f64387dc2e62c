"""Counts of what went otherwise than asked in a transcript; reports show them beside every mean."""

from collections import defaultdict
from dataclasses import dataclass, fields

from .transcript import Turn, Verdict

BROKEN = ("off side", "candid")
"""Findings of a side check by which a speech did not do what it was to do."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of turns, unless a field says otherwise. They add up over cells; `Counts()` is all
    zeros."""

    refused: int = 0
    truncated: int = 0
    """Cut at max_tokens, hidden reasoning included."""
    thinking: int = 0
    """Of those, cut before the first word."""
    empty: int = 0
    """Nothing to hear: an empty reply, or one that was private from start to end."""
    forged: int = 0
    """Reserved tags that speakers tried to write."""
    hidden: int = 0
    """Characters that nobody sees, as `oversight.cache.folding` says."""
    cut: int = 0
    """Cut at the word limit."""
    verified: int = 0
    """Quotes that stand in the passage."""
    unverified: int = 0
    """Quotes that do not."""
    tool_calls: int = 0
    """Uses of tools, those that failed included."""
    failed_tools: int = 0
    """Uses of tools that gave an error."""
    off_side: int = 0
    """Found to argue for another side than the speaker's, after all retries."""
    candid: int = 0
    """Found to say itself that the answer it argues for is wrong, after all retries."""
    unclear_side: int = 0
    """Speeches whose side check could not be read."""
    retries: int = 0
    """Drafts that a side check sent back."""
    conceded: int = 0

    @classmethod
    def of(cls, verdict: Verdict) -> "Counts":
        """The counts of the transcript behind a verdict."""
        rows = [*map(_counted, verdict.transcript.turns)]
        return cls(*map(sum, zip(*rows, strict=True)))

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, name) + getattr(other, name) for name in _NAMES))

    def as_dict(self) -> dict[str, int]:
        """What was counted at least once, by name, in the order of this class."""
        return {name: count for name in _NAMES if (count := getattr(self, name))}


def counted(verdict: Verdict) -> dict[str, int]:
    """`Counts.of` a verdict, `as_dict`; quickly where nothing is to be counted, as in most."""
    for turn in verdict.transcript.turns:
        if (
            turn.forged
            or turn.hidden
            or turn.cut
            or not turn.text
            or turn.quotes
            or turn.tools
            or turn.retries
            or turn.conceded
            or turn.outcome != "ok"
            or turn.check != "unchecked"
        ):
            return Counts.of(verdict).as_dict()
    return {}


def unread_by_seat(verdict: Verdict) -> dict[str, int]:
    """How many replies of each seat were refused, cut off, empty or unreadable, conceded, argued
    for another side or gave themselves away, heard or not, as `Judge: truncated`; what a selection
    left out is counted with the rest."""
    for turn in verdict.transcript.turns:
        if turn.outcome != "ok" or turn.drafts or turn.conceded or turn.check in BROKEN:
            break
    else:
        if not (verdict.doubts or verdict.unheard):
            return {}
    found: dict[str, int] = defaultdict(int)
    for doubt in verdict.doubts:
        found[f"{doubt.seat}: {doubt.cause}"] += 1
    for turn in verdict.turns():
        label = f" {turn.side.label}" if turn.side else ""
        seat = turn.speaker.removesuffix(label)
        if turn.outcome != "ok":
            found[f"{seat}: {turn.outcome}"] += 1
        if turn.conceded or turn.check in BROKEN:
            found[f"{seat}: {'conceded' if turn.conceded else turn.check}"] += 1
    return dict(sorted(found.items()))


_NAMES = tuple(field.name for field in fields(Counts))


def _counted(turn: Turn) -> tuple[int, ...]:
    """What one turn adds, in the order of the fields."""
    return (
        turn.outcome == "refused",
        turn.outcome == "truncated",
        turn.outcome == "truncated" and not turn.text,
        not turn.text,
        turn.forged,
        turn.hidden,
        turn.cut,
        sum(quote.verified is True for quote in turn.quotes) if turn.quotes else 0,
        sum(quote.verified is False for quote in turn.quotes) if turn.quotes else 0,
        len(turn.tools),
        sum(use.failed for use in turn.tools) if turn.tools else 0,
        turn.check == "off side",
        turn.check == "candid",
        turn.check == "unclear",
        turn.retries,
        turn.conceded,
    )
