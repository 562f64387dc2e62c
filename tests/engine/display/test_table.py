"""Tables, and counts, figures and cells as people read them: `display.md`."""

import csv
import html
import io
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from oversight.engine.analysis.findings.chart import Axis
from oversight.engine.display.table import Table, as_csv, as_latex, as_markdown, as_text
from oversight.engine.display.text import (  # noqa: F401
    counted,
    counted_between,
    dollars,
    duration,
    minutes,
    one_line,
    printable,
    short,
    signed,
)
from oversight.engine.display.throughput import (
    Bottleneck,
    LimitStatistics,
    ThroughputMeter,
    busy,  # noqa: F401
    lines,
)
from oversight.engine.views.pages.environment import typeset
from tests.sessions import sessions
from tests.tables import expressions

TABLE = Table(
    "the title",
    ("protocol", "judge", "ASD"),
    (("debate", "weak", "+0.92 ± 0.11"), ("naive judge", "–", "0.00")),
    2,
    ("a note",),
)

words = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=12)


ROWS = Table(
    "t",
    ("protocol", "judge", "n", "ASD", "lift"),
    (
        ("debate of the two", "sim/weak stated", "92", "+0.92 [0.81, 1.03]", "+0.10"),
        ("debate of the many", "sim/weak stated", "92", "-0.02 [-0.81, 1.03]", "+0.10"),
        ("naive judge", "sim/weak logprob", "92", "+0.92 [0.81, 1.03]", "–"),
    ),
    2,
)


def test_no_line_is_wider_than_its_terminal_and_every_word_is_whole():
    name = "an own protocol with settings: patience 12, temper 0.5, stubbornness 3, · sim/judge"
    long = Table("t", ("row", "ASD", "lift"), ((name, "+0.51 [0.4, 0.6]", "–"), ("x", "2", "3")), 1)
    unmeasured = Table("t", ("row", "n"), (("x", "not measured: 20 of 20 cells unreadable"),), 1)
    heads = replace(long, heads=("agent: of a long name that goes on and on", ""), notes=(name,))
    for table in (ROWS, long, heads, unmeasured):
        words = {*" ".join(name for line in table.body for name in line[: table.left]).split()}
        for width in range(34 + 18 * (table.left > 1), 90):
            text = as_text(table, width)
            assert max(map(len, text.splitlines())) <= width, (width, text)
            assert words <= {*text.split()}, (width, text)
    assert "stubbornness" in "".join(as_text(long, 16).split())


@given(st.lists(st.tuples(words, words), min_size=1, max_size=4))
@example([("\\|", "\\")])
@example([("<img src=x onerror=alert(1)>", "<script>x</script>")])
@example(
    [("[text](http://x.example)", "![image][one]"), ("**bold** _a_ `code`", "~~no~~ &lt; Q&A")]
)
@example([("[-0.12, 0.30]", "https://x.example/")])
def test_markdown_shows_cells_as_they_are_and_nothing_else(body):
    written = as_markdown(Table("<b>", ("a", "b"), tuple(body), 1, notes=("*a* <i>",)))
    page = MarkdownIt("gfm-like", {"linkify": False}).disable("linkify").render(written)
    cells = [html.unescape(cell) for cell in re.findall("<td.*?>(.*?)</td>", page, re.DOTALL)]
    assert cells == [" ".join(cell.split()) for row in body for cell in row]
    tags = set(re.findall("<.*?>", page, re.DOTALL))
    assert {tag.strip("</>").split()[0] for tag in tags} <= {
        *("p", "strong", "table", "thead", "tbody", "tr", "th", "td", "br")
    }


@given(st.lists(st.tuples(st.text(max_size=9), st.floats(allow_nan=False)), max_size=4))
def test_csv_parses_back_except_for_formulas(body):
    head, *rows = csv.reader(io.StringIO(as_csv(("name", "figure"), body) + "\n", newline=""))
    assert head == ["name", "figure"]
    for (text, number), (cell, figure) in zip(body, rows, strict=True):
        assert cell in (text, f"'{text}") and float(figure) == number


def latex(cell: str) -> list[str]:
    return as_latex(Table("t", ("h",), ((cell,),), 1)).splitlines()[7:8]


def ticks(low: float, high: float) -> str:
    axis = Axis.around((low, high))
    return " ".join(axis.label(tick) for tick in axis.ticks)


def rates(*adds: tuple[float, float], looks: tuple[float, ...]) -> list[float]:
    """Units a second at some times, of units that came at others."""
    meter, per_second = ThroughputMeter(), []
    for now in sorted({*looks, *(at for at, _ in adds)}):
        for at, units in adds:
            if at == now:
                meter.add(units, now)
        per_second += [round(meter.rate(now), 4)] * (now in looks)
    return per_second


def model(binding: Bottleneck | None = None, **more: Any) -> list[str]:
    """The lines of two models, the second one with these statistics."""
    plain = LimitStatistics(12.4, 3, 0, 8.0, math.inf, None)
    other = LimitStatistics(2.25, 8, 4, 8.0, math.inf, binding, **more)
    return list(lines({"m": plain, "n" * 40: other}, {"m": 1, "n" * 40: 1200}.__getitem__))


@sessions(Path(__file__).with_name("display.md"))
def test_display_session(session, request):
    names = {"typeset": typeset, **globals()}
    session.check(request, expressions(names), names)
