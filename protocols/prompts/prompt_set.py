"""Prompt sets: all texts of prompts by name, so that a study can change them and record it.

A block is named `section.block`, such as `debate.rules`. `protocols/prompts/default.yaml` has all
of them, with their placeholders. Most blocks are instructions, which may contain only text of the
prompt set and of the sweep file. Those listed in `shown_as_data` become the text of a turn or of a
statement, and may contain a participant's words.

`Words` are the trusted texts that may be part of instructions. Models follow any text that looks
like an instruction. So instructions consist only of `Words`: blocks of a prompt set, and the user's
settings. Every other string is untrusted: participants' words, and texts of data sets, which anyone
may have written. `oversight.protocols.prompts.render` shows those as data, with a warning."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import yaml

from ...cache.cached_attribute import memoized
from ...cache.call import ABSENT
from ..errors import ProtocolError
from ..question import Answer
from ..settings import suggestion


class Words(str):
    """A text of a prompt set or of a sweep file. String methods, `+` and f-strings return a plain
    `str`, since text combined with other text is untrusted until it is known to be safe. So
    `Words(...)` is written only where a text consists of literals, numbers, labels and settings."""

    __slots__ = ()

    @classmethod
    def joined(cls, *parts: "Words", by: str = " ") -> "Words":
        """The nonempty parts, one after another."""
        return cls(by.join(filter(None, parts)))


NOTHING = Words("")


def require_words(**texts: object) -> None:
    """Raise TypeError, with the fix, if one of these texts is not `Words`."""
    for name, text in texts.items():
        if not isinstance(text, Words):
            raise TypeError(
                f"{name}: {str(text)[:40]!r} is a plain {type(text).__name__}, which may come from "
                "a participant; a text that you wrote yourself is Words('…')"
            )


def as_words(text: str) -> Words:
    """A text of a protocol's author, with answers shown only by their labels."""
    return Words(text.replace("({label}) {answer}", "({label})").replace("{answer}", "({label})"))


def lines(parts: Iterable[Words]) -> Words:
    """The nonempty parts, one per line."""
    return Words("\n".join(filter(None, parts)))


_FOLDER = Path(__file__).parent

COMMON = ("agent", "judge", "data")
"""Sections that every mechanism uses."""

LATE = "label"
"""Placeholder for the answer to argue for. It is filled in when the prompt is laid out."""

ADVOCACY = "advocacy"
"""Placeholder for the block `agent.advocacy`, the general instructions of advocates."""

UNTRUSTED = ("answer", "statement", "question", "claim", "subclaims", "flaw")
"""Placeholders for texts of participants or of data sets."""

OPTIONAL = {"debate.debater_first": "debate.debater", "debate.debater_later": "debate.debater"}
"""Blocks that a set may add, by name, and the block that each replaces. The default has none."""

