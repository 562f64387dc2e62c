"""Loading of user-defined protocols, judges, agents and data sets: by module, file or entry point.

A sweep file names them as `my_package.my_module:MyProtocol`, as `my_file.py:Steelman` (relative to
the sweep file), or by the name under which an installed package registers them as entry points.
Importing runs their code, so only what the sweep names is imported.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from ..errors import UsageError
from ..system.entry_points import load_registered, registered
from .node import Node

Base = TypeVar("Base")


def class_named(
    node: Node,
    catalogue: Mapping[str, type[Base]],
    base: type[Base],
    group: str,
    what: str,
    heading: str,
) -> type[Base]:
    """The class that a node of the sweep file is named after.

    catalogue: built-in classes, which no entry point can replace. base: required base class.
    group: entry-point group. what, heading: words of the error about an unknown name.

    Raises: UsageError for an unknown name, a failed import or another kind of object.
    """
    name = node.name
    if name in catalogue:
        return catalogue[name]
    node.document.refuse_if_inert(node.key, f"code of your own, {name},")
    from .own_code import checked, imported

    if is_elsewhere(name):
        return checked(node, name, imported(node, name), base)
    if name in registered(group):
        try:
            loaded = load_registered(group, name)
        except UsageError as exc:
            raise node.fault(str(exc)) from exc
        return checked(node, name, loaded, base)
    known = [*catalogue, *registered(group)]
    hint = f"{', '.join(known)}; or from elsewhere: my_module:MyClass, my_file.py:MyClass"
    raise node.unknown(known, what, heading, shown=hint)


def is_elsewhere(name: str) -> bool:
    """Whether a setting names a class by module or file."""
    place, colon, attribute = name.rpartition(":")
    return bool(colon and place and attribute.isidentifier())


def names_files(value: object) -> bool:
    """Whether any key or text in a tree of settings names a class in a file."""
    return any(place.endswith(".py") for place in code_named(value))


def code_named(value: object) -> Iterator[str]:
    """The files and modules from which a tree of settings takes classes."""
    match value:
        case str():
            if is_elsewhere(value):
                yield value.rpartition(":")[0]
        case dict():
            for item in value.items():
                for part in item:
                    yield from code_named(part)
        case list():
            for part in value:
                yield from code_named(part)
