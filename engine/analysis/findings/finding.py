"""Results of an analysis: parts of named lines, whose columns are declared once.

Text, Markdown, LaTeX, CSV, JSON, notebooks and pages follow from the columns. An estimate has one
shape everywhere: `+0.69 [0.54, 0.78]` for people, and {value, low, high, error, method, n,
clusters} for programs. ± stands for a standard error only."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from ....protocols.settings import unknown
from ...display.table import (
    MOST_NOTE,
    NONE,
    NOT_MEASURED,
    Table,
    as_csv,
    as_latex,
    as_markdown,
    as_text,
    markdown_text,
    wrapped,
)
from ...display.text import one_line, signed
from ..scoring.estimate import PARTS, Ends, Estimate

if TYPE_CHECKING:
    from .chart import Chart

Cell: TypeAlias = Callable[[Any], str]

SIMULATED = "SIMULATED"
"""Stands wherever figures of simulated models do."""


@dataclass(frozen=True, slots=True)
class Column:
    head: str = ""
    cell: Cell | None = None
    """The text of a cell, from the line; None keeps the column out of tables for people."""
    key: tuple[str, ...] = ()
    """Path of the value in JSON, joined by dots in CSV; () keeps it out of both."""
    value: Callable[[Any], Any] = field(default=lambda line: None)
    parts: tuple[str, ...] = ()
    """Keys of a value that is a mapping, so that CSV has them even if no line has a value."""
    words: bool = False
    """Whether cells are words, aligned left; columns of words come before columns of numbers."""


def column(
    head: str,
    field: str,
    show: Callable[[Any], str] | None = None,
    *,
    key: str | None = None,
    parts: tuple[str, ...] = (),
    words: bool = False,
) -> Column:
    """The column of an attribute, or of a path of them such as `contrast.p`; None where a part of
    the path is. show: the text of its value; without it the column is for programs alone. key: its
    name for programs, by default the path; "" keeps it from them."""
    get = _get(field)
    cell = None if show is None else lambda line: show(get(line))
    path = tuple((field if key is None else key).split(".")) if key != "" else ()
    return Column(head, cell, path, get, parts, words)


def word(head: str, field: str, **options: Any) -> Column:
    return column(head, field, lambda value: value or "–", words=True, **options)


def number(head: str, field: str, spec: str = ",", **options: Any) -> Column:
    return column(head, field, lambda v: "–" if v is None else f"{v:{spec}}", **options)


def change(head: str, field: str, digits: int = 3, **options: Any) -> Column:
    """A number with its sign, without an interval."""
    return column(head, field, lambda value: signed(value, digits), **options)


def share(head: str, field: str, **options: Any) -> Column:
    return column(head, field, percent, **options)


def flag(head: str, field: str, **options: Any) -> Column:
    return column(head, field, lambda value: "yes" if value else "", **options)


def figure(
    head: str, field: str, digits: int = 3, *, sign: bool = True, show: bool = True, **options: Any
) -> Column:
    """An estimate with its interval. show: to people, too."""
    cell = (lambda value: estimated(value, digits, sign=sign)) if show else None
    return column(head, field, cell, parts=PARTS, **options)


def program(key: str, of: str | Callable[[Any], Any], parts: tuple[str, ...] = ()) -> Column:
    """A value for programs alone."""
    return Column("", None, tuple(key.split(".")), _get(of) if isinstance(of, str) else of, parts)


def people(head: str, cell: Cell, *, words: bool = False) -> Column:
    """A cell for people alone."""
    return Column(head, cell, words=words)


def _get(field: str) -> Callable[[Any], Any]:
    names = field.split(".")

    def get(line: Any) -> Any:
        for name in names:
            line = None if line is None else getattr(line, name)
        return line

    return get


def estimated(estimate: Estimate | None, digits: int = 3, *, sign: bool = True) -> str:
    """`+0.69 [0.54, 0.78]`; bare without an interval, as for an identity; – for None."""
    if estimate is None:
        return "–"
    value = signed(estimate.value, digits) if sign else f"{estimate.value:z.{digits}f}"
    return f"{value} {span(estimate.interval, digits)}" if estimate.interval else value


def conservative(estimates: Iterable[Estimate]) -> str:
    """How many of these intervals are conservative, and why: `2 of 5 conservative: only 5
    problems`; empty for none. The exact bound of a share is not."""
    reasons = [one.conservative * (not one.at_end) for one in estimates if one.interval]
    stated_reasons = list(filter(None, reasons))
    if not stated_reasons:
        return ""
    alike: dict[str, list[list[str]]] = {}
    for why in dict.fromkeys(stated_reasons):
        alike.setdefault(re.sub(r"\d+", "{}", why), []).append(re.findall(r"\d+", why))
    words = (
        pattern.format(*(_between(column) for column in zip(*numbers, strict=True)))
        for pattern, numbers in alike.items()
    )
    some = f"{len(stated_reasons)} of {len(reasons)} " * (len(stated_reasons) < len(reasons))
    return f"{some}conservative: {', '.join(words)}"


def _between(numbers: Iterable[str]) -> str:
    """`4`, or `2 to 4`."""
    every = [*map(int, numbers)]
    return f"{min(every)} to {max(every)}" if min(every) < max(every) else f"{every[0]}"


def brackets(estimates: Iterable[Estimate | None]) -> str:
    """The kind of intervals, such as `95% CI (CR3 t; 2 of 5 conservative: only 4 of 50 problems
    differ) over problems`; and why some have none."""
    every = [one for one in estimates if one]
    with_interval = [one for one in every if one.interval]
    how = next((one.method for one in with_interval if one.method), "")
    how = "; ".join(filter(None, (how, conservative(with_interval))))
    groups = " or groups of them" * any(0 < one.clusters < one.n for one in with_interval)
    none = next((f"; no interval: {one.reason}" for one in every if one.reason), "")
    return f"95% CI{f' ({how})' * bool(how)} over problems{groups}{none}"


def shared(estimate: Estimate | None) -> str:
    """An estimated share: `69% [54, 78]`."""
    if estimate is None:
        return "–"
    if not estimate.interval:
        return percent(estimate.value)
    low, high = estimate.interval
    return f"{percent(estimate.value)} [{100 * low:.0f}, {100 * high:.0f}]"


def span(interval: Ends | None, digits: int = 3) -> str:
    """`[-0.120, 0.045]`; – for None."""
    return NONE if interval is None else f"[{interval[0]:z.{digits}f}, {interval[1]:z.{digits}f}]"


def unmeasured(line: object) -> str:
    """Why a line has no figures, such as `20 of 20 cells unreadable`; empty for one that has."""
    return getattr(line, "unmeasured", "")


def significance(p: float | None) -> str:
    return NONE if p is None else f"{p:.3f}" if p >= 0.001 else "<.001"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _text(column: Column, line: Any) -> str:
    match value := column.value(line):
        case Estimate():
            return estimated(value, 2)
        case None:
            return NONE
        case float():
            return f"{value:.3g}"
        case Mapping():
            return ", ".join(f"{name} {part}" for name, part in value.items()) or NONE
    return str(value)


def plain(value: Any) -> Any:
    """A value for JSON: estimates in their one shape, also inside of other values."""
    if isinstance(value, Estimate):
        return value.plain()
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one kind; a part without lines is not shown to people."""

    key: str
    """Name of its list of lines in JSON; "" keeps it from programs."""
    title: str
    columns: Sequence[Column]
    lines: Sequence[Any]
    notes: Iterable[str] = ()
    shown: bool = True
    """Whether people see it."""
    total: Any = None
    """A last line of all, for people alone."""
    chart: "Chart | None" = None
    """The lines as a chart, for pages and pictures."""
    alike: Sequence[str] = ()
    """Facts that hold for every line, for people: `agent sim/strong`."""
    brief: "Part | None" = None
    """The part that replaces it in text, where that is shorter."""
    layout: "Callable[[int | None], Table] | None" = None
    """Its table in text, by the width of the terminal, where columns depend on it."""
    latex: "Callable[[Iterable[str]], str] | None" = None
    """Writes its table in LaTeX below some comments, where that is not the plain table."""
    in_csv: Sequence[str] = ()
    """Its columns in CSV by flat names: `asd.low`; () for all."""
    other_figures: bool = False
    """Whether it has figures of rows that were not measured, such as their bounds."""

    def table(self) -> Table:
        lines = [*self.lines, *([self.total] if self.total is not None else [])]
        visible = [column for column in self.columns if column.cell]
        words = sum(column.words for column in visible)

        def cells(line: Any) -> tuple[str, ...]:
            cells = tuple(column.cell(line) for column in visible if column.cell)
            if (why := unmeasured(line)) and not self.other_figures and words < len(cells):
                return (*cells[:words], f"{NOT_MEASURED}: {why}", *[""] * (len(cells) - words - 1))
            return cells

        notes, values = [*self.notes], (column.value(line) for line in lines for column in visible)
        why = conservative(value for value in values if isinstance(value, Estimate))
        if why and not any("conservative" in note for note in notes):
            notes.append(f"Intervals: {why}.")
        return Table(
            self.title,
            tuple(column.head for column in visible),
            tuple(map(cells, lines)),
            words,
            tuple(notes),
            tuple(self.alike),
        )

    def measured(self) -> "tuple[Part, list[str]]":
        """The part without the lines that have no measurement, and what these lines say."""
        measured = [line for line in self.lines if not unmeasured(line)]
        if self.other_figures or len(measured) == len(self.lines):
            return replace(self, lines=measured), []
        table = replace(self, lines=[line for line in self.lines if unmeasured(line)]).table()
        left_out = [", ".join(filter(None, cells)) for cells in table.body]
        return replace(self, lines=measured), left_out

    def sorted(self, name: str) -> "Part":
        """The lines by a column: the largest first, words from A to Z; without a value last."""
        (column, *_) = self._named(name)
        ranked, without = list[tuple[Any, Any]](), list[Any]()
        for line in self.lines:
            value = column.value(line)
            value = value.value if isinstance(value, Estimate) else value
            if value is None or isinstance(value, Mapping):
                without.append(line)
            else:
                ranked.append((value, line))
        words = any(isinstance(value, str) for value, _ in ranked)
        ranked.sort(key=lambda pair: pair[0], reverse=not words)
        return replace(self, lines=(*(line for _, line in ranked), *without))

    def chosen(self, names: Sequence[str]) -> "Part":
        """Its columns of words for people, then the columns of these names in JSON; `jse` is all
        columns under this key. ValueError for a name that no column has."""
        heads = [column for column in self.columns if column.words]
        some = [
            # Those for programs alone are shown as well.
            one if one.cell else replace(one, head=".".join(one.key), cell=partial(_text, one))
            for name in names
            for one in self._named(name)
        ]
        columns = [*heads, *(one for one in some if one not in heads)]
        return replace(self, columns=columns, in_csv=())

    def _named(self, name: str) -> "list[Column]":
        path = tuple(name.split("."))
        if some := [column for column in self.columns if column.key[: len(path)] == path]:
            return some
        names = dict.fromkeys(column.key[0] for column in self.columns if column.key)
        raise ValueError(unknown("column", name, names))

    def plain(self) -> list[dict[str, Any]]:
        return [plain_line(self.columns, line) for line in self.lines]

    def csv(self) -> str:
        """The lines as comma-separated values; lists within them are left out."""
        lines = [_flat(plain_line(self.columns, line, parts=True)) for line in self.lines]
        head = self.in_csv or list(dict.fromkeys(name for line in lines for name in line))
        return as_csv(head, [[line.get(name, "") for name in head] for line in lines])


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one analysis."""

    parts: tuple[Part, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for programs."""
    lead: tuple[str, ...] = ()
    """Lines above the tables."""
    advice: tuple[str, ...] = ()
    """Lines after these for the reader of a terminal."""

    def tables(self) -> list[Table]:
        return [part.table() for part in self.parts if part.lines and part.shown]

    def plain(self) -> dict[str, Any]:
        lists = {part.key: part.plain() for part in self.parts if part.key}
        return {**{name: plain(value) for name, value in self.about.items()}, **lists}

    def text(self, format: str, width: int | None = None) -> str:
        """The finding as text, markdown, latex, csv (its first part) or json. width: columns of a
        terminal; None for output that is not one."""
        match format:
            case "json":
                return orjson.dumps(self.plain(), option=orjson.OPT_INDENT_2).decode()
            case "csv":
                return self.parts[0].csv()
            case "latex":
                return "\n\n".join(self._in_latex())
            case "text":
                parts = [part.brief or part for part in self.parts]
                tables = [
                    part.layout(width) if part.layout else part.table()
                    for part in parts
                    if part.lines and part.shown
                ]
            case _:
                tables = self.tables()
        layout = partial(as_text, width=width) if format == "text" else as_markdown
        body = "\n\n".join(map(layout, tables))
        if not self.lead:
            return body
        advice = self.advice if format == "text" else ()
        lead = [one_line(line, MOST_NOTE) for line in (*self.lead, *advice)]
        if format == "text":
            lines = (part for line in lead for part in wrapped(line, width, "  "))
            return "\n".join(lines) + f"\n\n{body}"
        return "  \n".join(map(markdown_text, lead)) + f"\n\n{body}"

    def _in_latex(self) -> Iterator[str]:
        """A table per part: the caption has all that its reader needs, comments the rest."""
        split = [part.measured() for part in self.parts]
        left_out = [line for _, lines in split for line in lines]
        simulated = any(SIMULATED in line for line in self.lead)
        comments: tuple[str, ...] = (*self.lead, *left_out)
        for part, _ in split:
            if part.latex:
                yield part.latex(comments)
            elif part.lines and part.shown:
                yield as_latex(part.table(), comments, simulated)
            comments = ()

    def __str__(self) -> str:
        return self.text("text")

    def _repr_markdown_(self) -> str:
        return self.text("markdown")


def plain_line(columns: Iterable[Column], line: Any, *, parts: bool = False) -> dict[str, Any]:
    """A line for programs, nested by key. parts: write a missing mapping as its parts without
    values, instead of None."""
    nested: dict[str, Any] = {}
    for column in columns:
        if column.key:
            at = nested
            for name in column.key[:-1]:
                at = at.setdefault(name, {})
            value = plain(column.value(line))
            at[column.key[-1]] = _filled(value, column.parts) if parts and column.parts else value
    return nested


def _filled(value: Mapping[str, Any] | None, parts: tuple[str, ...]) -> dict[str, Any]:
    """The value with all parts, also where mappings of such values lack one."""
    if value is None:
        return dict.fromkeys(parts)
    if value.keys() >= {*parts}:
        return {name: value[name] for name in parts}
    return {name: _filled(inner, parts) for name, inner in value.items()}


def _flat(lines: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names; "" for a missing value."""
    cells: dict[str, Any] = {}
    for name, value in lines.items():
        if isinstance(value, Mapping):
            cells |= _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            cells[f"{before}{name}"] = "" if value is None else value
    return cells
