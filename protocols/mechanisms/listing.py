"""Lists that a seat writes: subquestions, criteria, steps, subclaims.

A list that is fixed before anyone reads it is a commitment. Such a list is never cut if it is too
long: the cut part could contain the flaw, or the point of the list.
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
    name: name of the form and of the task in the prompt. Every entry is escaped, and cut at the
    speaker's word limit. Empty if nothing is listed. Unreadable if the reply is not a list."""
    form = Form(
        name, {name: TEXTS}, lambda filled: entries_of(seat, filled, filled.texts(name)[:most])
    )
    return await seat.fill(form, transcript, ask)


def entries_of(seat: Seat, filled: Filled, texts: Sequence[str]) -> tuple[Turn, ...]:
    """One turn of the seat per text. The first one carries the reasoning."""
    if not texts:
        return ()
    first = seat.turn(filled, texts[0])
    others = (seat.turn(replace(filled, fields={}), text) for text in texts[1:])
    return (first, *others)


def as_list(entries: tuple[Turn, ...]) -> Turn:
    """One turn with the entries as a numbered list. At least one entry is required."""
    return structs.replace(
        entries[0],
        text=numbered(entry.text for entry in entries),
        forged=sum(entry.forged for entry in entries),
        malformed=sum(entry.malformed for entry in entries),
        cut=any(entry.cut for entry in entries),
    )


def numbered(texts: Iterable[str]) -> str:
    """Texts as a list, one per line, numbered from 1. `[2]` in a text becomes `(2)`, so that it is
    not read as the number of an entry."""
    for opening, closing in ("[]", "\uff3b\uff3d", "\u3010\u3011"):
        texts = [_unnumbered(text, opening, closing) for text in texts]
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))


def _unnumbered(text: str, opening: str, closing: str) -> str:
    """The text with each whole number between these brackets in parentheses."""
    first, *parts = text.split(opening)
    for part in parts:
        inner, closed, after = part.partition(closing)
        number = closed and inner.strip(" .:#").isdigit()
        first += f"({inner}){after}" if number else f"{opening}{part}"
    return first


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A list as read from its form."""

    texts: tuple[str, ...]
    values: T
    """Further values of the form."""
    filled: Filled


@dataclass(frozen=True, slots=True)
class Commitment(Generic[T]):
    entries: tuple[Turn, ...]
    """The listed entries, followed by the added one."""
    values: T
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
    """The entries that the seat commits to on this transcript (a form). None if it lists nothing.

    most: maximum number of entries, without the added one. ending: makes the added entry from the
    others and the further values. A seat that lists more is asked once more. Unreadable if the
    second list is too long as well, or if a reply is not a list. Every entry is escaped, and cut
    with a mark at the speaker's word limit.
    """
    prompt, asker = seat.prompt, seat
    for asked_again in (False, True):
        listed = await asker.fill(form, transcript, ask)
        if not listed.texts:
            return None
        listed_entries = entries_of(
            seat, listed.filled, [" ".join(text.split()) for text in listed.texts]
        )
        entries = whole((*listed_entries, ending(listed_entries, listed.values)), most + 1)
        if entries is not None:
            return Commitment(tuple(entries), listed.values, asked_again)
        again = prompt.words.fill("agent.too_many", listed=len(listed.texts), most=most)
        asker = seat._replace(prompt=prompt.also_told(again))
    reason = f"{len(listed.texts)} {form.name} listed twice, where {most} are allowed"
    raise unreadable(reason, listed.filled.reply)


def whole(entries: Sequence[Turn], most: int) -> Sequence[Turn] | None:
    """The entries, or None if they are more than `most`."""
    return entries if len(entries) <= most else None
