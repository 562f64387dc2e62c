"""Prompt sets: every word that a seat reads, by name, so that a study can change it and say so.

A block is named `section.block`, such as `debate.rules`. `protocols/prompts/default.yaml` has all
of them, and says which placeholders each may have.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files

import yaml

from ...cache.memo import memoized
from ..errors import ProtocolError

COMMON = ("agent", "judge")
"""Sections that every mechanism uses."""

LATE_PLACEHOLDERS = ("label", "answer")
"""Placeholders for the answer that a seat argues for, filled in when its prompt is laid out."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_LATE = re.compile(r"\{(label|answer)\}(\.?)")


class PromptError(ProtocolError, ValueError):
    """A block that does not exist, or a placeholder that its block does not have."""


@dataclass(frozen=True)
class PromptSet:
    """The blocks of one set, or those of them that one mechanism uses."""

    name: str
    blocks: tuple[tuple[str, str], ...] = field(hash=False)
    """(name, text) of each, sorted by name."""

    def __str__(self) -> str:
        return self.name

    @cached_property
    def digest(self) -> str:
        """12 hex digits of all blocks; what the set is called does not count."""
        joined = "\0".join(part for block in self.blocks for part in block)
        return hashlib.sha256(joined.encode()).hexdigest()[:12]

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        return dict(self.blocks)

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The blocks of every section."""
        sections: dict[str, tuple[str, ...]] = {}
        for name in self._texts:
            section, _, block = name.partition(".")
            sections[section] = (*sections.get(section, ()), block)
        return sections

    def text(self, block: str) -> str:
        """A block as it was written. PromptError if the set has none of that name."""
        try:
            return self._texts[block]
        except KeyError:
            raise PromptError(f"the prompt set {self.name} has no block {block!r}") from None

    @memoized
    def fill(self, block: str, /, **values: str | int) -> str:
        """A block with its placeholders filled in, except the answer that is argued for.

        PromptError unless `values` are all that the block may have, so that no set can use a
        placeholder that is left unfilled.
        """
        allowed = placeholders(block)
        given = {*values, *(allowed & set(LATE_PLACEHOLDERS))}
        if given != allowed:
            raise PromptError(f"{block} is given {sorted(given)}, not {sorted(allowed)}")
        return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), self.text(block))

    def only(self, sections: Iterable[str]) -> "PromptSet":
        """The blocks of some sections, and of those that every mechanism uses."""
        kept = {*sections, *COMMON}
        blocks = tuple(each for each in self.blocks if each[0].partition(".")[0] in kept)
        return PromptSet(self.name, blocks)

    def changed(self, name: str, texts: Mapping[str, str]) -> "PromptSet":
        """This set with other texts. PromptError as in `check`."""
        for block, text in texts.items():
            check(block, text)
        return PromptSet(name, tuple(sorted({**self._texts, **texts}.items())))


@cache
def default_prompts() -> PromptSet:
    """The set that is used unless another is named."""
    return PromptSet("default", tuple(sorted(read_blocks(_written()).items())))


def read_blocks(sections: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """`section.block` -> text."""
    return {
        f"{section}.{block}": text.strip()
        for section, blocks in sections.items()
        if section != "placeholders"
        for block, text in blocks.items()
    }


def placeholders(block: str) -> frozenset[str]:
    """The placeholders that a block may have."""
    return _placeholders().get(block, frozenset())


def check(block: str, text: str) -> None:
    """PromptError if there is no such block, or if the text has a placeholder that is not its own,
    or does not name the answer that its seat argues for."""
    if block not in default_prompts()._texts:
        raise PromptError(f"there is no block {block!r}")
    allowed = placeholders(block)
    used = set(_PLACEHOLDER.findall(text))
    for name in sorted(used - allowed):
        has = ", ".join(f"{{{each}}}" for each in sorted(allowed)) or "none"
        raise PromptError(f"{block} has no placeholder {{{name}}}; it has {has}")
    missing = {"label", "lines", "labels", "statement", "question", "flaw"} & allowed - used
    if missing:
        raise PromptError(f"{block} must say {{{min(missing)}}}: its reader cannot do without")


def for_side(text: str, label: str, answer: str) -> str:
    """A text with the answer that is argued for. A full stop after an answer that ends a sentence
    by itself is left out."""

    def fill(found: re.Match[str]) -> str:
        said = label if found[1] == "label" else answer
        return said if found[2] and said.endswith((".", "!", "?", "…")) else f"{said}{found[2]}"

    return _LATE.sub(fill, text)


@cache
def _placeholders() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(each) for name, each in _written()["placeholders"].items()}


@cache
def _written() -> Mapping[str, Mapping[str, str]]:
    source = (
        files("oversight.protocols").joinpath("prompts", "default.yaml").read_text(encoding="utf-8")
    )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    written: Mapping[str, Mapping[str, str]] = yaml.load(source, Loader=loader)
    return written
