"""A YAML document with the line of every value, and the check of its values.

Values are checked against the fields of a frozen dataclass. All faults of a file are told at once,
each with its line."""

import math
import os
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ...cache.call import MAX_EXACT_INTEGER
from ...protocols.datasets.rows import decoded
from ...protocols.errors import DatasetError
from ...protocols.question import Problem
from ...protocols.settings import settings_of, suggestion
from ..errors import RunFolderError, UsageError
from ..system.files import read_bounded

Key: TypeAlias = tuple[str | int, ...]
"""The path from the top of a document to a value: mapping keys and list indices."""

BARE = {"agents": "model", "judges": "model"}
"""The setting that a bare word stands for, by section."""


Shots: TypeAlias = dict[str, tuple[tuple[Problem, ...], bool]]
"""Examples of judges by `loading.shots_name`, and whether their ids come from the file."""


class Document:
    """A parsed YAML file: mappings, lists and scalars, each with its file and line."""

    def __init__(self, source: str, text: str, value: Any, places: dict[Key, str]) -> None:
        self.source = source
        self.text = text
        """As the user wrote it, without the values set by flags."""
        self.value = value
        self.folder = Path(source).parent
        """Base of relative paths to code; a run folder sets the original one for its copy."""
        self.inert = ""
        """For a run folder's settings: why they name nothing to import, read or ask; else empty."""
        self._own: frozenset[str] = frozenset()
        """The texts of the user's sweep file, if that was read for the run folder's."""
        self._noted: frozenset[str] = frozenset()
        self.overrides: tuple[str, ...] = ()
        """The assignments `a.b=c` that were made since, as `--set` takes them."""
        self.shots: Shots = {}
        """By `loading.shots_name`, the examples that its judges are shown, and whether their ids
        come from the data set. A run folder's are here before the document is checked."""
        self._places = places

    @classmethod
    def read(cls, path: Path) -> "Document":
        """Read a file. UsageError, with file and line, if it is not a readable, plain mapping."""
        try:
            if path.is_dir():
                raise IsADirectoryError
            # Path.resolve would raise a RuntimeError for circular links.
            data = read_bounded(Path(os.path.realpath(path)), MAX_SWEEP)
            try:
                text = data.decode()
            except UnicodeDecodeError:
                if data.startswith(b"PK"):
                    how = f"unpack it first: oversight export open {path}"
                    raise UsageError(f"{path}: is a pack or another archive; {how}") from None
                text = decoded(str(path), data)
        except FileNotFoundError:
            near = suggestion(path.name, [file.name for file in path.parent.glob("*.y*ml")])
            lost = "; pass your own with --sweep FILE" * (path.parent / "run.db").is_file()
            remedy = near or lost or f"; start one with: oversight init {path}"
            raise UsageError(f"file not found: {path}{remedy}") from None
        except IsADirectoryError:
            run = (path / "run.db").is_file()
            remedy = f"; to repeat the run in it: oversight replay {path}" * run
            raise UsageError(f"{path} is a folder; name the sweep file{remedy}") from None
        except DatasetError as exc:
            raise UsageError(str(exc)) from exc
        except (OSError, RunFolderError) as exc:
            raise UsageError(f"{path}: cannot be read: {exc}") from exc
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> "Document":
        """Parse YAML text. Duplicate keys, aliases and custom tags are errors."""
        places: dict[Key, str] = {}
        try:
            deep = 0
            for event in yaml.parse(text, Loader=_Loader):
                deep += isinstance(event, yaml.CollectionStartEvent)
                deep -= isinstance(event, yaml.CollectionEndEvent)
                at = _at(source, event.start_mark.line) if event.start_mark else source
                if deep > MAX_DEPTH:
                    raise UsageError(f"{at}: more than {MAX_DEPTH} levels: no setting is as deep")
                if isinstance(event, yaml.AliasEvent):
                    raise UsageError(
                        f"{at}: alias *{event.anchor}: aliases are not read here; "
                        "write the value out"
                    )
            loader = _Loader(text)
            node = loader.get_single_node()
            value = _build(loader, node, (), source, places) if node is not None else {}
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            at = _at(source, mark.line) if mark else source
            fix = "; indent with spaces, not tabs" * ("\\t" in (exc.problem or ""))
            raise UsageError(f"{at}: not YAML: {exc.problem or exc.context}{fix}") from exc
        except yaml.YAMLError as exc:
            raise UsageError(f"{source}: not YAML: {exc}") from exc
        except ValueError as exc:
            raise UsageError(f"{source}: cannot be read as a sweep: {exc}") from exc
        if not isinstance(value, dict):
            raise UsageError(f"{source}: a mapping of settings is expected, not {value!r}")
        return cls(source, text, value, places)

    def set(self, assignment: str) -> None:
        """Apply `a.b=c`: the value is YAML, and is set in every element of a list on the path."""
        self.overrides = (*self.overrides, assignment)
        flag = f"--set {assignment}"
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise UsageError(f"{flag}: write it as --set name.of.setting=value")
        value = Document.parse(f"value: {text}", flag).value["value"]
        self._assign(self.value, path.strip().split("."), value, (), flag)

    def written(self) -> Any:
        """The value in the file, without changes by flags."""
        return Document.parse(self.text, self.source).value if self.overrides else self.value

    def place(self, key: Key) -> str:
        """`file:line`, or flag, of a value; of the nearest value around it if it is not there."""
        while key and key not in self._places:
            key = key[:-1]
        return self._places.get(key, self.source)

    def from_flag(self, key: Key) -> bool:
        """Whether a value was set on the command line."""
        return self.place(key).startswith("--set")

    def make_inert(self, why: str, is_users: bool, noted: Iterable[str] = ()) -> None:
        """Load nothing that a run folder alone names; `set` then adds the flags of its run.
        is_users: whether the document is the user's sweep file, and not the run folder's. noted:
        names that the user gave when this machine made the run."""
        self._noted = frozenset(noted)
        self.inert, self._own = why, frozenset(texts_of(self.value) if is_users else ())

    def is_foreign(self, key: Key, *names: str) -> bool:
        """Whether a value comes from a run folder; not if the user's own sweep file, or the note of
        this machine, has all names that occur in it."""
        if not self.inert or (self._own and not self.from_flag(key)):
            return False
        return not (names and (self._own | self._noted).issuperset(names))

    def refuse_if_foreign(self, key: Key, noun: str, *names: str) -> None:
        """Raise UsageError if only a run folder asks for something outside of it to be loaded."""
        if self.is_foreign(key, *names):
            raise self.fault(key, f"{noun} is not loaded", self.inert)

    def fault(self, key: Key, message: str, hint: str = "") -> UsageError:
        """An error about a value: its line, its name, what is wrong, and how to fix it."""
        name = ".".join(str(part) for part in key)
        text = f"{self.place(key)}: {name}: {message}" if name else f"{self.place(key)}: {message}"
        return UsageError(f"{text}\n  {hint}" if hint else text)

    def unknown(
        self,
        key: Key,
        options: Iterable[str],
        noun: str = "setting",
        all: str = "",
        printed: str = "",
    ) -> UsageError:
        """An error about an unknown name, with the nearest known one. all: heading of the list of
        known names; if empty, `settings of` their owner. printed: printed instead of that list."""
        names = list(options)
        near = suggestion(str(key[-1]), names, cutoff=0.5)
        owner = next((f" of {part}" for part in key[-2::-1] if isinstance(part, str)), "")
        return self.fault(
            key,
            f"unknown {noun}{near}",
            f"{all or f'settings{owner}'}: {printed or ', '.join(names)}",
        )

    def mapping(self, key: Key, value: Any) -> dict[str, Any]:
        """A value as a mapping, with None as an empty one; UsageError for anything else."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fault(key, f"a mapping of settings is expected, not {value!r}")
        return value

    def _assign(self, at: Any, path: list[str], value: Any, key: Key, flag: str) -> None:
        name, inner = path[0], path[1:]
        if isinstance(at, list) and name.isdecimal():
            if int(name) >= len(at):
                last = ".".join(map(str, (*key, len(at) - 1)))
                raise UsageError(f"{flag}: unknown part {name}; the last one is {last}")
            self._put(at, int(name), inner, value, key, flag)
        elif isinstance(at, list):
            for n in self._taking(at, name, inner, key, flag):
                self._put(at[n], name, inner, value, (*key, n), flag)
        elif isinstance(at, dict):
            # A key may contain dots, as many model names do.
            for length in range(len(path), 1, -1):
                if (dotted := ".".join(path[:length])) in at:
                    name, inner = dotted, path[length:]
                    break
            self._put(at, name, inner, value, key, flag)
        else:
            raise UsageError(
                f"{flag}: {'.'.join(map(str, key))} is {at!r}, which has no settings; "
                "replace it by {…} with all of them"
            )

    def _taking(
        self, at: list[Any], name: str, inner: list[str], key: Key, flag: str
    ) -> Iterator[int]:
        """Indices of the elements to set: those with the next key of the path, or else all."""
        for n, part in enumerate(at):
            if part == name and inner:
                at[n] = {name: None}
            elif isinstance(part, str) and len(key) == 1 and key[0] in BARE:
                at[n] = {BARE[key[0]]: part}
        parts = [n for n, part in enumerate(at) if isinstance(part, dict)]
        if not parts:
            raise UsageError(f"{flag}: unknown name {name!r} in {'.'.join(map(str, key))}")
        having = [n for n in parts if name in at[n]] if inner else parts
        yield from having or parts

    def _put(
        self, at: Any, name: str | int, inner: list[str], value: Any, key: Key, flag: str
    ) -> None:
        path = (*key, name)
        if not inner or (isinstance(at, dict) and at.get(name) is None):
            # The old value goes, and with it the lines of its parts.
            self._places = {k: v for k, v in self._places.items() if k[: len(path)] != path}
            self._places[path] = flag
            at[name] = {} if inner else value
        if inner:
            if isinstance(at[name], str) and (not key or isinstance(name, int)) and path[0] in BARE:
                at[name] = {BARE[path[0]]: at[name]}
            self._assign(at[name], inner, value, path, flag)


class _Loader(yaml.SafeLoader):
    """YAML loader that reads `1e-3` as a number and a date as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def _build(loader: _Loader, node: yaml.Node, key: Key, source: str, places: dict[Key, str]) -> Any:
    place = _at(source, node.start_mark.line)
    if node.tag not in _TAGS:
        raise UsageError(f"{place}: the tag {node.tag} is not read here")
    places.setdefault(key, place)
    if isinstance(node, yaml.SequenceNode):
        return [
            _build(loader, part, (*key, n), source, places) for n, part in enumerate(node.value)
        ]
    if isinstance(node, yaml.MappingNode):
        built: dict[str, Any] = {}
        for name_node, value_node in node.value:
            at = _at(source, name_node.start_mark.line)
            name = _scalar(loader, name_node, at)
            if isinstance(name, bool) or not isinstance(name, (str, int)):
                raise UsageError(f"{at}: {name!r} is not text: put the name of a setting in quotes")
            name = str(name)
            if name in built:
                raise UsageError(
                    f"{at}: {'.'.join(map(str, (*key, name)))}: given twice; write it "
                    "once, and a list for each setting that has several values"
                )
            places[(*key, name)] = at
            built[name] = _build(loader, value_node, (*key, name), source, places)
        return built
    return _scalar(loader, node, f"{place}: {'.'.join(map(str, key))}" if key else place)


