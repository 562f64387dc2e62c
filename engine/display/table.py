"""A table of text cells in every form that people paste: text, Markdown, LaTeX, CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "β": r"$\beta$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    left: int
    """Number of columns, from the left, that hold words; the others hold numbers, aligned right."""
    notes: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    """Heads of the columns to leave out on a narrow terminal, the most dispensable first."""


def as_text(table: Table, width: int | None = None) -> str:
    """Columns aligned with spaces, for a terminal or a log.

    width: columns of the terminal, for which spare columns are left out, and named; None: all.
    """
    if width is not None:
        table = _narrowed(table, width)
    widths = [max(map(len, column)) for column in zip(table.head, *table.body, strict=True)]

    def row(cells: Sequence[str]) -> str:
        placed = (
            cell.ljust(width) if n < table.left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  " + "   ".join(placed).rstrip()

    lines = [table.title, "", row(table.head), *map(row, table.body)]
    return "\n".join([*lines, *(f"  {note}" for note in table.notes)])


def _narrowed(table: Table, width: int) -> Table:
    gone: list[str] = []
    spare = [head for head in table.spare if head in table.head]
    while spare and max(map(len, as_text(table).splitlines()[2 : 3 + len(table.body)])) > width:
        gone.append(spare.pop(0))
        kept = [n for n, head in enumerate(table.head) if head != gone[-1]]
        table = replace(
            table,
            left=sum(n < table.left for n in kept),
            head=tuple(table.head[n] for n in kept),
            body=tuple(tuple(row[n] for n in kept) for row in table.body),
        )
    if not gone:
        return table
    note = f"left out, for the width of the terminal: {', '.join(gone)}"
    return replace(table, notes=(*table.notes, note))


def as_markdown(table: Table) -> str:
    rule = ["---"] * table.left + ["---:"] * (len(table.head) - table.left)
    rows = [table.head, rule, *table.body]
    lines = ["| " + " | ".join(c.replace("|", r"\|") for c in cells) + " |" for cells in rows]
    notes = ["", *(f"{note}  " for note in table.notes)] if table.notes else []
    return "\n".join([f"**{table.title}**", "", *lines, *notes])


def as_latex(table: Table) -> str:
    """A booktabs table."""
    columns = "l" * table.left + "r" * (len(table.head) - table.left)

    def row(cells: Sequence[str]) -> str:
        return " & ".join(cell.translate(LATEX) for cell in cells) + r" \\"

    return "\n".join(
        [
            rf"% {table.title}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            row(table.head),
            r"\midrule",
            *map(row, table.body),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {note}" for note in table.notes),
        ]
    )


def formatted(tables: Iterable[Table], format: str, width: int | None = None) -> str:
    """Several tables as `text`, `markdown` or `latex`. width: columns of a terminal, for text."""
    layouts: dict[str, Callable[[Table], str]] = {
        "text": partial(as_text, width=width),
        "markdown": as_markdown,
        "latex": as_latex,
    }
    return "\n\n".join(map(layouts[format], tables))


def as_csv(head: Sequence[str], body: Sequence[Sequence[object]]) -> str:
    """Comma-separated values; a text that a spreadsheet would run as a formula is defused."""
    out = io.StringIO()
    # Texts stand in quotes: a carriage return in one would end its line for some readers.
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(head)
    for cells in body:
        writer.writerow([inert(cell) if isinstance(cell, str) else cell for cell in cells])
    return out.getvalue().rstrip("\n")


def inert(text: str) -> str:
    """Text that no spreadsheet runs as a formula: such a one begins with an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def error_text(error: float, digits: int = 2) -> str:
    """The figure after ±; one too small for its digits is shown as `<0.01`, never as zero."""
    text = f"{error:.{digits}f}"
    return f"<{10**-digits:.{digits}f}" if error > 0 and float(text) == 0 else text
