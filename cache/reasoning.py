"""Thoughts in a reply: at the beginning of its text, or beside it.

Texts are scanned from one end to the other: what models write may be of any length.
"""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any

import orjson

from .normalize import words

_FORMS = tomllib.loads(files(__package__).joinpath("thoughts.toml").read_text("utf-8"))


class Tags:
    """Pairs of what thoughts begin and end with."""

    __slots__ = ("either", "ends", "pairs")

    def __init__(self, *pairs: Iterable[str]) -> None:
        self.pairs = tuple((opening.lower(), closing.lower()) for opening, closing in pairs)
        self.either = tuple(tag for pair in self.pairs for tag in pair)
        """All of them, that a text may begin with."""
        self.ends = tuple({closing[0] for _, closing in self.pairs})
        """Characters without which a text has no end of thoughts: most have none of them."""


TAGS = Tags(*_FORMS["tags"])
"""The tags of the families of models that are served today."""
_WORDS, _SPEECH = Tags(*_FORMS["words"]), Tags(*_FORMS["speech"])
_ENDS, _LOOKS = tuple(_FORMS["ends"]), tuple(_FORMS["looks"])
MAX_EMPTY = 16
"""Empty thoughts behind which a lone end may still stand."""
MAX_HEADER = 80
"""Characters of the header of a message of gpt-oss."""
FIRST = 160
"""Characters in which a text shows whether it looks like thoughts."""
_FINAL, _MESSAGE = "<|channel|>final", "<|message|>"
_QUOTES = "`'\"\u201c\u2018«("
"""A lone tag behind one of these is mentioned."""
_SPACE = " \t\n\r▁ĠĊ"
"""White space, and what tokenizers write for it."""


def split_reasoning(
    text: str, thought: bool = False, tags: Tags = TAGS
) -> tuple[str, str, bool] | None:
    """A text as (speech, thoughts, whether it ends within them); None if it has no thoughts.

    Thoughts stand at its beginning, block after block. The last may lack its end: then there is no
    speech. The first may lack its beginning, which many chat templates write into the prompt; not
    where some are known to stand beside the text already, as `thought` says. Tags elsewhere are
    mentioned. Splitting a speech again changes nothing.
    """
    lower = text.lower()
    # A few letters become two: then the case counts.
    lower = lower if len(lower) == len(text) else text
    at, thoughts = _past_space(text, 0), list[str]()
    found = False
    while at < len(text):
        glued = [pair for pair in _WORDS.pairs if lower.startswith(pair[0], at)]
        if glued and (end := lower.find(glued[0][1], at)) >= 0:
            here, at = glued[0], at + len(glued[0][0])
        elif not lower.startswith(tags.either, at):
            # Looking for a lone end takes a walk through the whole text.
            known = thought or len(thoughts) >= MAX_EMPTY or any(thoughts)
            if known or (lone := _lone(lower, at, tags)) is None:
                break
            here, end = lone
        else:
            here = next(pair for pair in tags.pairs if lower.startswith(pair, at))
            start, end = at + len(here[0]), _end(lower, at, *here)
            if end < 0:
                return "", _joined([*thoughts, *_messages(text[start:])]), True
            at = min(start, end)
        thoughts += _messages(text[at:end])
        end += len(here[1])
        at = _past_space(text, _past_header(text, end) if here[1] == _FINAL else end)
        found = True
    if not found:
        return None
    speech = _bare(text[at:]) if text.endswith(_ENDS) else text[at:]
    return _unwrapped(speech, tags), _joined(thoughts), False


def looks_like_thought(text: str) -> bool:
    """Whether a speech begins as models begin their thoughts."""
    start = f" {words(text[:FIRST])}"
    return not text.startswith("<") and any(f" {sign}" in start for sign in _LOOKS)


