"""The code behind each row of a sweep, which decides what is asked and how replies are read.

A row's code consists of the modules of its protocol, agents and judges, of the modules that these
import from the same package or from this program's protocols, and of the blocks of prompts that the
row reads. A module counts by its syntax tree, without comments, docstrings, layout and annotations
of functions; the tree may depend on the version of Python. Code is read, and not imported. Problems
count by content in the identity of the sweep, so the code of their loader does not count.

This module also imports and checks the user's classes."""

import ast
import hashlib
import importlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, encode

from ...protocols.protocol import Protocol
from ...protocols.question import Problem
from ..errors import UsageError
from ..system.files import derived, keep_derived, stamp_of
from ..system.process import load_registered
from .document import Node, is_elsewhere
from .sweep import Row, dataclasses_in

_Base = TypeVar("_Base")

BY_FILE = "file "
"""Prefix of the names of modules that were imported from a file."""
SOURCE = "__source__"
"""Attribute of such a module that holds its source."""


def user_class(node: Node, base: type[_Base], group: str) -> type[_Base]:
    """The class that a node is named after, by module, file or entry point. UsageError."""
    name, role = node.name, base.__name__
    cls = _imported(node, name) if is_elsewhere(name) else _registered(node, group)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise node.fault(
            f"{name} is {cls!r}, not a class of {role}", f"inherit from {base.__module__}.{role}"
        )
    params = vars(cls).get("__dataclass_params__")
    if params is None or not params.frozen:
        raise node.fault(
            f"{name} is not a frozen dataclass, so its settings have no identity",
            "write @dataclass(frozen=True) above the class",
        )
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise node.fault(f"{name} lacks {missing}, which every {role} has")
    return cls


def _registered(node: Node, group: str) -> object:
    try:
        return load_registered(group, node.name)
    except UsageError as exc:
        raise node.fault(str(exc)) from exc


def _imported(node: Node, name: str) -> object:
    place, _, attribute = name.rpartition(":")
    try:
        module = module_at(place, node.document.folder)
    except Exception as exc:
        raise node.fault(
            f"the import of {place} failed: {type(exc).__name__}: {exc}", _hint(place, exc)
        ) from exc
    if not hasattr(module, attribute):
        raise node.fault(f"{place} has no {attribute!r}", classes_in(module))
    return getattr(module, attribute)


def classes_in(module: ModuleType) -> str:
    """Return a hint for a class name that a module lacks."""
    classes = [name for name, value in vars(module).items() if isinstance(value, type)]
    ours = [name for name in classes if vars(module)[name].__module__ == module.__name__]
    return f"classes in it: {', '.join(ours)}" if ours else "it defines no class"


def _hint(place: str, exc: Exception) -> str:
    if isinstance(exc, FileNotFoundError):
        return "the path is relative to the sweep file"
    if isinstance(exc, ModuleNotFoundError) and place.endswith(".py"):
        return "a file is imported by itself; make a package of several, and install it"
    if isinstance(exc, ModuleNotFoundError):
        return f"install its package in {sys.prefix}, or name a file: my_file.py:MyClass"
    return ""


class CodeFile(NamedTuple):
    """A file of user-defined classes, in a form that other processes and machines can load."""

    path: Path
    """Absolute path on this machine."""
    source: bytes

    def load(self) -> ModuleType:
        """The module, under the same name in every process; the file itself may be missing."""
        return _executed(self.path, self.source)


def code_files() -> tuple[CodeFile, ...]:
    """The files that classes were loaded from so far, with their content at that time."""
    return tuple(
        CodeFile(Path(str(module.__file__)), getattr(module, SOURCE))
        for name, module in sys.modules.items()
        if name.startswith(BY_FILE)
    )


def module_at(place: str, folder: Path = Path()) -> ModuleType:
    """The module of a file, `my_file.py` in a folder, or of an importable name."""
    if place.endswith(".py"):
        return module_from_file((folder / place).resolve())
    return importlib.import_module(place)


def module_from_file(path: Path) -> ModuleType:
    """Return the module of a file with its current content. FileNotFoundError."""
    if not path.is_file():
        raise FileNotFoundError(f"file not found: {path}")
    return _executed(path, path.read_bytes())


