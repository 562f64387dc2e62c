"""Version 0.1: its modules, so that a run folder that it made is known as one of some code.

A manifest of version 0.1 has one digest over the bytes of all modules that its sweep reached. What
these were is in a table that comes with the program, and does not change: from it the digest is
computed again, and what each row's code did is compared with what it does now.
"""

import hashlib
import lzma
import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib.resources import files

import msgspec

from ...protocols.prompts.prompt_set import default_prompts
from .code import (
    HOME,
    SHORT,
    CodeGraph,
    Installed,
    RowCode,
    classes_of,
    lineage,
    prompt_digests,
    row_code,
    source_file,
    source_of,
)
from .code_cache import CodeCache
from .rows import Row
from .semantic import ModuleCode
from .settled import settled_address
from .sweep import Sweep

TABLE = "code-0.1.json.xz"

_UNCOUNTED = (f"{HOME}.scoring.", f"{HOME}.datasets.")
"""Beginnings of the names of modules that version 0.1 left out of its digest."""

_NAMED = re.compile(rf"^[ \t]*(?:from|import)[ \t]+({re.escape(HOME)}\.[\w.]+)", re.MULTILINE)
"""How version 0.1 found the imports of a module."""


class OlderModule(msgspec.Struct, frozen=True):
    """A module as it was."""

    sha256: str
    """Digest of its bytes."""
    named: tuple[str, ...]
    """The modules of protocols that its imports name."""
    code: ModuleCode


class OlderCode(msgspec.Struct, frozen=True):
    """All modules that any row of version 0.1 could reach."""

    modules: dict[str, OlderModule]
    prompts: dict[str, str]
    """Digest of each block of the default prompt set."""


@cache
def older_code() -> OlderCode:
    packed = files("oversight.engine").joinpath("data", TABLE).read_bytes()
    return msgspec.json.decode(lzma.decompress(packed), type=OlderCode)


def older_identity(sweep: Sweep) -> str:
    """What `Sweep.identity` was in version 0.1, for a sweep of this kind."""
    return _digest(
        sweep.name,
        str(sweep.seed),
        str(sweep.draws),
        *(settled_address(problem) for problem in sweep.problems),
        *(row.address for row in sweep.rows),
        _older_digest(sweep.rows),
        *(f"{model}={identity}" for model, identity in sorted(sweep.identities.items())),
    )


def older_row_codes(rows: Iterable[Row]) -> dict[str, RowCode]:
    """By the address of each row, the code behind it in version 0.1. Classes of the user's own are
    taken as they are now."""
    table = older_code()
    blocks_now = {row.address: prompt_digests(row.protocol.words.blocks) for row in rows}
    codes: dict[str, RowCode] = {}
    with CodeCache.of_user() as known:
        for row in rows:
            places = frozenset(map(_older_place, lineage(row.protocol)))
            theirs = Installed(known, frozenset(module.partition(".")[0] for module, _ in places))
            graph = CodeGraph(partial(_lookup, theirs))
            prompts = _older_prompts(row, blocks_now[row.address], table.prompts)
            codes[row.address] = row_code(graph.parts_of(places), prompts)
    return codes


def _lookup(theirs: Installed, name: str) -> ModuleCode | None:
    if name == HOME or name.startswith(f"{HOME}."):
        found = older_code().modules.get(name)
        return found.code if found else None
    return theirs(name)


def _older_place(cls: type) -> tuple[str, str]:
    """Where a class was: in the module where it is now, or else in the only one that had it."""
    module, name = cls.__module__, cls.__qualname__
    modules = older_code().modules
    if module.startswith(f"{HOME}."):
        there = [
            each
            for each in ([module] if module in modules else []) + [*modules]
            if any(name in statement.binds for statement in modules[each].code.statements)
        ]
        return (there[0] if there else module), name
    return module, name


def _older_prompts(row: Row, now: Mapping[str, str], then: Mapping[str, str]) -> Mapping[str, str]:
    """The blocks that a row read: those of the default set as they were, unless its own set has
    another text."""
    default = prompt_digests(default_prompts().blocks)
    sections = {block.partition(".")[0] for block, _ in row.protocol.read.blocks}
    return {
        block: digest if now.get(block) == default.get(block) else now[block]
        for block, digest in then.items()
        if block.partition(".")[0] in sections
    }


def _older_digest(rows: Iterable[Row]) -> str:
    """The digest of the code behind some rows, as version 0.1 computed it."""
    table = older_code().modules
    classes = {cls for row in rows for cls in classes_of(row.protocol)}
    places = {_older_place(cls) for cls in classes if cls.__module__ not in ("abc", "builtins")}
    ours = {module for module, _ in places if module in table}
    foreign = _package_closure({module for module, _ in places} - ours)
    ours |= {name for source in foreign.values() for name in _NAMED.findall(source.decode())}
    counted = sorted(table[module].sha256 for module in _closure(ours & table.keys()))
    counted += sorted(hashlib.sha256(source).hexdigest() for source in foreign.values())
    counted += sorted(
        f"{module}.{name}"
        for module, name in places
        if module not in table and source_file(module) is None
    )
    return _digest(*counted)[:SHORT]


def _closure(modules: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    todo = [*modules]
    while todo:
        module = todo.pop()
        if module not in reached and not f"{module}.".startswith(_UNCOUNTED):
            reached.add(module)
            todo += older_code().modules[module].named
    return reached


def _package_closure(modules: Iterable[str]) -> dict[str, bytes]:
    """Name -> source of modules outside this package, and of their imports within their own."""
    sources: dict[str, bytes] = {}
    todo = [*modules]
    with CodeCache.of_user() as known:
        while todo:
            name = todo.pop()
            file = source_file(name)
            if name in sources or file is None:
                continue
            sources[name] = source_of(name, file)
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            if package:
                code = known.code_of(sources[name], package)
                named = {*code.executed, *(each for s in code.statements for each in s.refers)}
                top = package.partition(".")[0]
                for each in named:
                    if each.partition(".")[0] == top:
                        parts = each.split(".")
                        todo += (".".join(parts[:n]) for n in range(1, len(parts) + 1))
    return sources


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
