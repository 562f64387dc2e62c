"""Files that a sweep names: prompt sets, and the original files of data sets.

A prompt set is the default one, a file, or single blocks. Original files have a table of their
URLs, digests and licences."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import orjson
from pydantic import TypeAdapter

from ...protocols.agents.agent import Agent, Speaker
from ...protocols.errors import DatasetError
from ...protocols.prompts.prompt_set import PromptError, PromptSet, read_blocks, shipped_sets
from ...protocols.protocol import Protocol
from ...protocols.question import MAX_LABEL, is_label
from ...protocols.settings import suggestion
from ..errors import UsageError
from .document import Document, Key, Node

Changes: TypeAlias = Mapping[str, Mapping[str, str]]
"""Path of a prompt set -> its `name`, and the text of each of its blocks."""

KEY: Key = ("prompts",)


def prompt_sets(
    document: Document, folder: Path, default: PromptSet, recorded: Changes | None = None
) -> tuple[tuple[PromptSet, ...], Changes]:
    """Every prompt set of `prompts` (a list is an axis), and the blocks read from files for them. A
    set is `default`, the name of another set that ships with the program, the path of a file, or a
    mapping of changed sections. The mapping may name the set that it changes under `set`, and has a
    `name`, or is named after the changed blocks and its digest. default: with the words of the
    protocols here. recorded: blocks stored in a run folder, used instead of the files. UsageError
    names the line and the fix."""
    reader = _SetReader(document, folder, default, recorded or {})
    described = Node(document, KEY, document.value.get(KEY[0], "default"))
    sets = tuple(map(reader.read, described.alternatives()))
    if not sets:
        raise document.fault(KEY, "an empty list leaves nothing to read")
    return sets, reader.blocks


class _SetReader:
    """Reads the prompt sets of one sweep file."""

    def __init__(
        self, document: Document, folder: Path, default: PromptSet, recorded: Changes
    ) -> None:
        self._document = document
        self._folder = folder
        self._default = default
        self._kept = recorded
        self._keys: dict[str, Key] = {}
        """Name of each set so far -> its place in the sweep file."""
        self.blocks: dict[str, Mapping[str, str]] = {}
        """Path of each set that was read so far -> its name, and the text of its blocks."""

    def read(self, node: Node) -> PromptSet:
        """The set that one alternative of `prompts` describes, under a separate name."""
        words = self._described(node)
        if (earlier := self._keys.setdefault(words.name, node.key)) != node.key:
            where = self._document.place(earlier)
            fault = f"a second prompt set {words.name!r}; the first is at {where}"
            raise self._document.fault(node.key, fault, "give one of them another name")
        return words

    def _described(self, node: Node) -> PromptSet:
        if isinstance(node.value, str):
            return self._named(node.key, node.value)
        sections = dict(self._document.mapping(node.key, node.value))
        path, name = sections.pop("set", "default"), sections.pop("name", "")
        if not isinstance(path, str) or not path.isprintable():
            raise self._document.fault((*node.key, "set"), f"{path!r} is not a line of text")
        base = self._named((*node.key, "set"), path)
        changes = self._blocks(self._document, node.key, sections)
        words = base.changed(base.name, changes)
        if name != "":
            return replace(words, name=self._checked_name(self._document, node.key, name))
        if not changes:
            return base
        blocks = [*changes] if path == "default" else [path, *changes]
        more = f" +{len(blocks) - 2}" if len(blocks) > 2 else ""
        return replace(words, name=f"{' '.join(blocks[:2])}{more} {words.digest[:4]}")

    def _named(self, key: Key, path: str) -> PromptSet:
        if path == "default":
            return self._default
        made_for: dict[str, Any] = {}
        if path in self._kept:
            self.blocks[path] = dict(self._kept[path])
        else:
            written = Document.read(self._file(key, path))
            sections = dict(written.value)
            changes = {}
            if "name" in sections:
                changes["name"] = self._checked_name(written, (), sections.pop("name"))
            made_for = written.mapping(("made_for",), sections.pop("made_for", {}))
            for setting in made_for:
                if setting not in _AGENT_SETTINGS:
                    raise written.unknown(("made_for", setting), _AGENT_SETTINGS, "agent setting")
            self.blocks[path] = {**changes, **self._blocks(written, (), sections)}
        texts = dict(self.blocks[path])
        name = texts.pop("name", Path(path).stem)
        try:
            words = self._default.changed(name, texts)
        except PromptError as exc:
            raise self._document.fault(key, str(exc)) from None
        return replace(words, made_for=tuple(made_for.items()))

    @staticmethod
    def _checked_name(document: Document, key: Key, name: object) -> str:
        """The name of a set, which follows the rules of labels."""
        if not isinstance(name, str) or not is_label(name):
            raise document.fault(
                (*key, "name"),
                f"{name!r} is not the name of a prompt set",
                f"write one line of at most {MAX_LABEL} characters, without tags",
            )
        return name

    def _file(self, key: Key, path: str) -> Path:
        """The file of a set that ships with the program, or the user's own."""
        shipped = shipped_sets()
        if "/" not in path and "." not in path:
            if path not in shipped:
                names = ", ".join(["default", *shipped])
                remedy = f"choose from {names}, or a path, such as ./{path}.yaml"
                raise self._document.fault(key, f"unknown prompt set {path!r}", remedy)
            return shipped[path]
        self._document.refuse_if_foreign(key, f"the prompt set {path}", path)
        # Relative paths start at the sweep file, except in a flag.
        file = path if self._document.from_flag(key) else self._folder / path
        if not Path(file).is_file():
            raise self._document.fault(
                key, f"file not found: {file}", "prompts: default, or a path"
            )
        return Path(file)

    def _blocks(
        self, document: Document, key: Key, sections: Mapping[str, Any]
    ) -> Mapping[str, str]:
        """The blocks of a mapping of sections; an error names the line of its block."""
        names = self._default.names
        for section, blocks in sections.items():
            at = (*key, section)
            if section not in names:
                raise document.unknown(at, names, "section of prompts", "sections")
            for block, text in document.mapping(at, blocks).items():
                if f"{section}.{block}" not in self._default:
                    raise document.unknown((*at, block), names[section], "block", f"in {section}")
                if not isinstance(text, str) or not text.strip():
                    raise document.fault((*at, block), f"{text!r} is not a text")
                try:
                    self._default.check(f"{section}.{block}", text)
                except PromptError as exc:
                    raise document.fault((*at, block), str(exc)) from None
        return read_blocks(sections)


