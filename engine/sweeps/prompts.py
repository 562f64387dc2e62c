"""Prompt sets from a sweep file: the default one, a file, or single blocks."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from oversight.engine.sweeps.document import Document, Key
from oversight.protocols.prompts.prompt_set import (
    PromptError,
    PromptSet,
    check,
    default_prompts,
    read_blocks,
)
from oversight.protocols.prompts.published import PUBLISHED

Changes: TypeAlias = Mapping[str, Mapping[str, str]]
"""Path of a prompt set -> text of each of its blocks."""

KEY: Key = ("prompts",)


def prompt_sets(
    document: Document, folder: Path, kept: Changes | None = None
) -> tuple[tuple[PromptSet, ...], Changes]:
    """Every prompt set of `prompts` (a list is an axis), and the blocks read from files for them.

    A set is `default`, the path of a file, or a mapping of changed sections. The mapping may name
    the file that it changes under `set`; or, under `from` and `folder`, a published study and the
    folder of a checkout of it. kept: blocks stored in a run folder, used instead of the files.
    UsageError names file, line, block and remedy.
    """
    value = document.value.get(KEY[0], "default")
    parts = value if isinstance(value, list) else [value]
    read: dict[str, dict[str, str]] = {}
    sets: list[PromptSet] = []
    for number, part in enumerate(parts):
        key = (*KEY, number) if isinstance(value, list) else KEY
        sets.append(_set(document, key, part, folder, kept, read))
    if not sets:
        raise document.fault(KEY, "an empty list leaves nothing to read")
    return tuple(sets), read


def used(prompts: PromptSet, sections: Iterable[str]) -> PromptSet | None:
    """The part of a set that a protocol reads; None if it equals the default set's."""
    part = prompts.only(sections)
    same = part.blocks == default_prompts().only(sections).blocks
    return None if same else part


def _set(
    document: Document,
    key: Key,
    value: Any,
    folder: Path,
    kept: Changes | None,
    read: dict[str, dict[str, str]],
) -> PromptSet:
    if isinstance(value, str):
        return _named(document, key, value, folder, kept, read)
    sections = dict(document.mapping(key, value))
    if "from" in sections:
        base = _published(document, key, sections, folder, kept, read)
    else:
        path = sections.pop("set", "default")
        if not isinstance(path, str):
            raise document.fault((*key, "set"), f"{path!r} is not a text")
        base = _named(document, (*key, "set"), path, folder, kept, read)
    changes = _blocks(document, key, sections)
    return base.changed(f"{base.name} changed", changes) if changes else base


def _published(
    document: Document,
    key: Key,
    sections: dict[str, Any],
    folder: Path,
    kept: Changes | None,
    read: dict[str, dict[str, str]],
) -> PromptSet:
    """The prompt set of a published study; removes `from` and `folder` from the sections."""
    study, checkout = sections.pop("from"), sections.pop("folder", None)
    if study not in PUBLISHED:
        raise document.fault(
            (*key, "from"), f"no prompts of {study!r} are read", f"studies: {', '.join(PUBLISHED)}"
        )
    if not isinstance(checkout, str):
        raise document.fault(
            (*key, "from"), f"{study} is read from a checkout", "folder: where the checkout is"
        )
    path = f"{study} in {checkout}"
    if kept is not None and path in kept:
        read[path] = dict(kept[path])
    else:
        root = Path() if document.from_flag((*key, "folder")) else folder
        try:
            read[path] = PUBLISHED[study].blocks(root / checkout)
        except PromptError as exc:
            raise document.fault((*key, "folder"), str(exc)) from None
    try:
        return default_prompts().changed(study, read[path])
    except PromptError as exc:
        raise document.fault((*key, "folder"), f"{checkout}: {exc}") from None


def _named(
    document: Document,
    key: Key,
    path: str,
    folder: Path,
    kept: Changes | None,
    read: dict[str, dict[str, str]],
) -> PromptSet:
    if path == "default":
        return default_prompts()
    if kept is not None and path in kept:
        read[path] = dict(kept[path])
    else:
        file = (Path() if document.from_flag(key) else folder) / path
        if not file.is_file():
            raise document.fault(key, f"there is no file {file}", "prompts: default, or a path")
        written = Document.read(file)
        read[path] = _blocks(written, (), written.value)
    try:
        return default_prompts().changed(Path(path).stem, read[path])
    except PromptError as exc:
        raise document.fault(key, str(exc)) from None


def _blocks(document: Document, key: Key, sections: Mapping[str, Any]) -> dict[str, str]:
    """The blocks of a mapping of sections; an error names the line of its block."""
    known = default_prompts().names
    for section, blocks in sections.items():
        at = (*key, section)
        if section not in known:
            raise document.unknown(at, known, "section of prompts", "sections")
        for block, text in document.mapping(at, blocks).items():
            if block not in known[section]:
                raise document.unknown((*at, block), known[section], "block", f"in {section}")
            if not isinstance(text, str) or not text.strip():
                raise document.fault((*at, block), f"{text!r} is not a text")
            try:
                check(f"{section}.{block}", text)
            except PromptError as exc:
                raise document.fault((*at, block), str(exc)) from None
    return read_blocks(sections)
