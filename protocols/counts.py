"""Counts of what went otherwise than asked in a transcript; reports show them beside every mean."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType

from .transcript import Turn, Verdict

BROKEN = ("off side", "candid")
"""Findings of a side check by which a speech did not do what it was to do."""

COUNTED: Mapping[str, Callable[[Turn], int]] = MappingProxyType(
    {
        "refused": lambda turn: turn.outcome == "refused",
        # Cut at max_tokens, hidden reasoning included; and of those, before the first word.
        "truncated": lambda turn: turn.outcome == "truncated",
        "thinking": lambda turn: turn.outcome == "truncated" and not turn.text,
        # Nothing to hear: an empty reply, or one that was private from start to end.
        "empty": lambda turn: not turn.text,
        # Reserved tags that speakers tried to write, and characters that nobody sees.
        "forged": lambda turn: turn.forged,
        "hidden": lambda turn: turn.hidden,
        "unknown_stop": lambda turn: turn.unknown_stop,
        "musing": lambda turn: turn.musing,
        # Quotes, claims and marks that no program looked at.
        "malformed": lambda turn: turn.malformed,
        # Cut at the word limit.
        "cut": lambda turn: turn.cut,
        "verified": lambda turn: sum(quote.verified is True for quote in turn.quotes),
        "unverified": lambda turn: sum(quote.verified is False for quote in turn.quotes),
        # Uses of tools, those that failed included.
        "tool_calls": lambda turn: len(turn.tools),
        "failed_tools": lambda turn: sum(use.failed for use in turn.tools),
        # What a side check found, after all retries, and how many drafts it sent back.
        "off_side": lambda turn: turn.check == "off side",
        "candid": lambda turn: turn.check == "candid",
        "unclear_side": lambda turn: turn.check == "unclear",
        "retries": lambda turn: turn.retries,
        "conceded": lambda turn: turn.conceded,
    }
)
"""What is counted of a turn, by name."""

_UNKNOWN_STOP = attrgetter("unknown_stop")


def transcript_counts(verdict: Verdict) -> dict[str, int]:
    """The sum of each count over the transcript behind a verdict, where that is not 0.

    Judges' replies that stopped for an unknown reason are counted too."""
    turns = verdict.transcript.turns
    judged = sum(map(_UNKNOWN_STOP, verdict.judgements))
    if not judged and all(map(_as_asked, turns)):
        return {}
    sums = {name: sum(map(count, turns)) for name, count in COUNTED.items()}
    sums["unknown_stop"] += judged
    return {name: count for name, count in sums.items() if count}


def _as_asked(turn: Turn) -> bool:
    """Whether nothing is to be counted of a turn, as of most."""
    escaped = turn.forged or turn.hidden or turn.malformed
    marked = escaped or turn.cut or turn.quotes or turn.tools or turn.unknown_stop or turn.musing
    whole = turn.text and turn.outcome == "ok" and turn.check == "unchecked"
    return bool(whole and not marked and not turn.retries and not turn.conceded)


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
