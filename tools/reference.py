"""The tables of the reference, made from the declarations that sweep files and commands are
checked against.

`make docs`, or `python -m tools.reference` and the two pages, puts them between the marks of the
pages; a test holds the pages against them."""

import ast
import inspect
import re
import sys
import textwrap
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import click

from oversight.cache.call import Request
from oversight.engine.analysis.reports.frames import DECLARED, TABLES, TableColumn
from oversight.engine.extensions.simulation.model import PRESETS, SimModel
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.providers.catalogue import entry, provider_names
from oversight.engine.providers.settings import ProviderSettings
from oversight.engine.sweep.document import fields_of
from oversight.engine.sweep.roles import SWEEP_AXES, AgentSettings
from oversight.engine.sweep.sweepfile import Top
from oversight.engine.system.settings import FLAG
from oversight.engine.views.cli.flags import RECORDED_STORE
from oversight.engine.views.cli.group import oversight
from oversight.protocols.agents.agent import Agent, Speaker
from oversight.protocols.catalogue import JUDGES, PROTOCOLS
from oversight.protocols.datasets.catalogue import LOADERS, PUBLISHED
from oversight.protocols.datasets.forms import Published, published_forms
from oversight.protocols.datasets.loader import Loader
from oversight.protocols.judges.case import Shot
from oversight.protocols.judges.judge import Judge
from oversight.protocols.settings import settings_of

ROLE_WORDS = {
    Speaker: "an agent",
    Judge: "a judge",
    Shot: "examples: data sets, as under `problems`",
}
TYPE_WORDS = {bool: "flag", int: "integer", float: "number", str: "text"}


SHARED = 3
"""Settings that this many classes have in common are described once."""

Row: TypeAlias = tuple[str, ...]
"""A setting, its type with the default, and its meaning."""

MARKED = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
"""Generated parts of a page, between marks that name them; the rest is written by hand."""


def remade(page: str) -> str:
    """A page in Markdown with its generated parts made from the current declarations."""
    return MARKED.sub(lambda mark: f"{mark[1]}\n{_made(mark[2])}\n\n{mark[3]}", page)


def _made(name: str) -> str:
    return "\n".join(PARTS[name]()).rstrip()


def _kinds(
    classes: Mapping[str, type[Any]],
    heading: str,
    without: Iterable[str] = (),
    told: Collection[Row] = (),
) -> Iterator[str]:
    """told: rows that a table above has, which are only named here."""
    rows = {name: _rows(cls, without=without) for name, cls in classes.items()}
    shared = _commonest(row for each in rows.values() for row in each)
    if shared:
        yield "Settings of several of them:\n"
        yield from _listed(row for row in shared if row not in told)
        if named := [row[0] for row in shared if row in told]:
            yield f"As for agents: {', '.join(named)}.\n"
    for name, cls in classes.items():
        yield f"### {heading}{name}\n\n{_first_line(inspect.getdoc(cls))}\n"
        yield from _listed(row for row in rows[name] if row not in shared)
        common = [row[0] for row in rows[name] if row in shared]
        lacking = [row[0] for row in shared if row[0] not in common]
        if common and len(lacking) < len(common):
            yield f"All of those above{' but ' if lacking else ''}{', '.join(lacking)}.\n"
        elif common:
            yield f"Of those above: {', '.join(common)}.\n"


def _problems() -> Iterator[str]:
    common = [field.name for field in fields(Loader)]
    yield from _table(Loader)
    kinds = {name: kind for name, kind in LOADERS.items() if name not in PUBLISHED}
    yield from _kinds(kinds, "", common)
    yield "### Published tables\n"
    yield from _table(Published, without=[*common, "form"])
    for name, form in published_forms().items():
        about = " ".join(form.about.partition("\n\n")[0].split()).replace("|", "\\|")
        own = f" ({', '.join(f'`{one}`' for one in form.settings)})" if form.settings else ""
        yield f"- `{name}`{own}: {about}"
    yield ""