NEEDED = {LATE, "lines", "labels", "fields", "question", "flaw"}
"""Placeholders that a block must not omit."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_BRACES = re.compile(r"\{\{([^{}]*)\}\}")
"""Literal braces: `{{a}}` is shown as `{a}`."""
_LATEX = re.compile(r"\\[A-Za-z]+(?:\{[^{}]*\})+")
"""A LaTeX command with its arguments."""
_INSTRUCTIONS = re.compile(r"<\s*/?\s*instructions\b", re.IGNORECASE)


class PromptError(ProtocolError, ValueError):
    """An unknown block, or a placeholder that its block does not have."""


@dataclass(frozen=True)
class PromptSet:
    """The blocks of a set, or the blocks that one mechanism uses."""

    name: str
    blocks: tuple[tuple[str, Words], ...] = field(hash=False)
    """(name, text) of each block, sorted by name."""
    added: tuple[tuple[str, Words], ...] = field(default=(), hash=False, metadata=ABSENT)
    """The blocks that protocols define, with their original texts."""
    made_for: tuple[tuple[str, object], ...] = field(
        default=(), hash=False, compare=False, metadata=ABSENT
    )
    """(setting, value) of the agents for which the set was written. Others only get a note."""

    def __str__(self) -> str:
        return self.name

    @cached_property
    def digest(self) -> str:
        """12 hex digits of all blocks. The name of the set is not included."""
        joined = "\0".join(part for block in self.blocks for part in block)
        return hashlib.sha256(joined.encode()).hexdigest()[:12]

    @property
    def judge_digest(self) -> str:
        """Digest of the blocks with which the judges of all protocols are asked."""
        judge_blocks = (b for b in self.blocks if b[0].startswith(("judge.", "agent.graded")))
        return replace(self, blocks=tuple(judge_blocks)).digest

    @cached_property
    def _texts(self) -> Mapping[str, Words]:
        return dict(self.blocks)

    @cached_property
    def _as_written(self) -> Mapping[str, Words]:
        return {**_ours(), **dict(self.added)}

    @property
    def changed_blocks(self) -> tuple[str, ...]:
        """The blocks that differ from our file, or from the protocol that defines them."""
        return tuple([name for name, text in self.blocks if self._as_written.get(name) != text])

    def __contains__(self, block: str) -> bool:
        return block in self._as_written or block in OPTIONAL

    def has(self, block: str) -> bool:
        """Whether the set has a text for this block, which may be optional."""
        return block in self._texts

    def placeholders(self, block: str) -> frozenset[str]:
        """The placeholders that a block may have, taken from its original text."""
        return _placeholders_in(self._as_written.get(OPTIONAL.get(block, block), ""))

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The blocks of every section."""
        sections: dict[str, tuple[str, ...]] = {}
        for name in self._texts:
            section, _, block = name.partition(".")
            sections[section] = (*sections.get(section, ()), block)
        return sections

    def text(self, block: str) -> Words:
        """The text of a block, unfilled. PromptError if unknown."""
        text = self._texts.get(block) or self._as_written.get(block)
        if text is None:
            raise PromptError(f"no block {block!r} in {self.name}{suggestion(block, self._texts)}")
        return text

    @memoized
    def fill(self, block: str, /, **values: "int | Words | Answer") -> Words:
        """A block of instructions with its placeholders filled in, except the label of the answer
        to argue for. An answer is shown by its label. PromptError unless `values` are exactly the
        block's placeholders, so that no set can use an unfilled one. TypeError for a value that may
        come from a participant."""
        if block in data_blocks():
            raise PromptError(f"{block} is not a block of instructions: its text may be anyone's")
        for name, value in values.items():
            if not isinstance(value, (int, Words, Answer)):
                raise TypeError(f"{block}: {name} is a plain {type(value).__name__}, not Words")
        return Words(self._filled(block, values))

    def data(self, block: str, /, **values: "int | str | Answer") -> str:
        """A block that is shown as data, with its placeholders filled in by any text. PromptError
        as in `fill`."""
        if block not in data_blocks():
            raise PromptError(f"{block} is a block of instructions, so it holds no other text")
        return self._filled(block, values)

    def _filled(self, block: str, values: "Mapping[str, int | str | Answer]") -> str:
        allowed = self.placeholders(block)
        filled: dict[str, object] = {
            name: value.label if isinstance(value, Answer) else value
            for name, value in values.items()
        }
        if ADVOCACY in allowed:
            filled[ADVOCACY] = self.text(f"agent.{ADVOCACY}")
        if LATE in allowed and block not in data_blocks():
            filled.setdefault(LATE, f"{{{LATE}}}")
        if filled.keys() != allowed:
            unfilled = sorted(allowed - filled.keys())
            wrong = [f"nothing fills {{{name}}} in its text" for name in unfilled]
            wrong += [f"its text has no {{{name}}}" for name in sorted(filled.keys() - allowed)]
            raise PromptError(f"{block}: {', and '.join(wrong)}")
        return _PLACEHOLDER.sub(lambda match: str(filled.get(match[1], match[0])), self.text(block))

    def only(self, sections: Iterable[str]) -> "PromptSet":
        """The blocks of some sections, and of the common ones."""
        names = {*sections, *COMMON}
        texts = sorted({**self._as_written, **self._texts}.items())
        return replace(self, blocks=_in(names, texts), added=_in(names, self.added))

    def changed(self, name: str, texts: Mapping[str, str]) -> "PromptSet":
        """This set with other texts. PromptError as in `check`."""
        for block, text in texts.items():
            self.check(block, text)
        changed = {block: Words(_BRACES.sub(r"{\1}", text)) for block, text in texts.items()}
        return replace(self, name=name, blocks=tuple(sorted({**self._texts, **changed}.items())))

    def extended(self, section: str, texts: Mapping[str, str]) -> "PromptSet":
        """This set with the texts of a protocol that defines its own. PromptError if the section
        exists already, or if a text contains our tags."""
        added = read_blocks({section: texts})
        if added.items() <= dict(self.added).items():
            return self
        if any(block.startswith(f"{section}.") for block in self._as_written):
            raise PromptError(f"section {section!r} already exists; take another name")
        for block, text in added.items():
            _no_tags(block, text)
        blocks = tuple(sorted([*self.blocks, *added.items()]))
        return replace(self, blocks=blocks, added=(*self.added, *added.items()))

    def check(self, block: str, text: str) -> None:
        """Raise PromptError for an unknown block, an unknown placeholder, a placeholder that would
        put a participant's words among the instructions, or a missing necessary placeholder."""
        if block not in self:
            raise PromptError(f"unknown block {block!r}{suggestion(block, self._texts)}")
        allowed, used = self.placeholders(block), _placeholders_in(_BRACES.sub("", text))
        if braced := sorted(allowed & frozenset(_BRACES.findall(text))):
            raise PromptError(
                f"{block} has {{{{{braced[0]}}}}}, and {{{braced[0]}}} would be filled in"
            )
        for name in sorted(_unknown(text) - allowed):
            if name in UNTRUSTED:
                raise PromptError(f"{block} has {{{name}}}, {_KEPT_OUT[name == 'answer']}")
            has = ", ".join(f"{{{name}}}" for name in sorted(allowed)) or "none"
            raise PromptError(
                f"{block} has no placeholder {{{name}}}; it has {has}. For braces as such, write "
                f"{{{{{name}}}}}"
            )
        _no_tags(block, text)
        if missing := NEEDED & allowed - used:
            raise PromptError(f"{block} must contain {{{min(missing)}}}: its reader needs it")


