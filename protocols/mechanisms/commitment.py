"""Commitments: a list that a seat lays down before anyone looks, and an entry of ours that ends it.

A list that is too long is never cut: what was cut could be the flaw, or what the list is for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oversight.cache.call import Ask, ResponseFormat
from oversight.cache.reply import Reply
from oversight.protocols.errors import unreadable
from oversight.protocols.prompts.forms import read_form
from oversight.protocols.seat import Seat
from oversight.protocols.transcript import Transcript, Turn

AGAIN = (
    "{stance} You have done so before and listed {listed}, which is more than {most}: nobody will "
    "read that list. Fill in the form anew, with at most {most}."
)


@dataclass(frozen=True, slots=True)
class Commitment:
    entries: tuple[Turn, ...]
    """What the seat listed, and at the end the entry that is ours."""
    form: dict[str, Any]
    """The form as it was filled in."""
    reply: Reply
    asked_again: bool
    """Whether the first list was too long."""


async def commit(
    form: ResponseFormat,
    seat: Seat,
    floor: Transcript,
    ask: Ask,
    *,
    most: int,
    texts: Callable[[dict[str, Any], Reply], tuple[str, ...]],
    ending: Callable[[tuple[Turn, ...], dict[str, Any], Reply], Turn],
) -> Commitment | None:
    """What the seat commits to on this floor (a form); None if it lists nothing.

    most: the most entries, ours aside; {most} in the seat's stance stands for it. texts: the
    entries of the form as it was filled in. ending: our own entry, made of theirs. A seat that
    lists more is told so and asked once again; Unreadable if it does so twice, or if the reply is
    no list. Every entry is defused, and cut with a mark at the speaker's word limit.
    """
    speaker, side, brief = seat
    base_agent, stance = speaker.base_agent, brief.stance.replace("{most}", str(most))
    told, listed = stance, 0
    for asked_again in (False, True):
        reply = await ask(base_agent.compose(floor, side, replace(brief, stance=told), form=form))
        filled = read_form(reply, form)
        said = texts(filled, reply)
        if not said:
            return None
        lines = [" ".join(text.split()) for text in said]
        theirs = tuple(
            base_agent.read(replace(reply, text=line), (), side, brief) for line in lines
        )
        entries = whole((*theirs, ending(theirs, filled, reply)), most + 1)
        if entries is not None:
            return Commitment(tuple(entries), filled, reply, asked_again)
        listed = len(said)
        told = AGAIN.format(stance=stance, listed=listed, most=most)
    raise unreadable(f"{listed} {form.name} listed twice over, where {most} may be", reply)


def whole(entries: Sequence[Turn], most: int) -> Sequence[Turn] | None:
    """The entries, ours with them, if they are at most so many; never a part of them."""
    return entries if len(entries) <= most else None
