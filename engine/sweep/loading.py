"""Loads the classes, problems and few-shot examples that a sweep file names.

Classes of the user's are named as `my_package.my_module:MyProtocol`, as `my_file.py:Steelman`
(relative to the sweep file), or as an installed package registers them as entry points. Importing
runs their code, so only what the sweep names is imported."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from ...protocols.datasets.catalogue import LOADERS, loader
from ...protocols.datasets.jsonl import jsonl
from ...protocols.datasets.jsonl import problems as read_problems
from ...protocols.datasets.loader import Loader, digest
from ...protocols.errors import DatasetError
from ...protocols.judges.case import Shot
from ...protocols.question import Problem
from ..system.files import read_bounded
from ..system.process import DATASETS_GROUP, registered
from .document import Node, Shots, fields_of, is_elsewhere
from .sweep import dataclasses_in

Base = TypeVar("Base")

NAMED = ".named"
"""Second ending of a file of examples whose ids come from the data set."""
MAX_SHOTS = 2**28
"""Bytes of a file of examples."""

RELATIVE = "; a relative path starts at the folder of the sweep file"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A data set that was read."""

    problems: tuple[Problem, ...]
    names_rows: bool
    """Whether their ids come from the data set itself."""
    pins: tuple[str, ...]
    """Assignments that make its settings definite, as `--set` takes them."""
    notes: tuple[str, ...] = ()
    """Rows that were skipped, and options that were merged."""


def class_named(
    node: Node,
    catalogue: Mapping[str, type[Base]],
    base: type[Base],
    group: str,
    noun: str,
    heading: str,
) -> type[Base]:
    """The class that a node of the sweep file is named after. catalogue: built-in classes, which no
    entry point can replace. base: required base class. group: entry-point group. what, heading:
    words of the error about an unknown name. Raises: UsageError for an unknown name, a failed
    import or another kind of object."""
    name = node.name
    if name in catalogue:
        return catalogue[name]
    node.document.refuse_if_foreign(node.key, f"code of your own, {name},", name)
    if is_elsewhere(name) or name in registered(group):
        from .code import user_class

        return user_class(node, base, group)
    names, elsewhere = [*catalogue, *registered(group)], "my_module:MyClass, my_file.py:MyClass"
    hint = f"{', '.join(names)}; or from elsewhere: {elsewhere}" if names else elsewhere
    raise node.unknown(names, noun, heading, printed=hint)


def loader_class(node: Node) -> type[Loader]:
    """The class of the data set that a node is named after. UsageError as of `class_named`."""
    return class_named(node, LOADERS, Loader, DATASETS_GROUP, "data set", "data sets")


def load_problems(node: Node, folder: Path, seed: int = 0) -> Loaded:
    """The problems of the data set that the node is named after. folder: base of relative paths in
    the file; paths given by a flag are relative to the working directory. seed: the loader's,
    unless its settings name one. Raises: UsageError for wrong settings, DatasetError for wrong
    data."""
    name, settings = node.name, node.value
    if name != "bundled":
        values = settings.values() if isinstance(settings, dict) else (settings,)
        texts = (text for text in values if isinstance(text, str))
        node.document.refuse_if_foreign(node.key, f"the data set {name}", name, *texts)
    if name not in LOADERS and any(name in fields_of(kind) for kind in LOADERS.values()):
        example = f"NAME: {{{name}: {settings}}}"
        raise node.fault(
            "a setting of a data set, and no data set", f"write it within one: {example}"
        )
    kind = loader_class(node)
    mapping = settings if isinstance(settings, dict) else {}
    try:
        data_loader = loader(name, settings, kind)
        if "seed" not in mapping:
            data_loader = replace(data_loader, seed=seed)
        pinned = data_loader.pinned()
        problems, notes = pinned.read(_root(node, folder))
        lines = tuple(f"{name}: {line}" for line in notes.lines())
        return Loaded(problems, pinned.names_rows, _pins(node, data_loader, pinned), lines)
    except DatasetError as exc:
        from .named_files import hint_of_missing

        if hint := hint_of_missing(exc, name, RELATIVE):
            raise node.fault(f"{exc}{hint}") from None
        raise
    except ValueError as exc:
        setting, _, message = str(exc).removeprefix(f"{name}.").partition(": ")
        if setting in mapping:
            raise node.child(setting, mapping[setting]).fault(message) from None
        raise node.fault(str(exc)) from None


def _pins(node: Node, loader: Loader, pinned: Loader) -> tuple[str, ...]:
    values = {field.name: getattr(pinned, field.name) for field in fields(loader)}
    changed = {name: now for name, now in values.items() if now != getattr(loader, name)}
    path = ".".join(map(str, node.key))
    if changed and not isinstance(node.value, dict):
        needed = next(field.name for field in fields(loader) if field.default is MISSING)
        return (f"{path}={json.dumps({needed: node.value, **changed})}",)
    return tuple(f"{path}.{name}={now}" for name, now in changed.items())


def _root(node: Node, folder: Path) -> Path:
    """Where a relative path starts."""
    keys = ((*node.key, setting) for setting in ("path", "folder"))
    return Path() if any(map(node.document.from_flag, keys)) else folder


def shots(node: Node) -> tuple[Shot, ...]:
    """Examples from the data sets of a setting, which is written like `problems`; those that a run
    folder keeps, if it is one's. They are part of the judge, so the sweep's seed changes none."""
    examples: list[Shot] = []
    cache = node.document.shots
    for data_set in node.settings().values():
        name = shots_name(data_set)
        if name not in cache:
            loaded = load_problems(data_set, node.document.folder)
            cache[name] = loaded.problems, loaded.names_rows
        problems, names_rows = cache[name]
        decided = map(Shot.of, problems)
        examples += decided if names_rows else (structs.replace(one, id="") for one in decided)
    return tuple(examples)


def shots_name(data_set: Node) -> str:
    """Name of a data set's examples in a run folder: 12 hex digits of its setting."""
    return digest(json.dumps([data_set.name, data_set.value], sort_keys=True, default=str))


def shots_files(shots: Shots) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the files in which a run folder keeps its examples."""
    for name, (problems, names_rows) in shots.items():
        yield f"{name}{NAMED if names_rows else ''}.jsonl", b"".join(jsonl(problems, "shots"))


def kept_shots(folder: Path) -> Shots:
    """The examples that a run folder keeps. UsageError for a file that cannot be read."""
    shots: Shots = {}
    for file in sorted(folder.glob("*.jsonl")):
        name, names_rows = file.stem.removesuffix(NAMED), file.stem.endswith(NAMED)
        shots[name] = tuple(read_problems(str(file), read_bounded(file, MAX_SHOTS))), names_rows
    return shots


def problems_of(value: object) -> Iterator[Problem]:
    """Yield every example in a tree of roles and settings as a problem with its answer. Simulated
    models need the truth of examples and of the sweep's problems."""
    for part in dataclasses_in(value):
        if isinstance(part, Shot):
            question = part.floor.question
            yield Problem(part.id or f"example: {question.text[:60]}", question, part.probs)
