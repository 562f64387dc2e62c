"""Problems that a sweep file names: the data sets of its `problems`, or of a judge's examples."""

from dataclasses import replace
from pathlib import Path

from oversight.engine.sweeps.elsewhere import class_named
from oversight.engine.sweeps.fields import fields_of
from oversight.engine.sweeps.node import Node
from oversight.engine.sweeps.originals import missing_file_hint
from oversight.engine.system.entry_points import DATASETS_GROUP
from oversight.protocols.datasets.catalogue import LOADERS, loader
from oversight.protocols.datasets.loader import Loader
from oversight.protocols.errors import DatasetError
from oversight.protocols.question import Problem

RELATIVE = "; a relative path starts at the folder of the sweep file"


def load_problems(node: Node, folder: Path | None, seed: int = 0) -> tuple[Problem, ...]:
    """The problems of the data set that the node is named after.

    folder: where relative paths start, if they stand in the file: a path that was typed as a flag
    is meant from where it was typed. None: a path in the file must be absolute. seed: of the
    loader, if the settings do not say. UsageError, or DatasetError where the data are wrong.
    """
    return load_named(node, folder, seed)[0]


def load_named(node: Node, folder: Path | None, seed: int = 0) -> tuple[tuple[Problem, ...], bool]:
    """The problems as `load_problems` returns them, and whether their ids are from the data set."""
    name, settings = node.name, node.value
    if any(name in fields_of(each) for each in LOADERS.values()):
        shown = f"NAME: {{{name}: {settings}}}"
        raise node.fault(
            "a setting of a data set, and no data set", f"write it within one: {shown}"
        )
    kind = class_named(node, name, LOADERS, Loader, DATASETS_GROUP, "data set", "data sets")
    given = settings if isinstance(settings, dict) else {}
    try:
        made = loader(name, settings, kind)
        if "seed" not in given:
            made = replace(made, seed=seed)
        with missing_file_hint(name, RELATIVE):
            return made.load(_root(node, made, folder)), made.names_rows
    except DatasetError:
        raise
    except ValueError as exc:
        setting, _, message = str(exc).removeprefix(f"{name}.").partition(": ")
        if setting in given:
            raise node.child(setting, given[setting]).fault(message) from None
        raise node.fault(str(exc)) from None


def _root(node: Node, made: Loader, folder: Path | None) -> Path:
    for setting in ("path", "folder"):
        path = getattr(made, setting, None)
        if node.child(setting, path).from_flag():
            return Path()
        if folder is None and path and not Path(path).is_absolute():
            raise ValueError(f"{setting}: {path} is relative; examples need the whole path")
    return folder or Path()
