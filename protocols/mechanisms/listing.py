"""Lists that a seat writes down: subquestions, criteria, steps, subclaims."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec import structs

from ...cache.call import Ask
from ..prompts.forms import TEXTS, Filled, Form
from ..seat import Seat
from ..transcript import Transcript, Turn


async def list_entries(
    name: str, most: int, seat: Seat, transcript: Transcript, ask: Ask
) -> tuple[Turn, ...]:
    """The first `most` entries that the seat lists on this transcript (a form), one turn each.

    name: of the form, and so of the task as programs read it in the prompt. Every entry is escaped,
    and cut at the speaker's word limit. Empty if nothing is listed; Unreadable if the reply is no
    list.
    """
    form = Form(name, {name: TEXTS}, lambda said: entries_of(seat, said, said.texts(name)[:most]))
    return await seat.fill(form, transcript, ask)


def entries_of(seat: Seat, said: Filled, texts: Sequence[str]) -> tuple[Turn, ...]:
    """One turn of the seat for each text; the first one carries the reasoning."""
    if not texts:
        return ()
    first = seat.turn(said, texts[0])
    rest = (seat.turn(replace(said, fields={}), text) for text in texts[1:])
    return (first, *rest)


def as_list(entries: tuple[Turn, ...]) -> Turn:
    """One turn that shows the entries as a numbered list. There must be at least one."""
    return structs.replace(
        entries[0],
        text=numbered(entry.text for entry in entries),
        forged=sum(entry.forged for entry in entries),
        cut=any(entry.cut for entry in entries),
    )


def numbered(texts: Iterable[str]) -> str:
    """Texts as a list, one a line, numbered from 1."""
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))
