"""A column of a report, declared once: text, Markdown, LaTeX, CSV and JSON follow from it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from .table import Table, as_csv

_Line = TypeVar("_Line")

Plain: TypeAlias = Mapping[str, Any]
"""What JSON takes: mappings of mappings of scalars."""


@dataclass(frozen=True, slots=True)
class Column(Generic[_Line]):
    """One column. A line of the report is any value that its functions can read."""

    head: str = ""
    cell: Callable[[_Line], str] | None = None
    """The text of a cell; None keeps the column out of tables for people."""
    key: tuple[str, ...] = ()
    """Path of the figure in JSON, joined by dots in CSV; () keeps it out of both."""
    value: Callable[[_Line], Any] = field(default=lambda line: None)
    """The figure itself: a scalar, a mapping of scalars, or None where there is none."""
    parts: tuple[str, ...] = ()
    """Keys of the mapping, or of each mapping in it, so that CSV has the columns even if no line
    has a figure."""
    words: bool = False
    """Whether cells are words, aligned left; columns of words come before those of numbers."""
    spare: int = 0
    """Rank among the columns dropped on a narrow terminal, the highest first; 0: never dropped."""


def as_table(
    title: str,
    columns: Sequence[Column[_Line]],
    lines: Iterable[_Line],
    notes: Iterable[str] = (),
) -> Table:
    """The table for people: the columns that have cells."""
    shown = [(column, column.cell) for column in columns if column.cell]
    dropped = sorted((c for c, _ in shown if c.spare), key=lambda c: c.spare, reverse=True)
    return Table(
        title,
        tuple(column.head for column, _ in shown),
        tuple(tuple(cell(line) for _, cell in shown) for line in lines),
        sum(column.words for column, _ in shown),
        tuple(notes),
        tuple(column.head for column in dropped),
    )


def plain_line(
    columns: Iterable[Column[_Line]], line: _Line, *, parts: bool = False
) -> dict[str, Any]:
    """A line for programs, nested by key.

    parts: write a missing mapping as its parts without values, instead of None.
    """
    plain: dict[str, Any] = {}
    for column in columns:
        if column.key:
            at = plain
            for name in column.key[:-1]:
                at = at.setdefault(name, {})
            value = column.value(line)
            at[column.key[-1]] = _filled(value, column.parts) if parts and column.parts else value
    return plain


def _filled(value: Any, parts: tuple[str, ...]) -> Any:
    """The value with all parts, also where mappings of such values lack one."""
    if value is None:
        return dict.fromkeys(parts)
    if isinstance(value, Mapping) and set(value) != set(parts):
        return {name: _filled(inner, parts) for name, inner in value.items()}
    return value


def lines_csv(columns: Sequence[Column[_Line]], lines: Iterable[_Line]) -> str:
    """The lines for programs as comma-separated values; lists within them are left out."""
    cells = [_flat(plain_line(columns, line, parts=True)) for line in lines]
    head = list(dict.fromkeys(name for line in cells for name in line))
    return as_csv(head, [[line.get(name, "") for name in head] for line in cells])


def _flat(plain: Plain, before: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names; "" where there is no value."""
    cells: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            cells |= _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            cells[f"{before}{name}"] = "" if value is None else value
    return cells
