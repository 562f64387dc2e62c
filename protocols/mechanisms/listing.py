"""Lists that a seat writes down: subquestions, criteria, steps, subclaims."""

from dataclasses import replace

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Brief, Speaker
from oversight.protocols.prompts.forms import TEXTS, Form
from oversight.protocols.question import Answer
from oversight.protocols.seat import Seat
from oversight.protocols.transcript import Transcript, Turn


async def list_entries(
    name: str,
    most: int,
    seat: tuple[Speaker, Answer | None, Brief],
    floor: Transcript,
    ask: Ask,
) -> tuple[Turn, ...]:
    """What the seat lists on this floor (a form), one turn an entry, the first `most` of them.

    name: of the form, and so the task as programs read it in the prompt. {most} in the seat's
    stance stands for that number. Every entry is defused, and cut at the speaker's word limit.
    Empty if nothing is listed; Unreadable if the reply is no list.
    """
    speaker, side, brief = seat
    told = replace(brief, stance=brief.stance.replace("{most}", str(most)))
    listing = Seat(speaker, side, told)
    form = Form(
        name,
        {name: TEXTS},
        lambda said: tuple(listing.turn(said, text) for text in said.texts(name)[:most]),
    )
    return await listing.fill(form, floor, ask)


def as_list(entries: tuple[Turn, ...]) -> Turn:
    """One turn that shows the entries as a list, counted from 1. There must be at least one."""
    lines = (f"[{number}] {entry.text}" for number, entry in enumerate(entries, 1))
    return replace(
        entries[0],
        text="\n".join(lines),
        forged=sum(entry.forged for entry in entries),
        cut=any(entry.cut for entry in entries),
    )