_AGENT_SETTINGS = tuple(setting.name for setting in fields(Agent))


def unsuitable_agents(protocols: Iterable[Protocol]) -> list[str]:
    """A note for each agent whose settings differ from those that its prompt set was made for."""
    notes = dict[str, None]()
    for protocol in protocols:
        agent, words = getattr(protocol, "agent", None), protocol.prompts
        if words is None or not isinstance(agent, Speaker):
            continue
        settings = [
            f"{name}: {orjson.dumps(value).decode()}"
            for name, value in words.made_for
            if getattr(agent.base_agent, name) != value
        ]
        if settings:
            notes[f"prompts {words} are made for {', '.join(settings)}; {agent.name} differs"] = (
                None
            )
    return [*notes]


@dataclass(frozen=True, slots=True)
class Original:
    """One published file of a data set."""

    url: str
    sha256: str = ""
    """64 hex digits; empty if unknown."""

    @property
    def name(self) -> str:
        """Name of the file: the last part of its URL."""
        return PurePosixPath(urlsplit(self.url).path).name


@dataclass(frozen=True, slots=True)
class Originals:
    """The original files of one data set."""

    page: str
    """URL of its authors' description."""
    licence: str
    loader: str
    """Line of a sweep file that loads it; {folder} is replaced by the folder of the files."""
    files: tuple[Original, ...] = ()
    accept: str = ""
    """URL of terms to accept first; then `files` is empty."""


@cache
def originals() -> Mapping[str, Originals]:
    """Name -> original files of every data set that can be downloaded or requested."""
    text = files("oversight.engine").joinpath("data", "datasets.toml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Originals]).validate_python(tomllib.loads(text))


@contextmanager
def missing_file_hint(name: str) -> Iterator[None]:
    """Turn the error about a data set's missing file into one with the command that fetches it."""
    try:
        yield
    except DatasetError as exc:
        if hint := hint_of_missing(exc, name):
            raise UsageError(f"{exc}{hint}") from None
        raise


def hint_of_missing(exc: DatasetError, name: str, where: str = "") -> str:
    """Advice about a missing file of a data set; empty for other faults. where: the folder."""
    missing = Path(exc.file)
    if missing.exists() or not str(exc).endswith("file not found"):
        return ""
    fetch = f"\n  to have it: oversight dataset fetch {name}" if name in originals() else ""
    if name == "study":
        fetch = "\n  to have it: a script of examples/studies"
    beside = [file.name for file in missing.parent.glob(f"*{missing.suffix}")]
    return f"{suggestion(missing.name, beside)}{where}{fetch}"
