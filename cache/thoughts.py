"""Thoughts in a reply: at the beginning of its text, or beside it.

Texts are scanned from one end to the other: what models write may be of any length.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson


class Tags:
    """Pairs of what thoughts begin and end with."""

    __slots__ = ("either", "ends", "pairs")

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self.pairs = pairs
        self.either = tuple(tag for pair in pairs for tag in pair)
        """All of them, that a text may begin with."""
        self.ends = tuple({closing[0] for _, closing in pairs})
        """Characters without which a text has no end of thoughts: most have none of them."""


TAGS = Tags(
    # Qwen, DeepSeek, GLM, MiniMax, Nemotron, Kimi K2, and most others
    ("<think>", "</think>"),
    # models that are prompted to think, and those tuned on their replies
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    # EXAONE, and Gemini behind its compatible endpoint
    ("<thought>", "</thought>"),
    # Magistral
    ("[THINK]", "[/THINK]"),
    # Seed-OSS
    ("<seed:think>", "</seed:think>"),
    # LongCat
    ("<longcat_think>", "</longcat_think>"),
    # Kimi-VL and Kimi-Dev
    ("◁think▷", "◁/think▷"),
    # Command A Reasoning
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    # OpenThinker
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    # Apertus
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    # Gemma 4
    ("<|channel>thought", "<channel|>"),
    # gpt-oss: all channels but the last are its own
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("<|channel|>", "<|channel|>final<|message|>"),
    ("<|start|>assistant<|channel|>", "<|channel|>final<|message|>"),
)
"""The tags of the families of models that are served today."""

MAX_EMPTY = 16
"""Empty thoughts behind which a lone end may still stand."""
_ENDS = ("<|start|>assistant", "<|end|>", "<|return|>")
"""What gpt-oss writes behind a message."""
_QUOTES = "`'\"\u201c\u2018«("
"""A lone tag behind one of these is mentioned."""
_SPACE = " \t\n\r▁ĠĊ"
"""White space, and what tokenizers write for it."""


def split(text: str, thought: bool = False, tags: Tags = TAGS) -> tuple[str, str, bool] | None:
    """A text as (speech, thoughts, whether it ends within them); None if it has no thoughts.

    Thoughts stand at its beginning, block after block. The last may lack its end: then there is no
    speech. The first may lack its beginning, which many chat templates write into the prompt; not
    where some are known to stand beside the text already, as `thought` says. Tags elsewhere are
    mentioned. Splitting a speech again changes nothing.
    """
    at, thoughts = _past_space(text, 0), list[str]()
    found = False
    while at < len(text):
        if not text.startswith(tags.either, at):
            # Looking for a lone end takes a walk through the whole text.
            known = thought or len(thoughts) >= MAX_EMPTY or any(thoughts)
            if known or (lone := _lone(text, at, tags)) is None:
                break
            here, end = lone
        else:
            here = next(pair for pair in tags.pairs if text.startswith(pair, at))
            start, end = at + len(here[0]), _end(text, at, *here)
            if end < 0:
                return "", _joined([*thoughts, _bare(text[start:])]), True
            at = min(start, end)
        thoughts.append(_bare(text[at:end]))
        at, found = _past_space(text, end + len(here[1])), True
    if not found:
        return None
    return _bare(text[at:]) if text.endswith(_ENDS) else text[at:], _joined(thoughts), False


def beside(opaque: str) -> str:
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


def _bare(text: str) -> str:
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