@cache
def _executed(path: Path, source: bytes) -> ModuleType:
    """The module of a file, imported once per content: Python's import may miss a quick edit."""
    path_hash = hashlib.sha256(str(path).encode()).hexdigest()
    source_hash = hashlib.sha256(source).hexdigest()
    # A name with spaces cannot be imported by a statement, so it shadows no other module.
    module = ModuleType(f"{BY_FILE}{path_hash[:12]} {source_hash[:12]}")
    vars(module).update({"__file__": str(path), SOURCE: source})
    # Dataclasses look up their module while it is executed.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, path, "exec"), vars(module))
    except BaseException as exc:
        del sys.modules[module.__name__]
        if isinstance(exc, (Exception, KeyboardInterrupt)):
            raise
        error = ImportError(f"it ends the program: {exc!r}")
        raise error.with_traceback(exc.__traceback__) from None
    return module


OURS = "oversight"
HOME = f"{OURS}.protocols"
"""The package of the built-in protocols, agents and judges."""


@dataclass(frozen=True, slots=True)
class RowCode:
    """The code behind one row."""

    digest: str
    """16 hex digits."""
    parts: Mapping[str, str]
    """File, or `prompt ` and a block -> digest of its content."""


def row_codes(rows: Iterable[Row]) -> dict[str, RowCode]:
    """By the address of each row, the code behind it as it is now."""
    read = cache(_module_named)
    # Most rows of a grid are of the same classes, and differ in their settings alone.
    alike: dict[tuple[Set[type], str], RowCode] = {}
    codes: dict[str, RowCode] = {}
    for row in rows:
        kind = lineage(row.protocol), row.reads
        if kind not in alike:
            parts = _parts(kind[0], HOME, read)
            prompts = {f"prompt {name}": _digest(text) for name, text in row.protocol.read.blocks}
            # A file may be renamed; a block of prompts is found by its name.
            counted = sorted((*parts.values(), *map("=".join, prompts.items())))
            alike[kind] = RowCode(_digest(*counted, digits=16), parts | prompts)
        codes[row.address] = alike[kind]
    _code_files().save()
    return codes


