"""Code of the user's: classes that are imported from modules and files, and checked."""

import hashlib
import importlib
import inspect
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

from ..errors import UsageError
from ..system.entry_points import load_registered
from .document import is_elsewhere
from .node import Node

_Base = TypeVar("_Base")

BY_FILE = "file "
"""Prefix of the names of modules that were imported from a file."""
SOURCE = "__source__"
"""What such a module calls its content."""


def own_class(node: Node, base: type[_Base], group: str) -> type[_Base]:
    """The class that a node is named after, by module, file or entry point. UsageError."""
    name, role = node.name, base.__name__
    found = _imported(node, name) if is_elsewhere(name) else _registered(node, group)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise node.fault(
            f"{name} is {found!r}, not a class of {role}",
            f"inherit from {base.__module__}.{role}",
        )
    params = vars(found).get("__dataclass_params__")
    if params is None or not params.frozen:
        raise node.fault(
            f"{name} is not a frozen dataclass, so its settings have no identity",
            "write @dataclass(frozen=True) above the class",
        )
    if inspect.isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        raise node.fault(f"{name} lacks {missing}, which every {role} has")
    return found


def _registered(node: Node, group: str) -> object:
    try:
        return load_registered(group, node.name)
    except UsageError as exc:
        raise node.fault(str(exc)) from exc


def _imported(node: Node, name: str) -> object:
    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(".py"):
            module = module_from_file((node.document.folder / place).resolve())
        else:
            module = importlib.import_module(place)
    except Exception as exc:
        raise node.fault(
            f"the import of {place} failed: {type(exc).__name__}: {exc}", _hint(place, exc)
        ) from exc
    if not hasattr(module, attribute):
        raise node.fault(f"{place} has no {attribute!r}", classes_in(module))
    return getattr(module, attribute)


def classes_in(module: ModuleType) -> str:
    """What is said to whoever names a class that a module lacks."""
    classes = [each for each, value in vars(module).items() if isinstance(value, type)]
    ours = [each for each in classes if vars(module)[each].__module__ == module.__name__]
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


def module_from_file(path: Path) -> ModuleType:
    """The module of a file with its current content. FileNotFoundError if there is no such file."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    return _executed(path, path.read_bytes())


@cache
def _executed(path: Path, source: bytes) -> ModuleType:
    """The module of a file, imported once per content: Python's own import may take an edit within
    one second for none."""
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
        told = ImportError(f"it ends the program: {exc!r}")
        raise told.with_traceback(exc.__traceback__) from None
    return module
