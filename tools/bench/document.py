"""docs/performance.md: each bench's figures stand there until that bench is measured again.

- `<!-- figures of bench.py -->`, a table of all goals, and then for each bench in turn
- `<!-- calls -->`, for instance, and its table
- `<!-- end of figures -->`
"""

import re
from pathlib import Path

BEGIN, END = "<!-- figures of bench.py -->", "<!-- end of figures -->"

_SECTION = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
_HEAD = 4
"""Lines of a Markdown table before its rows: title, blank, heads, rule."""


def put(file: Path, name: str, section: str, goals: str) -> None:
    """Put a bench's figures in the place of its earlier ones, or else after all others.

    goals: a Markdown table whose rows begin with the name of the bench. ValueError if the file has
    no place for figures."""
    text = file.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    figures, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{file.name} has no place for figures: {BEGIN} … {END}")
    table, *parts = _SECTION.split(figures)
    sections = dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    sections[name] = section
    reached = _merged(table.strip(), goals, name, list(sections))
    shown = [f"<!-- {each} -->\n\n{section}" for each, section in sections.items()]
    whole = "\n\n".join([f"{before}{BEGIN}", reached, *shown, f"{END}{after}"])
    file.write_text(whole, encoding="utf-8")


def _merged(table: str, goals: str, name: str, order: list[str]) -> str:
    """`table` with the rows of the bench `name` replaced by `goals`."""
    lines = goals.splitlines()
    kept = [row for row in table.splitlines()[_HEAD:] if _bench(row) != name]
    rows = sorted([*kept, *lines[_HEAD:]], key=lambda row: order.index(_bench(row)))
    return "\n".join([*lines[:_HEAD], *rows])


def _bench(row: str) -> str:
    return row.split("|")[1].strip()
