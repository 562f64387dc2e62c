"""Tables, and counts, figures and cells as people read them: `display.md`."""

import csv
import html
import io
import re
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from oversight.engine.analysis.findings.chart import Axis
from oversight.engine.display.table import Table, as_csv, as_latex, as_markdown, as_text
from oversight.engine.display.text import counted, short, signed
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


def test_text_is_aligned_words_to_the_left_and_numbers_to_the_right():
    assert as_text(TABLE).splitlines() == [
        "the title",
        "",
        "  protocol      judge            ASD",
        "  debate        weak    +0.92 ± 0.11",
        "  naive judge   –               0.00",
        "  a note",
    ]


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


def test_in_a_narrow_terminal_what_is_alike_leaves_the_rows_and_zeros_go():
    assert as_text(ROWS, 120) == as_text(ROWS)
    assert as_text(ROWS, 60).splitlines() == [
        "t",
        "  n 92 · judge sim/weak …",
        "",
        "  protocol            judge                    ASD   lift",
        "  debate of the two   stated    +0.92 [0.81, 1.03]  +0.10",
        "  debate of the many  stated   -0.02 [-0.81, 1.03]  +0.10",
        "  naive judge         logprob   +0.92 [0.81, 1.03]      –",
    ]
    assert (
        as_text(ROWS, 52).splitlines()[4] == "  debat of the two  stated    +.92 [.81, 1.03]  +.10"
    )


def test_names_are_shortened_but_never_to_the_same_and_no_line_wraps():
    for width in range(40, 70):
        lines = as_text(ROWS, width).splitlines()
        assert max(map(len, lines)) <= width, width
        names = [line[2:].split("  ")[0] for line in lines[4:7]]
        assert len(set(names)) == 3, lines
    many = Table("t", ("row", *"abcd"), (("x", *["1,000,000"] * 4), ("y", *["2"] * 4)), 1)
    for table, width, told in ((ROWS, 40, "1 more column"), (many, 26, "3 more columns")):
        assert f"{told} in a wider terminal." in " ".join(as_text(table, width).split())


def test_lines_of_few_judges_stand_below_their_names_where_that_saves_the_names():
    body = tuple(
        (f"{n} protocol of some name", judge, f"+0.9{n}")
        for judge in ("weak", "strong")
        for n in range(3)
    )
    table = Table("t", ("protocol", "judge", "ASD"), body, 2)
    lines = as_text(table, 36).splitlines()
    assert [line for line in lines if ":" in line] == ["  judge: weak", "  judge: strong"]
    assert sum("2 protocol of some name" in line for line in lines) == 2


def test_a_long_name_stands_above_its_numbers_and_an_agent_that_is_a_judge_stays():
    names = "it · weak a", "debate at once · weak · weak a", "debate at once · wise · weak b"
    body = tuple((name, f"+0.{len(name)} [-0.1, 0.9]") for name in names)
    lines = as_text(Table("t", ("row", "ASD"), body, 1), 32).splitlines()
    told = ["it · a", "debate at once · weak · a", "debate at once · wise · b"]
    assert [line.strip() for line in lines[4::2]] == told


def test_a_name_that_all_lines_have_stands_above_them_once_if_there_is_any():
    body = ("a", "one judge", "", "+1"), ("b", "one judge", "", "–")
    table = Table("t", ("row", "judge", "beaten", "ASD"), body, 2)
    assert as_text(table, 16).splitlines()[1:3] == ["  judge one", "  judge"]


def test_what_stands_in_a_head_is_whole_and_lengths_that_tell_nothing_apart_leave_the_rows():
    names = ("debate in turn 2 rounds", "debate at once 2 rounds", "talk 3 turns")
    judges = ("sim/weak stated", "sim/weak logprob")
    body = tuple((name, judge, f"+0.9{name[-8]}") for judge in judges for name in names)
    lines = as_text(Table("t", ("row", "judge", "ASD"), body, 2), 30).splitlines()
    assert lines[1] == "  2 rounds, 3 turns"
    assert [line for line in lines if ":" in line] == [f"  judge: {judge}" for judge in judges]
    assert sum("debate in turn  " in line for line in lines) == 2
    longer = (*body, ("debate in turn 4 rounds", "sim/weak stated", "+0.92"))
    narrow = as_text(Table("t", ("row", "judge", "ASD"), longer, 2), 40)
    assert "2 rounds" in narrow and "4 rounds" in narrow and "…" not in narrow.splitlines()[4]


def test_a_name_that_is_to_be_typed_is_never_shortened():
    name = "runs/a-very-long-name-of-a-run-4bb1"
    body = (name, "s", "1"), ("runs/b", "t", "2")
    assert name in as_text(Table("t", ("run", "sweep", "cells"), body, 2, whole=1), 30)


def test_markdown_is_a_table_that_says_where_columns_stand():
    assert as_markdown(TABLE).splitlines() == [
        "**the title**",
        "",
        "| protocol | judge | ASD |",
        "| --- | --- | ---: |",
        "| debate | weak | +0.92 ± 0.11 |",
        "| naive judge | – | 0.00 |",
        "",
        "a note  ",
    ]


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
    shown = [html.unescape(cell) for cell in re.findall("<td.*?>(.*?)</td>", page, re.DOTALL)]
    assert shown == [" ".join(cell.split()) for row in body for cell in row]
    tags = set(re.findall("<.*?>", page, re.DOTALL))
    assert {tag.strip("</>").split()[0] for tag in tags} <= {
        *("p", "strong", "table", "thead", "tbody", "tr", "th", "td", "br")
    }


def test_latex_is_a_booktabs_table():
    assert as_latex(TABLE).splitlines() == [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        r"\caption{the title. a note.}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"\begin{tabular}{llr}",
        r"\toprule",
        r"protocol & judge & ASD \\",
        r"\midrule",
        r"debate & weak & +0.92 $\pm$ 0.11 \\",
        r"naive judge & – & 0.00 \\",
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]


@given(st.lists(st.tuples(st.text(max_size=9), st.floats(allow_nan=False)), max_size=4))
def test_csv_parses_back_but_for_what_would_be_run(body):
    written = as_csv(("name", "figure"), body)
    head, *rows = csv.reader(io.StringIO(written + "\n", newline=""))
    assert head == ["name", "figure"]
    for (text, number), (cell, figure) in zip(body, rows, strict=True):
        assert cell in (text, f"'{text}")
        assert float(figure) == number


def test_a_formula_is_defused_for_spreadsheets_and_numbers_are_none():
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]
    _, *rows = csv.reader(io.StringIO(as_csv(("name",), [(text,) for text in texts]), newline=""))
    assert rows == [[f"'{text}"] for text in texts]
    assert as_csv(("figure",), [(-0.5,), (3,), ("",)]) == '"figure"\n-0.5\n3\n""'


def latex(cell: str) -> list[str]:
    return as_latex(Table("t", ("h",), ((cell,),), 1)).splitlines()[8:9]


def ticks(low: float, high: float) -> str:
    axis = Axis.around((low, high))
    return " ".join(axis.label(tick) for tick in axis.ticks)


@sessions(Path(__file__).with_name("display.md"))
def test_what_is_shown(session, request):
    names = {"counted": counted, "short": short, "signed": signed, "latex": latex}
    names |= {"typeset": typeset, "ticks": ticks}
    session.check(request, expressions(names))
