import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.engine.display.table import Table, as_csv, as_latex, as_markdown, as_text

TABLE = Table(
    "the title",
    ("protocol", "judge", "ASD"),
    (("debate", "weak", "+0.92 ± 0.11"), ("naive judge", "–", "0.00")),
    2,
    ("a note",),
)

words = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=12)


def test_text_is_aligned_words_to_the_left_and_numbers_to_the_right() -> None:
    assert as_text(TABLE).splitlines() == [
        "the title",
        "",
        "  protocol      judge            ASD",
        "  debate        weak    +0.92 ± 0.11",
        "  naive judge   –               0.00",
        "  a note",
    ]


def test_names_wrap_and_columns_go_on_below_where_the_terminal_is_narrow() -> None:
    long = Table(
        "t",
        ("protocol", "judge", "ASD", "lift"),
        (("debate simultaneous of two rounds", "weak", "+0.92 [0.81, 1.03]", "+0.10"),),
        2,
    )
    narrow = as_text(long, 50).splitlines()
    assert max(map(len, narrow)) <= 50
    words = " ".join(narrow)
    for cell in ("debate", "rounds", "weak", "+0.92 [0.81, 1.03]", "lift", "+0.10"):
        assert cell in words
    assert as_text(long, 120) == as_text(long)


def test_markdown_is_a_table_that_says_where_columns_stand() -> None:
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
def test_markdown_parses_back_whatever_the_cells_hold(body: list[tuple[str, str]]) -> None:
    written = as_markdown(Table("t", ("a", "b"), tuple(body), 1)).splitlines()
    rows = [line.removeprefix("| ").removesuffix(" |") for line in written[4:]]
    parsed = [tuple(split_cells(row)) for row in rows]
    assert parsed == body


def split_cells(row: str) -> list[str]:
    """As a reader of Markdown splits a row: at every bar that is not escaped."""
    cells, cell, escaped = [], "", False
    for sign in row:
        if escaped:
            cell += sign if sign in "|\\" else f"\\{sign}"
            escaped = False
        elif sign == "\\":
            escaped = True
        elif sign == "|":
            cells.append(cell)
            cell = ""
        else:
            cell += sign
    cells.append(cell + ("\\" if escaped else ""))
    return [cell.removeprefix(" ").removesuffix(" ") for cell in cells]


def test_latex_is_a_booktabs_table() -> None:
    assert as_latex(TABLE).splitlines() == [
        "% the title",
        r"\begin{tabular}{llr}",
        r"\toprule",
        r"protocol & judge & ASD \\",
        r"\midrule",
        r"debate & weak & +0.92 $\pm$ 0.11 \\",
        r"naive judge & – & 0.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
        "% a note",
    ]


@pytest.mark.parametrize(
    ("cell", "escaped"),
    [
        ("a_b & 50 % of #1", r"a\_b \& 50 \% of \#1"),
        ("{x}^2 ~ $5", r"\{x\}\textasciicircum{}2 \textasciitilde{} \$5"),
        ("a\\b", r"a\textbackslash{}b"),
        ("JSE β=1", r"JSE $\beta$=1"),
        ("a < b | c > d", r"a \textless{} b \textbar{} c \textgreater{} d"),
    ],
)
def test_latex_takes_no_sign_of_a_cell_for_its_own(cell: str, escaped: str) -> None:
    assert f"{escaped} \\\\" in as_latex(Table("t", ("h",), ((cell,),), 1)).splitlines()


@given(st.lists(st.tuples(st.text(max_size=9), st.floats(allow_nan=False)), max_size=4))
def test_csv_parses_back_but_for_what_would_be_run(body: list[tuple[str, float]]) -> None:
    written = as_csv(("name", "figure"), body)
    head, *rows = csv.reader(io.StringIO(written + "\n", newline=""))
    assert head == ["name", "figure"]
    for (text, number), (cell, figure) in zip(body, rows, strict=True):
        assert cell in (text, f"'{text}")
        assert float(figure) == number


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_is_defused_for_spreadsheets(text: str) -> None:
    written = as_csv(("name",), [(text,)])
    _, (cell,) = csv.reader(io.StringIO(written, newline=""))
    assert cell == f"'{text}"


def test_numbers_are_no_formulas() -> None:
    assert as_csv(("figure",), [(-0.5,), (3,), ("",)]) == '"figure"\n-0.5\n3\n""'