def _scalar(loader: _Loader, node: yaml.Node, at: str) -> Any:
    """The value of a scalar node. at: beginning of an error message."""
    is_integer = node.tag == "tag:yaml.org,2002:int"
    # Python refuses to convert integers of several thousand digits.
    if is_integer and len(node.value) > MAX_DIGITS:
        raise UsageError(f"{at}: a number of {len(node.value):,} digits: no setting takes that")
    try:
        value = loader.construct_object(node, deep=True)
    except ValueError as exc:
        raise UsageError(f"{at}: {node.value!r} cannot be read: {exc}") from None
    plain = str(node.value).replace("_", "").lstrip("+")
    if str(value) != plain if is_integer else isinstance(value, float) and ":" in plain:
        # YAML reads 010 as 8, and 1:30 as 90.
        raise UsageError(f"{at}: YAML reads {node.value} as {value}: write that, or use quotes")
    return value


MAX_SWEEP = 2**26
"""Bytes of a sweep file at most."""

MAX_DEPTH = 64
"""Lists and mappings within one another; the reader of YAML takes a step for each at each word."""

MAX_DIGITS = 300
"""Maximum number of digits of an integer; no setting needs nearly as many."""

_KINDS = ("map", "seq", "str", "int", "float", "bool", "null")
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _KINDS}


