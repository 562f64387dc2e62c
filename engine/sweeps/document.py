"""A YAML document that remembers where every value stands, so that each fault names its line."""

import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from oversight.engine.errors import UsageError

Key: TypeAlias = tuple[str | int, ...]
"""The path from the top of a document to a value: mapping keys and list indices."""


class Document:
    """Plain values (mappings, lists, scalars), each with its place in the file."""

    def __init__(self, source: str, text: str, value: Any, places: dict[Key, str]) -> None:
        self.source = source
        self.text = text
        """As the user wrote it, without the values set by flags."""
        self.value = value
        self.folder = Path(source).parent
        """Where relative paths to code start; a run folder knows another one for its copy."""
        self._places = places
        self._flagged = False

    @classmethod
    def read(cls, path: Path) -> "Document":
        """UsageError, with file and line, if it cannot be read or is not a plain mapping."""
        try:
            if path.is_char_device() or path.is_block_device():
                raise UsageError(f"{path} is a device; name the sweep file")
            text = path.read_bytes().decode()
        except FileNotFoundError:
            raise UsageError(
                f"{path}: no such file; start one with: oversight init {path}"
            ) from None
        except IsADirectoryError:
            raise UsageError(f"{path} is a folder; name the sweep file") from None
        except (OSError, UnicodeDecodeError) as exc:
            raise UsageError(f"{path}: cannot be read: {exc}") from exc
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> "Document":
        """From YAML text. Keys given twice, aliases and custom tags are errors: they hide much."""
        places: dict[Key, str] = {}
        try:
            for event in yaml.parse(text, Loader=_Loader):
                if isinstance(event, yaml.AliasEvent) and event.start_mark:
                    at = _at(source, event.start_mark.line)
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
            raise UsageError(f"{at}: not YAML: {exc.problem or exc.context}") from exc
        except yaml.YAMLError as exc:
            raise UsageError(f"{source}: not YAML: {exc}") from exc
        except (ValueError, RecursionError) as exc:
            # A thousand brackets: no sweep of anybody's.
            raise UsageError(f"{source}: cannot be read as a sweep: {exc}") from exc
        if not isinstance(value, dict):
            raise UsageError(f"{source}: a mapping of settings is expected, not {value!r}")
        return cls(source, text, value, places)

    def set(self, assignment: str) -> None:
        """Apply `a.b=c`: the value is YAML, and a list on the way takes it in each of its parts."""
        self._flagged = True
        flag = f"--set {assignment}"
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise UsageError(f"{flag}: write it as --set name.of.setting=value")
        value = Document.parse(f"value: {text}", flag).value["value"]
        self._assign(self.value, path.strip().split("."), value, (), flag)

    def written(self) -> Any:
        """The value as the file has it, without what flags set."""
        return Document.parse(self.text, self.source).value if self._flagged else self.value

    def place(self, key: Key) -> str:
        """`file:line` (or the flag) at which a value, or the nearest one around it, was written."""
        while key and key not in self._places:
            key = key[:-1]
        return self._places.get(key, self.source)

    def from_flag(self, key: Key) -> bool:
        """Whether a value was set on the command line."""
        return self.place(key).startswith("--set")

    def fault(self, key: Key, message: str, hint: str = "") -> UsageError:
        """The error for a value: its place, its name, what is wrong, and how to mend it."""
        name = ".".join(str(part) for part in key)
        text = f"{self.place(key)}: {name}: {message}" if name else f"{self.place(key)}: {message}"
        return UsageError(f"{text}\n  {hint}" if hint else text)

    def unknown(
        self,
        key: Key,
        known: Iterable[str],
        what: str = "setting",
        all: str = "",
        shown: str = "",
    ) -> UsageError:
        """The error for a name that means nothing here, with the one that was perhaps meant.

        all: what the list of known names is headed by; if empty, `settings of` their owner.
        shown: in place of that list.
        """
        names = list(known)
        close = difflib.get_close_matches(str(key[-1]), names, n=1, cutoff=0.5)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        owner = next((f" of {part}" for part in key[-2::-1] if isinstance(part, str)), "")
        return self.fault(
            key,
            f"no such {what}{meant}",
            f"{all or f'settings{owner}'}: {shown or ', '.join(names)}",
        )

    def mapping(self, key: Key, value: Any) -> dict[str, Any]:
        """A value that must be a mapping; nothing at all is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fault(key, f"a mapping of settings is expected, not {value!r}")
        return value

    def _assign(self, at: Any, path: list[str], value: Any, key: Key, flag: str) -> None:
        name, rest = path[0], path[1:]
        if isinstance(at, list) and name.isdecimal():
            if int(name) >= len(at):
                last = ".".join(map(str, (*key, len(at) - 1)))
                raise UsageError(f"{flag}: there is no part {name}; the last one is {last}")
            self._put(at, int(name), rest, value, key, flag)
        elif isinstance(at, list):
            for n in self._taking(at, name, rest, key, flag):
                self._put(at[n], name, rest, value, (*key, n), flag)
        elif isinstance(at, dict):
            # A name may have dots in it, as those of many models do.
            for length in range(len(path), 1, -1):
                if (whole := ".".join(path[:length])) in at:
                    name, rest = whole, path[length:]
                    break
            self._put(at, name, rest, value, key, flag)
        else:
            raise UsageError(f"{flag}: {'.'.join(map(str, key))} is {at!r} and has no {name!r}")

    def _taking(
        self, at: list[Any], name: str, rest: list[str], key: Key, flag: str
    ) -> Iterator[int]:
        """Places of the parts of a list that take a setting: of several protocols, the one that
        is meant; of several agents or judges, all."""
        for n, part in enumerate(at):
            if part == name and rest:
                at[n] = {name: None}
        parts = [n for n, part in enumerate(at) if isinstance(part, dict)]
        if not parts:
            raise UsageError(f"{flag}: there is no {name!r} in {'.'.join(map(str, key))}")
        having = [n for n in parts if name in at[n]] if rest else parts
        yield from having or parts

    def _put(
        self, at: Any, name: str | int, rest: list[str], value: Any, key: Key, flag: str
    ) -> None:
        here = (*key, name)
        if not rest or (isinstance(at, dict) and at.get(name) is None):
            # What stood there is gone, and with it the places of its parts.
            self._places = {k: v for k, v in self._places.items() if k[: len(here)] != here}
            self._places[here] = flag
            at[name] = {} if rest else value
        if rest:
            self._assign(at[name], rest, value, here, flag)


class _Loader(yaml.SafeLoader):
    """YAML as people mean it: `1e-3` is a number, a date is text, and `no` is no."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def _build(loader: _Loader, node: yaml.Node, key: Key, source: str, places: dict[Key, str]) -> Any:
    here = _at(source, node.start_mark.line)
    if node.tag not in _TAGS:
        raise UsageError(f"{here}: the tag {node.tag} is not read here")
    places.setdefault(key, here)
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
                raise UsageError(f"{at}: {name!r} is no name of a setting; put it in quotes")
            name = str(name)
            if name in built:
                raise UsageError(f"{at}: {'.'.join(map(str, (*key, name)))}: given twice")
            places[(*key, name)] = at
            built[name] = _build(loader, value_node, (*key, name), source, places)
        return built
    return _scalar(loader, node, f"{here}: {'.'.join(map(str, key))}" if key else here)


def _scalar(loader: _Loader, node: yaml.Node, at: str) -> Any:
    """at: how an error message begins."""
    whole = node.tag == "tag:yaml.org,2002:int"
    # Python neither reads nor shows whole numbers of some thousand digits.
    if whole and len(node.value) > MAX_DIGITS:
        raise UsageError(f"{at}: a number of {len(node.value):,} digits: no setting takes that")
    try:
        return loader.construct_object(node, deep=True)
    except ValueError as exc:
        raise UsageError(f"{at}: {node.value!r} cannot be read: {exc}") from None


MAX_DIGITS = 300
"""Longest number that is read; no setting needs nearly as many digits."""

YAML_KINDS = ("map", "seq", "str", "int", "float", "bool", "null")
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in YAML_KINDS}


def _at(source: str, line: int) -> str:
    """`file:line` for a line counted from 0; a flag has no line number."""
    return source if source.startswith("--set") else f"{source}:{line + 1}"