def with_user_code(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows. Where one has code of the user's, what its seats read may stand anywhere in it: all
    of that code counts in `reads`."""
    read = cache(_module_named)
    for row in rows:
        if classes := user_classes(row):
            parts = sorted(_parts(classes, "", read).values())
            row = replace(row, reads=_digest(row.reads, *parts, digits=64))
        yield row


def user_classes(row: Row) -> set[type]:
    """The classes of a row that are not of this program."""
    return {cls for cls in lineage(row.protocol) if _top(cls.__module__) != OURS}


def combined(codes: Mapping[str, RowCode]) -> str:
    """Digest of the code behind some rows, 12 hex digits."""
    return _digest(*sorted(code.digest for code in codes.values()))


def lineage(protocol: Protocol) -> frozenset[type]:
    """Return the classes of a protocol, its roles and settings, with bases, without Python's."""
    every = {base for part in dataclasses_in(protocol) for base in type(part).__mro__}
    return frozenset(cls for cls in every if _top(cls.__module__) not in sys.stdlib_module_names)


class Module(NamedTuple):
    """A module, as its source is now."""

    file: str
    """Name in messages, `protocols/seat.py`; empty for a module without source."""
    digest: str
    imports: Sequence[str]
    """Its package, and the full names of its imports, including imports in functions."""


def _parts(classes: Set[type], home: str, read: Callable[[str], Module]) -> dict[str, str]:
    """Return file -> digest for the modules of some classes and for their imports from the same
    packages and from the package `home`. A class without source counts by its name."""
    tops = {_top(cls.__module__) for cls in classes} - {OURS}
    nowhere = {cls.__qualname__ for cls in classes if not read(cls.__module__).file}
    parts = {name: _digest(name) for name in nowhere}
    # Every protocol is given problems: it reaches them without importing them.
    todo = {Problem.__module__, *(cls.__module__ for cls in classes)}
    reached: set[str] = set()
    while todo:
        name = todo.pop()
        # A name of the public face leads to its module, see `_module_named`.
        is_public = home and name.rpartition(".")[0] == OURS
        if _top(name) in tops or is_public or f"{name}.".startswith(f"{home}."):
            reached.add(name)
            todo |= {*read(name).imports} - reached
    for module in map(read, sorted(reached)):
        if module.file:
            # Two files of one name, in several folders, are one part.
            parts[module.file] = _digest(parts.get(module.file, ""), module.digest)
    return parts


def _module_named(name: str) -> Module:
    """Return a module, or the module behind a name that the stub of a package declares."""
    package, _, attribute = name.rpartition(".")
    if path := _place(name)[0]:
        file = Path(path)
        # On another machine a file of the user's is missing, but was sent along.
        source = getattr(sys.modules.get(name), SOURCE, None)
        is_package = file.name == "__init__.py"
        home = name if is_package else package
        digest, imports = module_code(source, home) if source else _code_files().code(file, home)
        depth = name.removeprefix(f"{OURS}.").count(".") + is_package
        return Module("/".join(file.parts[-1 - depth :]), digest, (package, *imports))
    stub, imports = Path(f"{_place(package)[0]}i"), ()
    if stub.is_file():
        _, imports = _code_files().code(stub, package)
    lazy = (imported for imported in imports if attribute in ("*", imported.rpartition(".")[2]))
    return Module("", "", (package, *lazy))


def _place(name: str) -> tuple[str, Sequence[str] | None]:
    """The source file of a module, empty if it has none; and, of a package, the folders it is."""
    if (module := sys.modules.get(name)) is not None:
        file, inside = getattr(module, "__file__", None), getattr(module, "__path__", None)
    else:
        # `find_spec` of `importlib.util` would import the packages that the module is in.
        around = _place(name.rpartition(".")[0])[1] if "." in name else None
        spec = PathFinder.find_spec(name, around) if around else None
        file, inside = (spec.origin, spec.submodule_search_locations) if spec else (None, None)
    return file if file and file.endswith(".py") else "", inside


class _KnownCode(Struct):
    """What `module_code` returned for a file that has not changed since."""

    size: int
    modified: int
    """Modification time (ns)."""
    package: str
    digest: str
    imports: tuple[str, ...]


class CodeFiles:
    """The `module_code` of files, kept in the user's cache between processes."""

    _NAME = "code"
    _STATES = Decoder(dict[str, _KnownCode])
    RACY_SECONDS = 2.0
    """A file modified this recently may change again within the resolution of its clock."""

    def __init__(self) -> None:
        # This file decides what counts, and Python how it is parsed.
        self._stamp = stamp_of([Path(__file__)], sys.version)
        self._known: dict[str, _KnownCode] = {}
        if value := derived(self._NAME, self._stamp):
            with suppress(MsgspecError):
                self._known = self._STATES.decode(value)
        self._new = False

    def code(self, file: Path, package: str) -> tuple[str, Sequence[str]]:
        """Return `module_code` of a file."""
        status, entry = file.stat(), self._known.get(str(file))
        state = status.st_size, status.st_mtime_ns, package
        if entry is not None and (entry.size, entry.modified, entry.package) == state:
            return entry.digest, entry.imports
        digest, imports = module_code(file.read_bytes(), package)
        if time.time() - status.st_mtime > self.RACY_SECONDS:
            self._known[str(file)] = _KnownCode(*state, digest, (*imports,))
            self._new = True
        return digest, imports

    def save(self) -> None:
        """Keep what is new."""
        if self._new:
            keep_derived(self._NAME, self._stamp, encode(self._known))
            self._new = False


_code_files = cache(CodeFiles)


@lru_cache(maxsize=1024)
def module_code(source: bytes, package: str) -> tuple[str, Sequence[str]]:
    """Return the digest of a module's syntax tree, and the full names of its imports. package: the
    start of relative imports; may be empty."""
    imports: list[str] = []
    try:
        tree = ast.parse(source)
        tree.body = [statement for statement in tree.body if not _is_guarded(statement)]
        for node in ast.walk(tree):
            if isinstance(body := getattr(node, "body", None), list):
                body[:] = [statement for statement in body if not _says_nothing(statement)]
            # A class's fields are what their annotations say; a function does the same without.
            if isinstance(node, ast.arg):
                node.annotation = None
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                node.returns = None
            if isinstance(node, ast.Import):
                # Any name of a package may be used.
                imports += [f"{alias.name}.*" for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and (package or not node.level):
                home = resolve_name("." * node.level + (node.module or ""), package)
                imports += [f"{home}.{alias.name}" for alias in node.names]
        return _digest(ast.dump(tree), digits=64), imports
    except (SyntaxError, ValueError, ImportError, RecursionError):
        # Not Python, or not importable: it counts by its bytes.
        return hashlib.sha256(source).hexdigest(), ()


def _is_guarded(node: ast.stmt) -> bool:
    """Whether nothing executes it where the module is imported."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) in _GUARDS


def _says_nothing(node: ast.stmt) -> bool:
    """Whether it is a docstring, or nothing at all."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.Pass)


_GUARDS = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'")


def _top(module: str) -> str:
    return module.partition(".")[0]


def _digest(*parts: str, digits: int = 12) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:digits]
