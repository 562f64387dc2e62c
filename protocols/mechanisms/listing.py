"""Lists that a seat writes down: subquestions, criteria, steps, subclaims.

A list that is laid down before anyone looks is a commitment. One that is too long is never cut:
what was cut could be the flaw, or the very point of the list.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from msgspec import structs

from ...cache.call import Ask
from ..errors import unreadable
from ..prompts.forms import TEXTS, Filled, Form
from ..seat import Seat
from ..transcript import Transcript, Turn

T = TypeVar("T")


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
        malformed=sum(entry.malformed for entry in entries),
        cut=any(entry.cut for entry in entries),
    )


def numbered(texts: Iterable[str]) -> str:
    """Texts as a list, one per line, numbered from 1. `[2]` in a text becomes `(2)`, so that nobody
    takes it for the number of an entry."""
    for opening, closing in ("[]", "\uff3b\uff3d", "\u3010\u3011"):
        texts = [_unnumbered(text, opening, closing) for text in texts]
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))


def _unnumbered(text: str, opening: str, closing: str) -> str:
    """The text with each whole number between such brackets in parentheses."""
    first, *parts = text.split(opening)
    for part in parts:
        inner, closed, rest = part.partition(closing)
        number = closed and inner.strip(" .:#").isdigit()
        first += f"({inner}){rest}" if number else f"{opening}{part}"
    return first


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A list as its form reads it."""

    texts: tuple[str, ...]
    stated: T
    """What else the form says."""
    said: Filled


@dataclass(frozen=True, slots=True)
class Commitment(Generic[T]):
    entries: tuple[Turn, ...]
    """What the seat listed, and our entry at the end."""
    stated: T
    asked_again: bool
    """Whether the first list was too long."""


async def commit(
    form: Form[Listed[T]],
    seat: Seat,
    transcript: Transcript,
    ask: Ask,
    *,
    most: int,
    ending: Callable[[tuple[Turn, ...], T], Turn],
) -> Commitment[T] | None:
    """What the seat commits to on this transcript (a form); None if it lists nothing.

    most: the most entries, not counting ours. ending: makes our entry from theirs and from what
    else the form says. A seat that lists more is told so and asked once more; Unreadable if it does
    so again, or if the reply is no list. Every entry is escaped, and cut with a mark at the
    speaker's word limit.
    """
    prompt, asked = seat.prompt, seat
    for asked_again in (False, True):
        listed = await asked.fill(form, transcript, ask)
        if not listed.texts:
            return None
        theirs = entries_of(seat, listed.said, [" ".join(text.split()) for text in listed.texts])
        entries = whole((*theirs, ending(theirs, listed.stated)), most + 1)
        if entries is not None:
            return Commitment(tuple(entries), listed.stated, asked_again)
        again = prompt.words.fill("agent.too_many", listed=len(listed.texts), most=most)
        asked = seat._replace(prompt=prompt.also_told(again))
    reason = f"{len(listed.texts)} {form.name} listed twice over, where {most} may be"
    raise unreadable(reason, listed.said.reply)


def whole(entries: Sequence[Turn], most: int) -> Sequence[Turn] | None:
    """All of the entries if there are at most `most`; otherwise None."""
    return entries if len(entries) <= most else None
