"""A table of text cells in every form that users paste: text, Markdown, LaTeX, CSV."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from textwrap import wrap

from .text import one_line

MARKDOWN = str.maketrans({"<": "&lt;"} | {sign: f"\\{sign}" for sign in "\\|&*_`~"})
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "○": r"$\circ$",
        "β": r"$\beta$",
        "∞": r"$\infty$",
        "→": r"$\to$",
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
    alike: tuple[str, ...] = ()
    """Facts that hold for every line, such as `agent sim/strong`."""
    fixed: int = 0
    """Number of columns, from the left, whose words are never wrapped."""
    heads: tuple[str, ...] = ()
    """By line, the heading that it stands under; () for none."""
    above: tuple[str, ...] = ()
    """Further lines under the title."""
    spans: tuple[tuple[str, int], ...] = ()
    """Heads above columns of numbers, each with its number of columns; () for none."""
    flush: bool = False
    """Whether lines are not indented, and no line stands empty under the title."""
    room: tuple[int, ...] = ()
    """Maximum widths of the columns of words in a terminal; () for no limit."""

    def __post_init__(self) -> None:
        # A field may be a name that a stranger gave: it becomes one line, whatever it says.
        for name, inert in (
            ("title", one_line(self.title)),
            ("head", tuple(map(one_line, self.head))),
            ("body", tuple(tuple(map(one_line, cells)) for cells in self.body)),
            ("notes", tuple(one_line(note, MOST_NOTE) for note in self.notes)),
            ("alike", tuple(one_line(text, MOST_NOTE) for text in self.alike)),
            ("above", tuple(one_line(text, MOST_NOTE) for text in self.above)),
            ("heads", tuple(map(one_line, self.heads))),
            ("spans", tuple((one_line(head), count) for head, count in self.spans)),
        ):
            object.__setattr__(self, name, inert)


MOST_NOTE = 10_000
"""Maximum number of characters of a note."""

LEAST = 8
"""Minimum number of columns of a terminal for a column of words."""

GAP = 3
"""Columns between two fields; one fewer in a narrow terminal."""

NONE = "–"
"""A field without a value."""

NOT_MEASURED = "not measured"
"""A field that starts so takes the room of all numbers to its right, which are empty."""


def as_text(table: Table, width: int | None = None) -> str:
    """Columns aligned with spaces, for a terminal or a log. width: columns of the terminal; None
    for no limit. In a narrow terminal, columns with one value stand above the table, zeros before a
    decimal point go, the last columns are left out, and names continue in a second line. A word is
    broken only if it is longer than its column."""
    gap = GAP
    if width and _taken(table, gap) > width:
        gap -= 1
        table = _fitted(table, width, gap)
    indent = 2 * (not table.flush)
    lines = [*wrapped(table.title, width)]
    for text in (" · ".join(table.alike), *table.above):
        lines += [" " * indent + part for part in wrapped(text, width and width - indent) if part]
    lines += [""] * (not table.flush)
    lines += _aligned(table, gap, width)
    for note in filter(None, table.notes):
        lines += [" " * indent + part for part in wrapped(note, (width or 102) - indent)]
    return "\n".join(lines)


def fits(table: Table, width: int) -> bool:
    """Whether the table fits into a terminal as it is."""
    return _taken(table, GAP - 1) <= width


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """The text in lines of a terminal, intervals whole; in one line without a width. indent: of
    further lines."""
    if not (width and text):
        return [text]
    joined = re.sub(r" \[[^][]{,40}\]", lambda match: match[0].replace(" ", "\xa0"), text)
    lines = wrap(joined, max(width, 1), subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def _aligned(table: Table, gap: int, width: int | None) -> list[str]:
    widths, indent = _widths(table), " " * (2 * (not table.flush))

    def row(fields: Sequence[str]) -> list[str]:
        runs_on = _runs_on(table, fields)
        on_left = table.left + runs_on
        room = [*widths[: table.left], *[0] * (len(fields) - table.left)]
        if runs_on and width:
            used = sum(widths[: table.left]) + gap * table.left + len(indent)
            room[table.left] = max(width - used, LEAST)
        columns = [
            _name_lines(field, room[n]) if n < on_left and room[n] else [field]
            for n, field in enumerate(fields)
        ]
        return [
            (indent + (" " * gap).join(
                field.ljust(size) if n < on_left else field.rjust(size)
                for n, (field, size) in enumerate(zip(line, widths, strict=True))
            )).rstrip()
            for line in zip_longest(*columns, fillvalue="")
        ]  # fmt: skip

    lines = _spans(table, widths, gap, indent) if table.spans else []
    lines += row(table.head)
    last = ""
    for fields, head in zip_longest(table.body, table.heads, fillvalue=""):
        if head != last:
            lines += [indent + part for part in wrapped(head, width and width - len(indent))]
        lines += row(tuple(fields))
        last = head
    return lines


def _spans(table: Table, widths: Sequence[int], gap: int, indent: str) -> list[str]:
    """The lines of heads above several columns of numbers each."""
    first, start = table.left, indent + " " * (sum(widths[: table.left]) + gap * table.left)
    heads, sizes = [], []
    for text, count in table.spans:
        sizes.append(sum(widths[first : first + count]) + gap * count)
        heads.append(wrap(text, max(sizes[-1] - gap, LEAST)))
        first += count
    return [
        (start + "".join(part.ljust(size) for part, size in zip(line, sizes, strict=True))).rstrip()
        for line in zip_longest(*heads, fillvalue="")
    ]


def _name_lines(name: str, width: int) -> list[str]:
    """A name in lines of its column; further lines are indented by two, if all words fit so."""
    indent = "  " * (max(map(len, name.split()), default=0) <= width - 2)
    return wrap(name, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _widths(table: Table) -> list[int]:
    count = len(table.head)
    empty = [""] * (count - table.left)
    body = [(*c[: table.left], *empty) if _runs_on(table, c) else c for c in table.body]
    widths = [max(map(len, column)) for column in zip(table.head, *body, strict=True)]
    return [*map(min, widths, table.room), *widths[len(table.room) :]]


def _taken(table: Table, gap: int) -> int:
    """Columns of a terminal that the table takes."""
    widths, indent = _widths(table), 2 * (not table.flush)
    return sum(widths) + gap * (len(widths) - 1) + indent


def _fitted(table: Table, width: int, gap: int) -> Table:
    """The table in a narrow terminal."""
    if len(table.body) > 1 and not table.spans:
        table = _without_what_is_alike(table, len(table.head))
    if _taken(table, gap) > width:
        cells = ((*fields[: table.left], *map(bare, fields[table.left :])) for fields in table.body)
        table = replace(table, body=tuple(cells))
    widest, longest = _widths(table)[: table.left], _longest_words(table)
    while _taken(replace(table, room=longest), gap) > width and len(table.head) > table.left + 1:
        table = _columns(table, range(len(table.head) - 1))
    for least in (longest, (*longest[: table.fixed], *[LEAST] * (table.left - table.fixed))):
        while _taken(replace(table, room=tuple(widest)), gap) > width:
            spare = [size - end for size, end in zip(widest, least, strict=True)]
            if max(spare, default=0) <= 0:
                break
            widest[max(range(table.left), key=lambda n: (spare[n] > 0, widest[n]))] -= 1
    return replace(table, room=tuple(widest))


def _longest_words(table: Table) -> tuple[int, ...]:
    """By column of names, the width that keeps every word whole; of one never wrapped, its own."""
    sizes = []
    for n, size in enumerate(_widths(table)[: table.left]):
        words = [word for line in (table.head, *table.body) for word in line[n].split()]
        sizes.append(size if n < table.fixed else min(size, max(map(len, words), default=0)))
    return tuple(sizes)


def bare(text: str) -> str:
    """Numbers without the zeros before their points."""
    return re.sub(r"(?<![\d.])0\.(?=\d)", ".", text)


def _without_what_is_alike(table: Table, first: int) -> Table:
    """Without the first columns that have one value."""
    alike, columns = [], []
    for n, (head, *cells) in enumerate(zip(table.head, *table.body, strict=True)):
        if 0 < n < first and len(set(cells)) == 1:
            alike += [f"{head} {cells[0]}"] * bool(cells[0])
        else:
            columns.append(n)
    on_left = sum(n < table.left for n in columns)
    return replace(_columns(table, columns), left=on_left, alike=(*table.alike, *alike))


def _runs_on(table: Table, fields: Sequence[str]) -> bool:
    return "".join(fields[table.left : table.left + 1]).startswith(NOT_MEASURED)


def _columns(table: Table, chosen: Sequence[int]) -> Table:
    body = tuple(tuple(row[n] for n in chosen) for row in table.body)
    return replace(table, head=tuple(table.head[n] for n in chosen), body=body)


def as_markdown(table: Table) -> str:
    rule = ["---"] * table.left + ["---:"] * (len(table.head) - table.left)
    rows = [table.head, rule, *table.body]
    lines = [f"| {' | '.join(map(markdown_text, cells))} |" for cells in rows]
    notes = ["", *(f"{markdown_text(note)}  " for note in table.notes)] if table.notes else []
    alike = ["", " · ".join(map(markdown_text, table.alike))] if table.alike else []
    return "\n".join([f"**{markdown_text(table.title)}**", *alike, "", *lines, *notes])


def markdown_text(text: str) -> str:
    """Escape text for Markdown: no HTML, emphasis, code, link, image or border comes of it.
    Brackets stay bare unless they would make a link, so that intervals remain readable."""
    return text.translate(MARKDOWN).replace("](", r"]\(").replace("][", r"]\[")


LONG = 45
"""Lines of a table from which on it goes on over pages."""

COLUMN, PAGE = 228.0, 460.0
"""Points of one column of an article and of two, on letter paper, a little less."""

DIGIT, SMALL, SIGN, LETTER, SEPARATION = 4.35, 4.1, 6.7, 4.4, 6.0
"""Points of a digit, of one in scriptsize, of a sign, of a letter on average, and between two
columns."""


def as_latex(table: Table, comments: Iterable[str] = (), simulated: bool = False) -> str:
    """A table of an article. Its caption is the title; notes are comments above it. simulated:
    whether the caption says that models are simulated."""
    table = _without_what_is_alike(table, table.left) if len(table.body) > 1 else table
    names = [[latex_name(cell) for cell in cells[: table.left]] for cells in table.body]
    figures = [[latex_cell(cell) for cell in cells[table.left :]] for cells in table.body]
    title = f"{table.title}." + " Simulated models." * simulated
    comments = (*comments, *table.alike, *table.notes)
    body = [(*words, *numbers) for words, numbers in zip(names, figures, strict=True)]
    long = len(body) > LONG
    return latex_table(title, table.head, body, table.left, comments=comments, long=long)


def latex_table(
    caption: str,
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    left: int = 1,
    *,
    comments: Iterable[str] = (),
    long: bool = False,
) -> str:
    r"""A table in \footnotesize (8 pt); it needs booktabs.

    It is as wide as one column of an article, or as two if it does not fit into one. Columns of
    words that are too wide break at blanks. body: cells in LaTeX; a line of one cell is a heading.
    left: number of columns of words. comments: lines above it. long: a longtable over pages."""
    lines = [cells for cells in body if len(cells) > 1]
    widths = [
        max(latex_width(name), *(latex_width(cells[n], n < left) for cells in lines), 0.0)
        + SEPARATION
        for n, name in enumerate(head)
    ]
    numbers, words = sum(widths[left:]), sum(widths[:left])
    # Names may take two lines before a table takes two columns.
    page = PAGE if long or numbers + words / 2 > COLUMN else COLUMN
    columns = ["l"] * left
    if over := numbers + words > page:
        share = max(page - numbers, 0.0) / words
        room = [
            max(width * share - SEPARATION, *(_longest_word(cells[n]) for cells in lines))
            for n, width in enumerate(widths[:left])
        ]
        columns = [f"p{{{points:.0f}pt}}" for points in room]
    head_lines = [
        rf"\multicolumn{{{len(head)}}}{{@{{}}l@{{}}}}{{\emph{{{cells[0]}}}}} \\"
        if len(cells) == 1
        else " & ".join([RAGGED * over + cell for cell in cells[:left]] + [*cells[left:]]) + r" \\"
        for cells in (tuple(map(_braced, cells)) for cells in body)
    ]
    form = f"@{{}}{''.join(columns)}{'r' * (len(head) - left)}@{{}}"
    top = [r"\toprule", " & ".join(map(latex_cell, head)) + r" \\", r"\midrule"]
    size = rf"\footnotesize\setlength{{\tabcolsep}}{{{SEPARATION / 2:.0f}pt}}"
    above = [f"% {one_line(line, MOST_NOTE)}" for line in comments if line.strip()]
    caption = rf"\caption{{{latex_cell(one_line(caption, MOST_NOTE))}}}"
    if long:
        out = [
            r"% longtable needs \onecolumn and the package longtable",
            *above,
            rf"{{{size}",
            rf"\begin{{longtable}}{{{form}}}",
            caption + r" \\",
            *top,
            r"\endfirsthead",
            *top,
            r"\endhead",
            *head_lines,
            r"\bottomrule",
            r"\end{longtable}}",
        ]
    else:
        kind = "table*" if page == PAGE else "table"
        out = [
            *above,
            rf"\begin{{{kind}}}",
            rf"\centering{size}\setlength{{\belowcaptionskip}}{{4pt}}",
            caption,
            rf"\begin{{tabular}}{{{form}}}",
            *top,
            *head_lines,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\end{{{kind}}}",
        ]
    return "\n".join(out)


RAGGED = r"\raggedright\hangindent=1em "


def _longest_word(cell: str) -> float:
    """Points that its longest part takes, indented as in a second line."""
    return max(latex_width(word, True) for word in re.split(" |/", cell)) + 2 * LETTER


def latex_name(name: str) -> str:
    """A name in LaTeX that may go on in another line after a slash."""
    return latex_cell(one_line(name)).replace("/", r"/\allowbreak{}")


def _braced(cell: str) -> str:
    """A cell whose leading `[` or `*` LaTeX does not take for an option of the line break."""
    return re.sub(r"^(\s*)([\[*])", r"\1{\2}", cell)


def latex_width(cell: str, words: bool = False) -> float:
    """About how many points a cell in LaTeX takes. words: not a number."""
    small = cell.partition(r"{\scriptsize")[2].partition("}")[0]
    signs = len(re.findall(r"\$-\$|\$\\pm\$|\+", cell))
    printed = re.sub(r"\\,|\\[a-zA-Z]+|[\\{}$]", "", cell.replace(r"$\pm$", "±"))
    letters = len(printed) * (LETTER if words else DIGIT)
    return letters + signs * (SIGN - DIGIT) - len(small) * (DIGIT - SMALL) * bool(small)


def latex_cell(cell: str) -> str:
    """A cell in LaTeX; a negative number gets a minus sign."""
    return re.sub(r"(?<![^\[(, ])-(?=\.?\d)", "$-$", cell.translate(LATEX))


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
