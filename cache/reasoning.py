"""Separates a model's reasoning from its reply: at the start of the text, or in separate blocks.

Texts may be of any length, so they are scanned in linear time."""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any

import orjson

from .normalize import words

_FORMS = tomllib.loads(files(__package__).joinpath("thoughts.toml").read_text("utf-8"))


class Tags:
    """Pairs of an opening and a closing tag of reasoning."""

    __slots__ = ("either", "ends", "pairs")

    def __init__(self, *pairs: Iterable[str]) -> None:
        self.pairs = tuple((opening.lower(), closing.lower()) for opening, closing in pairs)
        self.either = tuple(tag for pair in self.pairs for tag in pair)
        """All tags: a text with reasoning starts with one."""
        self.ends = tuple({closing[0] for _, closing in self.pairs})
        """First characters of the closing tags: most texts contain none of them."""


TAGS = Tags(*_FORMS["tags"])
"""The default tags, of the model families in use."""
_WORDS, _SPEECH = Tags(*_FORMS["words"]), Tags(*_FORMS["speech"])
_ENDS, _LOOKS = tuple(_FORMS["ends"]), tuple(_FORMS["looks"])
_WORDS_OF_LOOKS = tuple({max(look.split(), key=len) for look in _LOOKS})
MAX_EMPTY = 16
"""Maximum empty blocks before an unmatched closing tag."""
MAX_HEADER = 80
"""Maximum characters of a message header of gpt-oss."""
FIRST = 160
"""Characters at the start of a text that are checked for signs of reasoning."""
_FINAL, _MESSAGE = "<|channel|>final", "<|message|>"
_QUOTES = "`'\"\u201c\u2018«("
"""An unmatched tag after one of these is quoted, not used."""
_SPACE = " \t\n\r▁ĠĊ"
"""White space, and the characters that tokenizers write for it."""


def split_reasoning(
    text: str, thought: bool = False, tags: Tags = TAGS
) -> tuple[str, str, bool] | None:
    """Split a text into (speech, reasoning, whether it ends within reasoning); None if it has none.

    Reasoning blocks stand at the beginning. If the last one is not closed, the speech is empty. The
    first opening tag may be missing, since many chat templates write it into the prompt, unless
    `thought` says that separate reasoning is known. Tags elsewhere count as text. Splitting a
    speech again changes nothing."""
    lower = text.lower()
    # Lower-casing may change the length: then the original case is used.
    lower = lower if len(lower) == len(text) else text
    at, thoughts = _past_space(text, 0), list[str]()
    any_block = False
    while at < len(text):
        glued = [pair for pair in _WORDS.pairs if lower.startswith(pair[0], at)]
        if glued and (end := lower.find(glued[0][1], at)) >= 0:
            pair, at = glued[0], at + len(glued[0][0])
        elif not lower.startswith(tags.either, at):
            # Searching for an unmatched closing tag scans the whole text.
            has_reasoning = thought or len(thoughts) >= MAX_EMPTY or any(thoughts)
            if has_reasoning or (lone := _lone(lower, at, tags)) is None:
                break
            pair, end = lone
        else:
            pair = next(pair for pair in tags.pairs if lower.startswith(pair, at))
            start, end = at + len(pair[0]), _end(lower, at, *pair)
            if end < 0:
                return "", _joined([*thoughts, *_messages(text[start:])]), True
            at = min(start, end)
        thoughts += _messages(text[at:end])
        end += len(pair[1])
        at = _past_space(text, _past_header(text, end) if pair[1] == _FINAL else end)
        any_block = True
    if not any_block:
        return None
    speech = _bare(text[at:]) if text.endswith(_ENDS) else text[at:]
    return _unwrapped(speech, tags), _joined(thoughts), False


def looks_like_thought(text: str) -> bool:
    """Whether a speech starts like reasoning."""
    start = text[:FIRST]
    if text.startswith("<") or not any(map(start.casefold().__contains__, _WORDS_OF_LOOKS)):
        return False
    start = f" {words(start)}"
    return any(f" {sign}" in start for sign in _LOOKS)


def separate_reasoning(opaque: str) -> str:
    """The reasoning in the blocks that a provider sent separately; empty if it shows none. opaque:
    as in `Reply.opaque`; other text than JSON counts as empty."""
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
    reasoning_blocks = (
        b for b in blocks if isinstance(b, dict) and str(b.get("type")).startswith(kinds)
    )
    return _joined(text for block in reasoning_blocks for text in _texts(block))


def spoken_from(tokens: Sequence[str], speech: str) -> int:
    """Index of the token where the speech starts, given the tokens of the whole text; their number
    if it cannot be determined."""
    trimmed, written = speech.strip(), "".join(tokens)
    start = written.rfind(trimmed) if trimmed else -1
    after = written[start + len(trimmed) :].strip(_SPACE)
    # A server may report the token with which the model stopped.
    if start < 0 or (after and not (after[0] == "<" and after[-1] == ">")):
        return len(tokens)
    at = 0
    for place, token in enumerate(tokens):
        if at <= start < at + len(token):
            return len(tokens) if token[: start - at].strip(_SPACE) else place
        at += len(token)
    return len(tokens)


def _end(text: str, at: int, opening: str, closing: str) -> int:
    """End of the block that starts here, or position of its closing tag if that is here; -1 if
    missing. Nested blocks end first, as far as each has a closing tag."""
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
    """The first unmatched closing tag: its pair and position."""
    for first in tags.ends:
        if first in text:
            break
    else:
        return None
    candidates = []
    for opening, closing in tags.pairs:
        place = text.find(closing, at)
        while place > 0 and text[place - 1] in _QUOTES:
            place = text.find(closing, place + len(closing))
        if place >= 0 and text.find(opening, at, place) < 0:
            candidates.append((place, (opening, closing)))
    if not candidates:
        return None
    place, pair = min(candidates)
    return pair, place


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _unwrapped(speech: str, tags: Tags) -> str:
    """A speech without surrounding tags, unless it would then start like reasoning."""
    for opening, closing in _SPEECH.pairs:
        inner = speech.strip()
        if inner.lower().startswith(opening):
            inner = inner[len(opening) :].strip()
            inner = inner[: -len(closing)].rstrip() if inner.lower().endswith(closing) else inner
            thoughts = (*tags.either, *(word for word, _ in _WORDS.pairs))
            return speech if inner.lower().startswith(thoughts) else inner
    return speech


def _past_header(text: str, at: int) -> int:
    """Position after the rest of a header, such as ` <|constrain|>json<|message|>`."""
    place = text.find(_MESSAGE, at, at + MAX_HEADER)
    return at if place < 0 else place + len(_MESSAGE)


def _messages(text: str) -> Iterator[str]:
    """The texts of gpt-oss messages, without marks; or the text itself if it has no messages."""
    header, *messages = text.split(_MESSAGE)
    for message in messages if len(header) <= MAX_HEADER and messages else (text,):
        yield _bare(message.partition("<|end|>")[0] if messages else message)


def _bare(text: str) -> str:
    """A text without the marks that end a message."""
    text = text.strip()
    for end in _ENDS:
        text = text.removesuffix(end).rstrip()
    return text


def _joined(thoughts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, map(str.strip, thoughts)))


def _texts(block: dict[str, Any]) -> Iterator[str]:
    """The texts of a block: direct values, or parts of a list."""
    for name in ("thinking", "text", "summary", "content"):
        match block.get(name):
            case str(text):
                yield text
            case list(parts):
                for part in parts:
                    if isinstance(part, dict) and isinstance(part.get("text"), str):
                        yield part["text"]