def separate_reasoning(opaque: str) -> str:
    """The thoughts in the blocks that a provider sent beside the text; empty where it shows none.

    opaque: as `Reply.opaque`; of one that is no JSON nothing is known.
    """
    try:
        blocks = orjson.loads(opaque)
    except orjson.JSONDecodeError:
        return ""
    if isinstance(blocks, dict):
        for name in ("reasoning_content", "reasoning"):
            if isinstance(plain := blocks.get(name), str) and plain:
                return plain
        blocks = blocks.get("reasoning_details") or blocks.get("content")
    if not isinstance(blocks, list):
        return ""
    kinds = ("thinking", "reasoning")
    shown = (b for b in blocks if isinstance(b, dict) and str(b.get("type")).startswith(kinds))
    return _joined(text for block in shown for text in _texts(block))


def spoken_from(tokens: Sequence[str], speech: str) -> int:
    """The place of the token with which a speech begins that ends these tokens; their number if
    that cannot be told."""
    said, written = speech.strip(), "".join(tokens)
    start = written.rfind(said) if said else -1
    rest = written[start + len(said) :].strip(_SPACE)
    # A server may report the token with which the model stopped.
    if start < 0 or (rest and not (rest[0] == "<" and rest[-1] == ">")):
        return len(tokens)
    at = 0
    for place, token in enumerate(tokens):
        if at <= start < at + len(token):
            return len(tokens) if token[: start - at].strip(_SPACE) else place
        at += len(token)
    return len(tokens)


def _end(text: str, at: int, opening: str, closing: str) -> int:
    """Where the block ends that begins here, or of which the end stands here; -1 if nowhere.

    Thoughts within thoughts end first, as far as the text has an end for each.
    """
    end = text.find(closing, at)
    if end == at or opening in closing:
        return end
    start = at + len(opening)
    while end >= 0 and (inner := text.find(opening, start, end)) >= 0:
        further = text.find(closing, end + len(closing))
        if further < 0:
            break
        start, end = inner + len(opening), further
    return end


def _lone(text: str, at: int, tags: Tags) -> tuple[tuple[str, str], int] | None:
    """The first tag that ends thoughts of which nothing shows the beginning, and its place."""
    for first in tags.ends:
        if first in text:
            break
    else:
        return None
    found = []
    for opening, closing in tags.pairs:
        place = text.find(closing, at)
        while place > 0 and text[place - 1] in _QUOTES:
            place = text.find(closing, place + len(closing))
        if place >= 0 and text.find(opening, at, place) < 0:
            found.append((place, (opening, closing)))
    if not found:
        return None
    place, here = min(found)
    return here, place


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _unwrapped(speech: str, tags: Tags) -> str:
    """A speech without the tags around it, unless it would begin as thoughts do."""
    for opening, closing in _SPEECH.pairs:
        inner = speech.strip()
        if inner.lower().startswith(opening):
            inner = inner[len(opening) :].strip()
            inner = inner[: -len(closing)].rstrip() if inner.lower().endswith(closing) else inner
            thoughts = (*tags.either, *(word for word, _ in _WORDS.pairs))
            return speech if inner.lower().startswith(thoughts) else inner
    return speech


def _past_header(text: str, at: int) -> int:
    """Behind the rest of a header, such as ` <|constrain|>json<|message|>`."""
    place = text.find(_MESSAGE, at, at + MAX_HEADER)
    return at if place < 0 else place + len(_MESSAGE)


def _messages(text: str) -> Iterator[str]:
    """The texts of messages of gpt-oss, or a text that is none, without marks."""
    header, *messages = text.split(_MESSAGE)
    for message in messages if len(header) <= MAX_HEADER and messages else (text,):
        yield _bare(message.partition("<|end|>")[0] if messages else message)


def _bare(text: str) -> str:
    """A text without the marks behind a message."""
    text = text.strip()
    for end in _ENDS:
        text = text.removesuffix(end).rstrip()
    return text


def _joined(thoughts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, map(str.strip, thoughts)))


def _texts(block: dict[str, Any]) -> Iterator[str]:
    """The texts of a block, which stand in it or in a list of parts."""
    for name in ("thinking", "text", "summary", "content"):
        match block.get(name):
            case str(text):
                yield text
            case list(parts):
                for part in parts:
                    if isinstance(part, dict) and isinstance(part.get("text"), str):
                        yield part["text"]
