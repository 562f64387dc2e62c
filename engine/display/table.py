"""A table of text cells in every form that users paste: text, Markdown, LaTeX, CSV."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from textwrap import wrap
from typing import TypeAlias

from .text import counted, one_line

MARKDOWN = str.maketrans({"<": "&lt;"} | {sign: f"\\{sign}" for sign in "\\|&*_`~"})
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
    """What holds for every line, such as `agent sim/strong`."""
    whole: int = 0
    """Number of columns, from the left, whose words are never shortened."""
    heads: tuple[str, ...] = ()
    """One a line, of those that stand below one another under it; () for none."""

    def __post_init__(self) -> None:
        # What stands in a cell may be a name that a stranger gave: one line, whatever it says.
        for name, inert in (
            ("title", one_line(self.title)),
            ("head", tuple(map(one_line, self.head))),
            ("body", tuple(tuple(map(one_line, cells)) for cells in self.body)),
            ("notes", tuple(one_line(note, MOST_NOTE) for note in self.notes)),
            ("alike", tuple(one_line(each, MOST_NOTE) for each in self.alike)),
        ):
            object.__setattr__(self, name, inert)


MOST_NOTE = 10_000
"""Characters of a note at most."""

NAME_WIDTH = 8
"""Columns of a terminal that a shortened name has at least."""

READABLE, MAIN_NUMBERS = 20, 3
"""Columns that a name keeps while there are more columns of numbers than so many to leave out."""

GAP = 3
"""Columns between two cells; one fewer in a narrow terminal."""


def as_text(table: Table, width: int | None = None) -> str:
    """Columns aligned with spaces, for a terminal or a log.

    width: columns of the terminal; None for any. To fit it, what all lines share leaves them, zeros
    before a decimal point go, and names are shortened as far as they stay apart; the last columns
    are left out, and named, where even that is not enough.
    """
    gap = GAP
    if width and _taken(table, gap) > width:
        gap -= 1
        table = _fitted(table, width, gap)
    lines = [*wrapped(table.title, width)]
    lines += [f"  {part}" for part in wrapped(" · ".join(table.alike), width and width - 2) if part]
    lines += ["", *_aligned(table, gap)]
    notes = [part for note in table.notes for part in wrapped(note, (width or 102) - 2)]
    return "\n".join([*lines, *(f"  {note}" for note in notes)])


def wrapped(text: str, width: int | None) -> list[str]:
    """The text in lines of a terminal; in one for any other."""
    return wrap(text, max(width, 1), break_on_hyphens=False) if width and text else [text]


def _aligned(table: Table, gap: int) -> list[str]:
    widths = _widths(table)

    def row(cells: Sequence[str]) -> str:
        left = table.left + _runs_on(table, cells)
        placed = (
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  " + (" " * gap).join(placed).rstrip()

    lines, last = [row(table.head)], ""
    for cells, head in zip_longest(table.body, table.heads, fillvalue=""):
        if head != last:
            lines.append(f"  {head}")
        lines.append(row(tuple(cells)))
        last = head
    return lines


def _widths(table: Table) -> list[int]:
    count = len(table.head)
    body = [
        (*c[: table.left], *[""] * (count - table.left)) if _runs_on(table, c) else c
        for c in table.body
    ]
    return [max(map(len, column)) for column in zip(table.head, *body, strict=True)]


def _taken(table: Table, gap: int) -> int:
    widths, end = _widths(table), gap * (len(table.head) - 1) + 2
    named = sum(widths[: table.left]) + gap * table.left + 2
    longest = (len(c[table.left]) for c in table.body if _runs_on(table, c))
    return max(sum(widths) + end, named + max(longest, default=0))


def _fitted(table: Table, width: int, gap: int) -> Table:
    """The table in a narrow terminal."""
    if len(table.body) > 1:
        table = _without_what_is_alike(table, len(table.head))
    named, table = table, _without_what_names_share(table)
    if _taken(table, gap) > width:
        table = _bare(table)
    if _taken(table, gap) > width and (headed := _under_heads(named)):
        # What stands in a head takes no room of a line: it is whole there.
        table = _bare(_without_what_names_share(headed))
    elif table.left == 1 > table.whole and 4 * (_taken(table, gap) - width) > _widths(table)[0]:
        table = _names_above(table, width)
    left_out = 0
    for least, numbers in ((READABLE, MAIN_NUMBERS), (NAME_WIDTH, 1)):
        while len(table.head) > table.left + numbers:
            if _taken(_with_names(table, width, gap, least), gap) <= width:
                break
            left_out += 1
            table = _columns(table, range(len(table.head) - 1))
    table = _with_names(table, width, gap, NAME_WIDTH)
    if left_out:
        note = f"{counted(left_out, 'more column')} in a wider terminal."
        return replace(table, notes=(*table.notes, note))
    return table


def _with_names(table: Table, width: int, gap: int, least: int) -> Table:
    """The table with its names shortened, none to less than so many columns."""
    if (over := _taken(table, gap) - width) > 0:
        names = range(table.whole, table.left)
        widths = _shrunk([_widths(table)[n] for n in names], over, least)
        for n, room in zip(names, widths, strict=True):
            table = _with(table, [n], partial(_shortened, room=room))
    return table


def _names_above(table: Table, width: int) -> Table:
    """The table with each name on a line of its own, where the numbers would cut it too short."""
    names, *numbers = zip(*table.body, strict=True)
    body = tuple(zip([""] * len(names), *numbers, strict=True))
    return replace(table, body=body, heads=tuple(_shortened(names, width - 2)))


def bare(cell: str) -> str:
    """A number without the zero before its point."""
    return re.sub(r"(?<![\d.])0\.(?=\d)", ".", cell)


def _bare(table: Table) -> Table:
    return _with(table, range(table.left, len(table.head)), lambda cells: map(bare, cells))


def _without_what_is_alike(table: Table, first: int) -> Table:
    """Without those of its first columns that have one value."""
    alike, kept = [], []
    for n, (head, *cells) in enumerate(zip(table.head, *table.body, strict=True)):
        if 0 < n < first and len(set(cells)) == 1:
            alike += [f"{head} {cells[0]}"] * bool(cells[0])
        else:
            kept.append(n)
    left = sum(n < table.left for n in kept)
    return replace(_columns(table, kept), left=left, alike=(*table.alike, *alike))


def _without_what_names_share(table: Table) -> Table:
    """Without the words that tell no names of a column apart."""
    if len(table.body) < 2:
        return table
    alike, columns = [], list(zip(*table.body, strict=True))
    lengths = dict[str, str]()
    for n, head in enumerate(table.head[: table.left]):
        for cut in (_without_first_words, _without_words_behind):
            told, columns[n] = cut(columns[n])
            alike += [f"{head} {told}"] * bool(told)
        told, columns[n] = _without_lengths(columns[n])
        lengths |= {head: told} if told else {}
    # Where two columns have lengths, it is said whose they are.
    alike += [told if len(lengths) == 1 else f"{head} … {told}" for head, told in lengths.items()]
    body = tuple(zip(*columns, strict=True))
    return replace(table, body=body, alike=(*table.alike, *alike))


Cut: TypeAlias = tuple[str, tuple[str, ...]]
"""What names share, empty for nothing; and the names without it."""


def _without_first_words(names: tuple[str, ...]) -> Cut:
    """Of each name one word is left."""
    split = [name.split() for name in names if name != NONE]
    most = min(map(len, split), default=1) - 1
    same = next((k for k in range(most) if len({name[k] for name in split}) > 1), most)
    if same < 1:
        return "", names
    kept = (name if name == NONE else " ".join(name.split()[same:]) for name in names)
    return " ".join([*split[0][:same], "…"]), tuple(kept)


def _without_words_behind(names: tuple[str, ...]) -> Cut:
    """Words of the last part of every name, such as a judge; not if they are all of one."""
    parts = [name.split(" · ") for name in names]
    words = [{*" ".join(behind[-1:]).split()} for _, *behind in parts]
    shared = set.intersection(*words)
    if not shared or all(each == shared for each in words):
        return "", names
    kept = ([*p[:-1], " ".join(w for w in p[-1].split() if w not in shared)] for p in parts)
    told = " ".join(word for word in parts[0][-1].split() if word in shared)
    return f"… {told} …", tuple(" · ".join(filter(None, each)) for each in kept)


LENGTH = r"(?<=\w) \d+ [a-z]+(?= · |$)"
"""The end of the first part of a name: `debate sequential 2 rounds`."""


def _without_lengths(names: tuple[str, ...]) -> Cut:
    """The ends of names, if they tell none apart from its namesake: one of each unit."""
    ends = {found[0].strip() for name in names if (found := re.search(LENGTH, name))}
    without = tuple(re.sub(LENGTH, "", name, count=1) for name in names)
    alone = len({end.split()[1] for end in ends}) == len(ends) > 0
    if not alone or len(set(without)) < len(set(names)):
        return "", names
    return ", ".join(sorted(ends)), without


NONE = "–"
"""A cell without a value."""

NOT_MEASURED = "not measured"
"""A cell that begins so takes the room of all numbers to its right, which are empty."""


def _runs_on(table: Table, cells: Sequence[str]) -> bool:
    return "".join(cells[table.left : table.left + 1]).startswith(NOT_MEASURED)


def _with(
    table: Table, places: Iterable[int], change: Callable[[Sequence[str]], Iterable[str]]
) -> Table:
    """The table with the cells of some columns changed."""
    columns = list(zip(*table.body, strict=True))
    for n in places:
        columns[n] = tuple(change(columns[n]))
    return replace(table, body=tuple(zip(*columns, strict=True)))


def _under_heads(table: Table) -> Table | None:
    """The table with what its first column does not name in heads; None unless lines share them."""
    names = range(max(table.whole, 1), table.left)
    heads = [
        ", ".join(f"{table.head[n]}: {cells[n]}" for n in names if cells[n] != NONE)
        for cells in table.body
    ]
    order = {head: n for n, head in enumerate(dict.fromkeys(heads))}
    if not names or not 1 < len(order) <= len(heads) // 3:
        return None
    lines = sorted(zip(heads, table.body, strict=True), key=lambda line: order[line[0]])
    table = replace(
        table, body=tuple(cells for _, cells in lines), heads=tuple(h for h, _ in lines)
    )
    kept = [n for n in range(len(table.head)) if n not in names]
    return replace(_columns(table, kept), left=table.left - len(names))


def _shrunk(widths: Sequence[int], over: int, least: int) -> list[int]:
    """The widths, the widest smaller until all together are by `over`, or as small as they get."""
    found = list(widths)
    while found and over > 0 and max(found) > least:
        found[found.index(max(found))] -= 1
        over -= 1
    return found


def _shortened(cells: Sequence[str], room: int) -> list[str]:
    """Names within so many columns, or as few more as keep different ones apart."""
    while len({*(found := [_short(cell, room) for cell in cells])}) < len({*cells}):
        room += 1
    return found


def _short(name: str, room: int) -> str:
    """A name with its longest words cut, so that something of each is left."""
    parts = re.split(r"([^\W\d_]+)", name)
    while len(longest := max(parts[1::2], key=len, default="")) > 1 and sum(map(len, parts)) > room:
        at = max(n for n, part in enumerate(parts) if n % 2 and part == longest)
        parts[at] = longest[:-1]
    return "".join(parts)


def _columns(table: Table, kept: Sequence[int]) -> Table:
    body = tuple(tuple(row[n] for n in kept) for row in table.body)
    return replace(table, head=tuple(table.head[n] for n in kept), body=body)


def as_markdown(table: Table) -> str:
    rule = ["---"] * table.left + ["---:"] * (len(table.head) - table.left)
    rows = [table.head, rule, *table.body]
    lines = [f"| {' | '.join(map(markdown_text, cells))} |" for cells in rows]
    notes = ["", *(f"{markdown_text(note)}  " for note in table.notes)] if table.notes else []
    alike = ["", " · ".join(map(markdown_text, table.alike))] if table.alike else []
    return "\n".join([f"**{markdown_text(table.title)}**", *alike, "", *lines, *notes])


def markdown_text(text: str) -> str:
    """Escape text for Markdown: no HTML, emphasis, code, link, image or border comes of it.

    Brackets stay bare unless they would make a link, so that intervals remain readable.
    """
    return text.translate(MARKDOWN).replace("](", r"]\(").replace("][", r"]\[")


def as_latex(table: Table) -> str:
    """A table of an article; what all lines share stands in its caption."""
    table = _without_what_is_alike(table, table.left) if len(table.body) > 1 else table
    columns = "l" * table.left + "r" * (len(table.head) - table.left)
    said = (table.title, *table.alike, *table.notes)
    return latex_table(said, columns, table.head, map(latex_row, table.body))


def latex_table(said: Iterable[str], columns: str, head: Iterable[str], body: Iterable[str]) -> str:
    """A table no wider than its column of text; it needs booktabs and graphicx. said: sentences of
    the caption, so that they are printed wherever the table is. body: lines, as `latex_row` makes
    them."""
    caption = " ".join(each if each.endswith(".") else f"{each}." for each in said)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{latex_cell(caption)}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            latex_row(head),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
    )


def latex_row(cells: Iterable[str]) -> str:
    """A line of a table.

    A leading `[` or `*` stands in braces: after a line break LaTeX would read it as an option.
    """
    line = " & ".join(map(latex_cell, cells)) + r" \\"
    return re.sub(r"^(\s*)([\[*])", r"\1{\2}", line)


def latex_cell(cell: str) -> str:
    """A cell in LaTeX; a negative number gets a minus sign."""
    return re.sub(r"(?<![^\[(, ])-(?=\.?\d)", "$-$", cell.translate(LATEX))


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