def _simulated() -> Iterator[str]:
    yield f"Presets: {', '.join(f'`{name}`' for name in PRESETS)}.\n"
    yield from _table(SimModel)


def _providers() -> Iterator[str]:
    yield from _table(ProviderSettings)
    yield "Unless stated, `NAME_API_KEY` has the key, and `NAME_BASE_URL` another address.\n"
    for name in provider_names():
        row = entry(name)
        own = name == "compatible"
        usual = (f"{name.upper()}_BASE_URL", f"{name.upper()}_API_KEY")
        variables = (row.base_url_variable, row.key_variable)
        others = [f"`{one}`" for one, as_usual in zip(variables, usual, strict=True)
                  if one and one != as_usual]  # fmt: skip
        keyless = ["no key"] * (not row.key_variable and not own)
        if own:
            others = ["`COMPATIBLE_NAME_BASE_URL`", "`COMPATIBLE_NAME_API_KEY`"]
        about = ", ".join([*filter(None, [row.base_url]), *others, *keyless])
        yield f"- {'compatible/NAME' if own else name}: {about}"


def _every(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        words = f"{path} {name}"
        if isinstance(command, click.Group):
            yield from _every(command, words)
        elif command is not None:
            yield words, command


def _commands() -> Iterator[str]:
    every = list(_every(oversight, "oversight"))
    shared = _commonest([row for _, command in every for row in _options(command)], 2)
    yield "## Options of several commands\n"
    yield "Meanings, unless a command says otherwise:\n"
    yield from map(_line, shared)
    yield ""
    for words, command in every:
        usage = " ".join(command.collect_usage_pieces(click.Context(command)))
        taken = usage.removeprefix("[OPTIONS]").strip()
        yield f"## {words}\n\n{f'`{taken}`: ' if taken else ''}{_first_line(command.help)}\n"
        options = list(_options(command))
        yield from (_line(row) for row in options if row not in shared)
        if common := [row[0] for row in options if row in shared]:
            yield f"- also {', '.join(common)}"
        yield ""


def _options(command: click.Command) -> Iterator[tuple[str, ...]]:
    """Each option as it is typed, and what it is for."""
    for option in (each for each in command.params if isinstance(each, click.Option)):
        of_run = " of a RUN" if option.help == RECORDED_STORE.metadata[FLAG].help else ""
        text = (option.help or "").replace("Where to write it. Default:", "Default:")
        yield f"`{', '.join((*option.opts, *option.secondary_opts))}`{of_run}", text


def _line(row: tuple[str, ...]) -> str:
    return f"- {row[0]}: {row[1]}"


def _tables() -> Iterator[str]:
    """The columns of the tables of a run; columns of several tables once."""
    named = {name: column for columns in TABLES.values() for name, column in columns.items()}
    count = Counter(name for columns in TABLES.values() for name in columns)
    yield "### Columns of several tables\n"
    yield from _columns(pair for pair in named.items() if count[pair[0]] > 1)
    for table, columns in TABLES.items():
        yield f"### {table}\n\n{DECLARED['about'][table]}\n"
        if shared := [f"`{name}`" for name in columns if count[name] > 1]:
            yield f"Also {', '.join(shared)}.\n"
        yield from _columns((n, column) for n, column in columns.items() if count[n] == 1)


def _columns(columns: Iterable[tuple[str, TableColumn]]) -> Iterator[str]:
    for name, column in columns:
        kind = f"{column.kind}, {column.unit}" if column.unit else column.kind
        yield f"- `{name}` ({kind}): {column.sentence}"
    yield ""


PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "top": lambda: _table(Top),
    "problems": _problems,
    "agents": lambda: _table(Agent, AgentSettings),
    "judges": lambda: _kinds(JUDGES, "kind: ", told=_rows(Agent, AgentSettings)),
    "protocols": lambda: _kinds(PROTOCOLS, "", SWEEP_AXES),
    "limits": lambda: _table(Limits),
    "simulated": _simulated,
    "providers": _providers,
    "commands": _commands,
    "tables": _tables,
}
"""Generated lines, by the name in the mark."""