@cache
def default_prompts() -> PromptSet:
    """The set that is used unless another is named."""
    return PromptSet("default", tuple(sorted(_ours().items())))


@cache
def shipped_sets() -> Mapping[str, Path]:
    """The files of the other sets that ship with the program, by name."""
    files = sorted(_FOLDER.glob("*.yaml"))
    return {path.stem: path for path in files if path.stem != "default"}


def read_blocks(sections: Mapping[str, Mapping[str, str]]) -> dict[str, Words]:
    """Blocks by `section.block`."""
    return {
        f"{section}.{block}": Words(text.strip())
        for section, blocks in sections.items()
        for block, text in blocks.items()
    }


@cache
def data_blocks() -> frozenset[str]:
    """The blocks that are shown as data. All others are instructions."""
    return frozenset(_written().shown_as_data)


def _no_tags(block: str, text: str) -> None:
    if tag := _INSTRUCTIONS.search(text):
        raise PromptError(f"{block} has {tag[0]!r}: that tag is written around it, not in it")


_KEPT_OUT = (
    "which may be a participant's words: no block of instructions can hold them; they are shown "
    "above the instructions, in separate tags",
    "a text of the data set, which no block of instructions can hold: write ({label}); "
    "the answer is shown with the question",
)


def for_side(text: Words, label: str) -> Words:
    """A text with the label of the answer to argue for filled in."""
    return Words(text.replace(f"{{{LATE}}}", label))


def _in(sections: set[str], blocks: Iterable[tuple[str, Words]]) -> tuple[tuple[str, Words], ...]:
    return tuple(entry for entry in blocks if entry[0].partition(".")[0] in sections)


@cache
def _placeholders_in(text: str) -> frozenset[str]:
    return frozenset(_PLACEHOLDER.findall(text))


def _unknown(text: str) -> frozenset[str]:
    """The placeholders in a text, without literal braces and arguments of LaTeX commands."""
    plain = _BRACES.sub("", text)
    while (shorter := _LATEX.sub("", plain)) != plain:
        plain = shorter
    return _placeholders_in(plain)


@cache
def _ours() -> Mapping[str, Words]:
    return read_blocks(_written().sections)


class _Written(NamedTuple):
    """The content of the file with the default set."""

    shown_as_data: list[str]
    sections: Mapping[str, Mapping[str, str]]


@cache
def _written() -> _Written:
    source = _FOLDER.joinpath("default.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    sections = yaml.load(source, Loader=loader)
    return _Written(sections.pop("shown_as_data"), sections)
