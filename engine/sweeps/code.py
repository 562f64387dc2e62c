"""Digest of the code behind a sweep, which decides what is asked and how replies are read."""

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import decode_source, find_spec, resolve_name
from pathlib import Path

from ...protocols.protocol import Protocol
from .elsewhere import CodeFileLoader
from .sweep import dataclasses_in

HOME = "oversight.protocols."
"""Prefix of the modules with the built-in protocols, agents and judges."""

UNCOUNTED = ("oversight.protocols.scoring", "oversight.protocols.datasets")
"""Modules left out of the digest: scoring only reads verdicts, and problems count by content.
Scores are counted: a jury pools by one, and market making asks by one."""

_IMPORTED = re.compile(rf"^[ \t]*(?:from|import)[ \t]+({re.escape(HOME)}[\w.]+)", re.MULTILINE)
_RELATIVE = re.compile(r"^[ \t]*from[ \t]+(\.+[\w.]*)[ \t]+import", re.MULTILINE)


def code_digest(protocols: Iterable[Protocol]) -> str:
    """Digest of the code of some protocols: 12 hex digits, which change when that code is edited.

    It covers the modules of the protocols, of their agents and of their judges, with all that they
    import from this package or from their own. Modules count by content, so that moving one changes
    nothing; a class without a source file counts by name. Reports and other protocols are left out.
    Outcomes of different code are never mixed: an edited protocol is a new run, which pays only for
    the calls that are new.
    """
    parts = dataclasses_in(tuple(protocols))
    classes = {cls for kind in set(map(type, parts)) for cls in kind.__mro__}
    modules = {cls.__module__ for cls in classes} - {"abc", "builtins"}
    ours = {name for name in modules if name.startswith(HOME)}
    foreign = package_closure(modules - ours)
    # Built-in modules that only foreign code imports affect the outcome just as much.
    ours |= {name for source in foreign.values() for name in _IMPORTED.findall(source)}
    counted = sorted(_read(module)[0] for module in closure(filter(_is_module, ours)))
    counted += sorted(hashlib.sha256(source.encode()).hexdigest() for source in foreign.values())
    counted += sorted(f"{c.__module__}.{c.__qualname__}" for c in classes if _lacks_source(c))
    return hashlib.sha256("\0".join(counted).encode()).hexdigest()[:12]


def package_closure(modules: Iterable[str]) -> dict[str, str]:
    """Name -> source of modules outside this package, and of their imports within their own.

    Modules without a source file are left out.
    """
    sources: dict[str, str] = {}
    todo = list(modules)
    while todo:
        name = todo.pop()
        file = _source_file(name)
        if name not in sources and file is not None:
            loader = getattr(sys.modules.get(name), "__loader__", None)
            # On another machine the file is missing, but its source was sent along.
            if isinstance(loader, CodeFileLoader):
                sources[name] = decode_source(loader.source)
            else:
                sources[name] = file.read_text(encoding="utf-8")
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            todo += _imports_within(package, sources[name])
    return sources


def _imports_within(package: str, source: str) -> Iterator[str]:
    """The modules that a module's source imports from its own package or an enclosing one."""
    if not package:
        return
    top = package.partition(".")[0]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                home = resolve_name("." * node.level + (node.module or ""), package)
                names = [home, *(f"{home}.{alias.name}" for alias in node.names)]
            case _:
                continue
        yield from (name for name in names if name.partition(".")[0] == top and _is_module(name))


def _is_module(name: str) -> bool:
    return _source_file(name) is not None


def _source_file(name: str) -> Path | None:
    """Source file of a module; None if it has none, or if there is no such module."""
    if (module := sys.modules.get(name)) is not None:
        file = getattr(module, "__file__", None)
    else:
        try:
            spec = find_spec(name)
        except (ModuleNotFoundError, ValueError):
            return None
        file = spec.origin if spec else None
    return Path(file) if file and file.endswith(".py") else None


def _lacks_source(cls: type) -> bool:
    return cls.__module__ not in ("abc", "builtins") and _source_file(cls.__module__) is None


def closure(modules: Iterable[str]) -> set[str]:
    """These built-in modules and all that they import from this package, without `UNCOUNTED`."""
    reached: set[str] = set()
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module not in reached and not f"{module}.".startswith(tuple(f"{u}." for u in UNCOUNTED)):
            reached.add(module)
            _, imports = _read(module)
            todo += imports
    return reached


@cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """Digest of a built-in module, and what it imports from this package."""
    file = _source_file(module)
    if file is None:
        raise ModuleNotFoundError(f"{module} has no source file")
    source = file.read_bytes()
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    text = source.decode()
    reached = [resolve_name(name, package) for name in _RELATIVE.findall(text)]
    ours = tuple(name for name in reached if name.startswith(HOME))
    return hashlib.sha256(source).hexdigest(), (*_IMPORTED.findall(text), *ours)
