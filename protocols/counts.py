"""Counts of irregularities in a transcript. Reports show them next to every mean."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType

from .transcript import Turn, Verdict

BROKEN = ("off side", "candid")
"""Side-check findings of speeches that did not argue for their side."""

COUNTED: Mapping[str, Callable[[Turn], int]] = MappingProxyType(
    {
        "refused": lambda turn: turn.outcome == "refused",
        # Cut at max_tokens, including hidden reasoning; `thinking` counts cuts before any text.
        "truncated": lambda turn: turn.outcome == "truncated",
        "thinking": lambda turn: turn.outcome == "truncated" and not turn.text,
        # An empty reply, or a reply that is private from start to end.
        "empty": lambda turn: not turn.text,
        # Reserved tags that speakers tried to write, and invisible characters.
        "forged": lambda turn: turn.forged,
        "hidden": lambda turn: turn.hidden,
        "unknown_stop": lambda turn: turn.unknown_stop,
        "musing": lambda turn: turn.musing,
        # Quotes, claims and marks that no program checked.
        "malformed": lambda turn: turn.malformed,
        # Cut at the word limit.
        "cut": lambda turn: turn.cut,
        "verified": lambda turn: sum(quote.verified is True for quote in turn.quotes),
        "unverified": lambda turn: sum(quote.verified is False for quote in turn.quotes),
        # Uses of tools, failed uses included.
        "tool_calls": lambda turn: len(turn.tools),
        "failed_tools": lambda turn: sum(use.failed for use in turn.tools),
        # The finding of a side check after all retries, and the number of rejected drafts.
        "off_side": lambda turn: turn.check == "off side",
        "candid": lambda turn: turn.check == "candid",
        "unclear_side": lambda turn: turn.check == "unclear",
        "retries": lambda turn: turn.retries,
        "conceded": lambda turn: turn.conceded,
    }
)
"""The counts of a turn, by name."""

_UNKNOWN_STOP = attrgetter("unknown_stop")


def counted(verdict: Verdict) -> dict[str, int]:
    """The nonzero counts, summed over the transcript of a verdict. Replies of judges that stopped
    for an unknown reason are counted too."""
    turns = verdict.transcript.turns
    unknown_stops = sum(map(_UNKNOWN_STOP, verdict.judgements))
    if not unknown_stops and all(map(_as_asked, turns)):
        return {}
    sums = {name: sum(map(count, turns)) for name, count in COUNTED.items()}
    sums["unknown_stop"] += unknown_stops
    return {name: count for name, count in sums.items() if count}


def _as_asked(turn: Turn) -> bool:
    """Whether a turn has no count, as most have."""
    escaped = turn.forged or turn.hidden or turn.malformed
    irregular = escaped or turn.cut or turn.quotes or turn.tools or turn.unknown_stop or turn.musing
    complete = turn.text and turn.outcome == "ok" and turn.check == "unchecked"
    return bool(complete and not irregular and not turn.retries and not turn.conceded)


def unread_by_seat(verdict: Verdict) -> dict[str, int]:
    """Counts of replies per role and cause, as `Judge: truncated`. Causes are refused, cut off,
    empty, unreadable, conceded, and failed side checks. Turns that a selection left out are counted
    with the rest."""
    for turn in verdict.transcript.turns:
        if turn.outcome != "ok" or turn.drafts or turn.conceded or turn.check in BROKEN:
            break
    else:
        if not (verdict.doubts or verdict.unheard):
            return {}
    counts: dict[str, int] = defaultdict(int)
    for doubt in verdict.doubts:
        counts[f"{doubt.seat}: {doubt.cause}"] += 1
    for turn in verdict.turns():
        label = f" {turn.side.label}" if turn.side else ""
        seat = turn.speaker.removesuffix(label)
        if turn.outcome != "ok":
            counts[f"{seat}: {turn.outcome}"] += 1
        if turn.conceded or turn.check in BROKEN:
            counts[f"{seat}: {'conceded' if turn.conceded else turn.check}"] += 1
    return dict(sorted(counts.items()))