def _table(*classes: type[Any], without: Iterable[str] = ()) -> Iterator[str]:
    return _listed(_rows(*classes, without=without))


def _rows(*classes: type[Any], without: Iterable[str] = ()) -> list[Row]:
    types_ = fields_of(*classes)
    of = {id(field): cls for cls in classes for field in fields(cls)}
    return [
        (f"`{each.name}`", _valued(types_[each.name], _default(cls, each)), _doc(cls, each))
        for each in settings_of(*classes)
        for cls in [of[id(each)]]
        if each.name not in without
    ]


def _listed(rows: Iterable[Row]) -> Iterator[str]:
    items = [f"- {name} ({value}): {meaning}".removesuffix(": ") for name, value, meaning in rows]
    yield from [*items, ""] * bool(items)


def _commonest(rows: Iterable[Row], least: int = SHARED) -> list[Row]:
    """Those that several have; where one name has several meanings, the commonest."""
    often = Counter(rows)
    by_name = {row[0]: row for row, _ in reversed(often.most_common())}
    return [row for row in often if often[row] >= least and by_name[row[0]] == row]


def _valued(type_: Any, default: str) -> str:
    """A type with its default: in bold among names, else behind it."""
    if get_origin(type_) is Literal:
        return ", ".join(
            f"**{name}**" if name == default else name for name in map(_value, get_args(type_))
        )
    if default in ("none", "`null`"):
        return _type(type_).removesuffix(" or `null`")
    return f"{_type(type_)}, {default}"


def _type(type_: Any) -> str:
    origin, parts = get_origin(type_), get_args(type_)
    if origin is Literal:
        return ", ".join(_value(part) for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in parts)
    if type_ is types.NoneType:
        return "`null`"
    if origin is tuple:
        inner = _type(parts[0])
        return {"a judge": "several judges"}.get(inner, inner if parts[0] is Shot else f"{inner}s")
    for role, words in ROLE_WORDS.items():
        if isinstance(type_, type) and issubclass(type_, role):
            return words
    return TYPE_WORDS.get(type_, "mapping")


def _default(cls: type[Any], field: "Field[Any]") -> str:
    if field.default is MISSING:
        return "none" if cls is Top else "*needed*"
    return _value(field.default)


def _value(value: Any) -> str:
    match value:
        case None:
            return "`null`"
        case bool():
            return f"`{str(value).lower()}`"
        case "" | ():
            return "none"
        case tuple():
            return ", ".join(map(_value, value))
        case str() | int():
            return f"`{value}`"
        case float():
            return f"`{value:g}`"
    return f"`{getattr(value, 'name', value)}`"


def _doc(cls: type[Any], field: "Field[Any]") -> str:
    """The docstring of the field where it is declared, or of a call's field with that name."""
    for each in (
        *cls.__mro__,
        *([Request] if hasattr(cls, "model") or "model" in fields_of(cls) else []),
    ):
        if told := _docs(each).get(field.name):
            return " ".join(told.split()).replace("|", "\\|")
    return "`PROVIDER/NAME`, or a simulated `sim/NAME`." if field.name == "model" else ""


@cache
def _docs(cls: type[Any]) -> Mapping[str, str]:
    """The text below each field of a class itself."""
    if cls.__module__ in ("builtins", "abc"):
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[field.target.id] = text
    return found


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n\n")[0].replace("\n", " ")


def main() -> None:
    """Remake the pages that the command line names, in place."""
    for path in map(Path, sys.argv[1:]):
        path.write_text(remade(path.read_text()))


if __name__ == "__main__":
    main()
