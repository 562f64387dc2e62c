"""Prompt sets: every word that a seat reads, by name, so that a study can change it and say so.

A block is named `section.block`, such as `debate.rules`. `protocols/prompts/default.yaml` has all
of them, with the placeholders that each may have. Most blocks are instructions, which may hold no
text but that of the prompt set and of the sweep file; those listed as `shown_as_data` become the
text of a turn or of a statement, and may hold what a participant wrote.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import NamedTuple

import yaml

from ...cache.address import ABSENT
from ...cache.memo import memoized
from ..errors import ProtocolError
from ..question import Answer
from ..spelling import suggestion
from .words import Words

COMMON = ("agent", "judge", "data")
"""Sections that every mechanism uses."""

LATE = "label"
"""Placeholder for the answer that a seat argues for, filled in when its prompt is laid out."""

ADVOCACY = "advocacy"
"""Placeholder for what every advocate is told, the block `agent.advocacy`."""

UNTRUSTED = ("answer", "statement", "question", "claim", "subclaims", "flaw")
"""Placeholders for what a participant wrote, or anyone may have put into a data set."""

NEEDED = {LATE, "lines", "labels", "fields", "question", "flaw"}
"""Placeholders that the reader of a block cannot do without."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_BRACES = re.compile(r"\{\{([^{}]*)\}\}")
"""Braces that are meant as such: `{{a}}` is shown as `{a}`."""
_LATEX = re.compile(r"\\[A-Za-z]+(?:\{[^{}]*\})+")
"""A command of LaTeX with its arguments."""
_INSTRUCTIONS = re.compile(r"<\s*/?\s*instructions\b", re.IGNORECASE)


class PromptError(ProtocolError, ValueError):
    """A block that does not exist, or a placeholder that its block does not have."""


