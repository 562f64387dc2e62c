"""Lists that a seat writes down: subquestions, criteria, steps, subclaims."""

from dataclasses import replace

from oversight.cache.call import Ask
from oversight.protocols.prompts.forms import read_form, texts_form, texts_in
from oversight.protocols.protocol import Seat
from oversight.protocols.transcript import Transcript, Turn


async def list_entries(
    name: str, most: int, seat: Seat, floor: Transcript, ask: Ask
) -> tuple[Turn, ...]:
    """What the seat lists on this floor (a form), one turn an entry, the first `most` of them.

    name: of the form, and so the task as programs read it in the prompt. {most} in the seat's
    stance stands for that number. Every entry is defused, and cut at the speaker's word limit.
    Empty if nothing is listed; Unreadable if the reply is no list.
    """
    speaker, side, brief = seat
    base_agent, form = speaker.base_agent, texts_form(name)
    told = replace(brief, stance=brief.stance.replace("{most}", str(most)))
    reply = await ask(base_agent.compose(floor, side, told, form=form))
    texts = texts_in(read_form(reply, form), name, reply)[:most]
    return tuple(base_agent.read(replace(reply, text=text), (), side, brief) for text in texts)


def as_list(entries: tuple[Turn, ...]) -> Turn:
    """One turn that shows the entries as a list, counted from 1. There must be at least one."""
    lines = (f"[{number}] {entry.text}" for number, entry in enumerate(entries, 1))
    return replace(
        entries[0],
        text="\n".join(lines),
        forged=sum(entry.forged for entry in entries),
        cut=any(entry.cut for entry in entries),
    )