def _at(source: str, line: int) -> str:
    """`file:line` for a line counted from 0; a flag has no line number."""
    return source if source.startswith("--set") else f"{source}:{line + 1}"


def is_elsewhere(name: str) -> bool:
    """Whether a setting names a class by module or file."""
    place, colon, attribute = name.rpartition(":")
    return bool(colon and place and attribute.isidentifier())


def code_named(value: object) -> Iterator[str]:
    """The files and modules from which a tree of settings takes classes."""
    return (text.rpartition(":")[0] for text in texts_of(value) if is_elsewhere(text))


def texts_of(value: object) -> Iterator[str]:
    """Every text in a tree of settings, names among them."""
    match value:
        case str():
            yield value
        case dict():
            for item in value.items():
                yield from texts_of([*item])
        case list():
            for part in value:
                yield from texts_of(part)


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document with its key, so that each error can name its line."""

    document: Document
    key: Key
    value: Any

    @classmethod
    def section(cls, document: Document, name: str) -> "Node":
        """A section of the document; its value is None where it is missing."""
        return cls(document, (name,), document.value.get(name))

    @property
    def name(self) -> str:
        """The last part of its key."""
        return str(self.key[-1])

    def child(self, name: str | int, value: Any) -> "Node":
        """A value within this one."""
        return Node(self.document, (*self.key, name), value)

    def replaced(self, value: Any) -> "Node":
        """A node with the same key and another value."""
        return Node(self.document, self.key, value)

    def settings(self) -> "dict[str, Node]":
        """The parts of a mapping by name; None has none. UsageError for any other value."""
        mapping = self.document.mapping(self.key, self.value)
        return {name: self.child(name, value) for name, value in mapping.items()}

    def alternatives(self) -> "Iterator[Node]":
        """Each part of a list; any other value is its only alternative."""
        if not isinstance(self.value, list):
            yield self
            return
        for index, value in enumerate(self.value):
            yield self.child(index, value)

    def fault(self, message: str, hint: str = "") -> UsageError:
        """An error about this value: its line, its name, what is wrong, and how to fix it."""
        return self.document.fault(self.key, message, hint)

    def unknown(
        self, options: Iterable[str], noun: str = "setting", all: str = "", printed: str = ""
    ) -> UsageError:
        """An error about this name, which is unknown; see `Document.unknown`."""
        return self.document.unknown(self.key, options, noun, all, printed)


class Faults:
    """Collects the errors of parts that are checked one by one."""

    def __init__(self) -> None:
        self._found: list[UsageError | DatasetError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keeps the fault that ends the body, so that the next part is checked as well."""
        try:
            yield
        except (UsageError, DatasetError) as fault:
            self._found.append(fault)

    def raise_if_any(self) -> None:
        """Raise what was found: the fault itself if it is one, else all as a UsageError."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise UsageError("\n".join(dict.fromkeys(map(str, self._found))))


_Filled = TypeVar("_Filled")


def filled(node: Node, cls: type[_Filled]) -> _Filled:
    """A `cls` with the settings of a mapping. UsageError names line, value and remedy."""
    types = fields_of(cls)
    faults, values = Faults(), {}
    for name, setting in node.settings().items():
        with faults.noted():
            if name not in types:
                raise setting.unknown(types)
            values[name] = checked_value(setting, types[name])
    faults.raise_if_any()
    return made_of(node, cls, values)


def checked_value(node: Node, type_: Any) -> Any:
    """The value as a type; lists become tuples, numbers must be finite. UsageError for others."""
    choice = value = node.value
    if get_origin(type_) is tuple:
        # Within an axis, one alternative of a list field is `none`, one name or a list of names.
        names = [] if value in (None, "none") else [value] if isinstance(value, str) else value
        choice = tuple(names) if isinstance(names, list) else names
    try:
        checked = TypeAdapter(type_, config=ConfigDict(strict=True)).validate_python(choice)
    except ValidationError:
        # YAML 1.1 has four words for false, three of which are settings of somebody's.
        why = "YAML reads off, no, on and yes as false and true: write none, or use quotes"
        hint = why if isinstance(value, bool) and str in _types(type_) else ""
        raise node.fault(f"{value!r} is not {_expected(type_)}", hint) from None
    if isinstance(checked, float) and not math.isfinite(checked):
        raise node.fault(f"{checked} is not a finite number")
    if isinstance(checked, int) and abs(checked) > MAX_EXACT_INTEGER:
        raise node.fault(f"{checked:.3g} is too large")
    return checked


def _expected(type_: Any) -> str:
    if get_origin(type_) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(type_))
    if get_origin(type_) in (Union, types.UnionType):
        return " or ".join(_expected(part) for part in get_args(type_))
    if get_origin(type_) is tuple:
        return "a list of numbers" if get_args(type_)[0] is float else "a list of names"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return "nothing (null)" if type_ is type(None) else names.get(type_, str(type_))


def _types(type_: Any) -> set[type]:
    """The types of the values that a type admits, as far as they are plain."""
    if get_origin(type_) is Literal:
        return {type(choice) for choice in get_args(type_)}
    return {kind for part in get_args(type_) for kind in _types(part)} or {type_}


def made_of(node: Node, cls: type[_Filled], settings: Mapping[str, Any]) -> _Filled:
    """Return a `cls` with these settings. Its ValueError becomes a UsageError with the line."""
    try:
        return cls(**settings)
    except ValueError as exc:
        name, _, message = str(exc).partition(": ")
        if name in settings:
            raise node.child(name, settings[name]).fault(message) from None
        raise node.fault(str(exc)) from None


def required_of(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a role that have no default."""
    return tuple(field.name for field in fields(cls) if field.default is MISSING)


def fields_of(*classes: type[Any]) -> dict[str, Any]:
    """Name -> type of every field of a role, which may consist of several classes."""
    hints = {name: type_ for cls in classes for name, type_ in get_type_hints(cls).items()}
    return {field.name: hints[field.name] for field in settings_of(*classes)}