@dataclass(frozen=True)
class PromptSet:
    """The blocks of one set, or those of them that one mechanism uses."""

    name: str
    blocks: tuple[tuple[str, Words], ...] = field(hash=False)
    """(name, text) of each, sorted by name."""
    added: tuple[tuple[str, Words], ...] = field(default=(), hash=False, metadata=ABSENT)
    """The blocks that protocols brought along, as these have them."""

    def __str__(self) -> str:
        return self.name

    @cached_property
    def digest(self) -> str:
        """12 hex digits of all blocks; what the set is called does not count."""
        joined = "\0".join(part for block in self.blocks for part in block)
        return hashlib.sha256(joined.encode()).hexdigest()[:12]

    @cached_property
    def _texts(self) -> Mapping[str, Words]:
        return dict(self.blocks)

    @cached_property
    def _as_written(self) -> Mapping[str, Words]:
        return {**_ours(), **dict(self.added)}

    @property
    def is_unchanged(self) -> bool:
        """Whether every text of it is as our file, or the protocol that brought it, has it."""
        return all(self._as_written[block] == text for block, text in self.blocks)

    def __contains__(self, block: str) -> bool:
        return block in self._as_written

    def placeholders(self, block: str) -> frozenset[str]:
        """Those that a block may have: all that it has as it was written first."""
        return _placeholders_in(self._as_written.get(block, ""))

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The blocks of every section."""
        sections: dict[str, tuple[str, ...]] = {}
        for name in self._texts:
            section, _, block = name.partition(".")
            sections[section] = (*sections.get(section, ()), block)
        return sections

    def text(self, block: str) -> Words:
        """A block as it was written. PromptError if the set has none of that name."""
        text = self._texts.get(block) or self._as_written.get(block)
        if text is None:
            raise PromptError(f"no block {block!r} in {self.name}{suggestion(block, self._texts)}")
        return text

    @memoized
    def fill(self, block: str, /, **values: "int | Words | Answer") -> Words:
        """A block of instructions with its placeholders filled in, except the label of the answer
        that is argued for. An answer is named by its label.

        PromptError unless `values` are all that the block may have, so that no set can use a
        placeholder that is left unfilled; TypeError for a value that may come from a participant.
        """
        if block in data_blocks():
            raise PromptError(f"{block} is no block of instructions: its text may be anyone's")
        for name, value in values.items():
            if not isinstance(value, (int, Words, Answer)):
                raise TypeError(f"{block}: {name} is a plain {type(value).__name__}, not Words")
        return Words(self._filled(block, values))

    def data(self, block: str, /, **values: "int | str | Answer") -> str:
        """A block whose text is shown as data, with its placeholders filled in by anything.

        PromptError as in `fill`.
        """
        if block not in data_blocks():
            raise PromptError(f"{block} is a block of instructions, and can hold nobody's words")
        return self._filled(block, values)

    def _filled(self, block: str, values: "Mapping[str, int | str | Answer]") -> str:
        allowed = self.placeholders(block)
        told: dict[str, object] = {
            name: value.label if isinstance(value, Answer) else value
            for name, value in values.items()
        }
        if ADVOCACY in allowed:
            told[ADVOCACY] = self.text(f"agent.{ADVOCACY}")
        if LATE in allowed and block not in data_blocks():
            told.setdefault(LATE, f"{{{LATE}}}")
        if told.keys() != allowed:
            unfilled = sorted(allowed - told.keys())
            wrong = [f"nothing fills {{{name}}} in its text" for name in unfilled]
            wrong += [f"its text has no {{{name}}}" for name in sorted(told.keys() - allowed)]
            raise PromptError(f"{block}: {', and '.join(wrong)}")
        return _PLACEHOLDER.sub(lambda found: str(told.get(found[1], found[0])), self.text(block))

    def only(self, sections: Iterable[str]) -> "PromptSet":
        """The blocks of some sections, and of those that every mechanism uses."""
        kept = {*sections, *COMMON}
        texts = sorted({**self._as_written, **self._texts}.items())
        return PromptSet(self.name, *(_in(kept, blocks) for blocks in (texts, self.added)))

    def changed(self, name: str, texts: Mapping[str, str]) -> "PromptSet":
        """This set with other texts. PromptError as in `check`."""
        for block, text in texts.items():
            self.check(block, text)
        changed = {block: Words(_BRACES.sub(r"{\1}", text)) for block, text in texts.items()}
        return replace(self, name=name, blocks=tuple(sorted({**self._texts, **changed}.items())))

    def extended(self, section: str, texts: Mapping[str, str]) -> "PromptSet":
        """This set with the words of a protocol that brings its own.

        PromptError for a section that is another's, or where a text writes our tags.
        """
        own = read_blocks({section: texts})
        if own.items() <= dict(self.added).items():
            return self
        if any(block.startswith(f"{section}.") for block in self._as_written):
            raise PromptError(f"there is a section {section!r} already; take another name")
        for block, text in own.items():
            _no_tags(block, text)
        blocks = tuple(sorted([*self.blocks, *own.items()]))
        return replace(self, blocks=blocks, added=(*self.added, *own.items()))

    def check(self, block: str, text: str) -> None:
        """PromptError if there is no such block, if the text has a placeholder that is not its own,
        if it would put somebody else's words among the instructions, or if it does not say what
        its reader cannot do without."""
        if block not in self:
            raise PromptError(f"there is no block {block!r}{suggestion(block, self._texts)}")
        allowed, used = self.placeholders(block), _placeholders_in(_BRACES.sub("", text))
        if kept := sorted(allowed & frozenset(_BRACES.findall(text))):
            raise PromptError(
                f"{block} has {{{{{kept[0]}}}}}, and {{{kept[0]}}} would be filled in"
            )
        for name in sorted(_unknown(text) - allowed):
            if name in UNTRUSTED:
                raise PromptError(f"{block} has {{{name}}}, {_KEPT_OUT[name == 'answer']}")
            has = ", ".join(f"{{{each}}}" for each in sorted(allowed)) or "none"
            raise PromptError(
                f"{block} has no placeholder {{{name}}}; it has {has}. For braces as such, write "
                f"{{{{{name}}}}}"
            )
        _no_tags(block, text)
        if missing := NEEDED & allowed - used:
            raise PromptError(f"{block} must say {{{min(missing)}}}: its reader cannot do without")


@cache
def default_prompts() -> PromptSet:
    """The set that is used unless another is named."""
    return PromptSet("default", tuple(sorted(_ours().items())))


def read_blocks(sections: Mapping[str, Mapping[str, str]]) -> dict[str, Words]:
    """`section.block` -> text."""
    return {
        f"{section}.{block}": Words(text.strip())
        for section, blocks in sections.items()
        for block, text in blocks.items()
    }


@cache
def data_blocks() -> frozenset[str]:
    """The blocks that are shown as data; all others are instructions."""
    return frozenset(_written().shown_as_data)


def _no_tags(block: str, text: str) -> None:
    if found := _INSTRUCTIONS.search(text):
        raise PromptError(f"{block} has {found[0]!r}: that tag is written around it, not in it")


_KEPT_OUT = (
    "which may be a participant's words: no block of instructions can hold them; they are shown "
    "above the instructions, in a tag of their own",
    "a text of the data set, which no block of instructions can hold: write ({label}), by which "
    "the answer is shown with the question",
)


def for_side(text: Words, label: str) -> Words:
    """A text with the label of the answer that is argued for."""
    return Words(text.replace(f"{{{LATE}}}", label))


def _in(sections: set[str], blocks: Iterable[tuple[str, Words]]) -> tuple[tuple[str, Words], ...]:
    return tuple(each for each in blocks if each[0].partition(".")[0] in sections)


@cache
def _placeholders_in(text: str) -> frozenset[str]:
    return frozenset(_PLACEHOLDER.findall(text))


def _unknown(text: str) -> frozenset[str]:
    """The placeholders in a text, without its braces as such and the arguments of LaTeX."""
    plain = _BRACES.sub("", text)
    while (shorter := _LATEX.sub("", plain)) != plain:
        plain = shorter
    return _placeholders_in(plain)


@cache
def _ours() -> Mapping[str, Words]:
    return read_blocks(_written().sections)


class _Written(NamedTuple):
    """The file of the default set."""

    shown_as_data: list[str]
    sections: Mapping[str, Mapping[str, str]]


@cache
def _written() -> _Written:
    source = (
        files("oversight.protocols").joinpath("prompts", "default.yaml").read_text(encoding="utf-8")
    )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    sections = yaml.load(source, Loader=loader)
    return _Written(sections.pop("shown_as_data"), sections)
