"""Walks through the pages of a run: copies of tables, and problems as dots."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browser import served, violations

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run(runs: Path, hard: Path) -> Iterator[str]:
    """The address of the run that has everything in it."""
    with served(runs) as address:
        yield f"{address}run/{hard.name}"


@pytest.mark.parametrize("width", (1440, 390))
def test_a_table_is_copied_as_csv_or_latex(width: int, page: Any, run: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{run}/transcripts?show=liar+won")
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard',"
        " {value: {writeText: async text => { window.copied = text; }}})"
    )
    page.evaluate("document.querySelector('#list tbody th').textContent = '=1+1,\"a\" & b_1'")
    page.get_by_role("button", name="copy as CSV").click()
    lines = page.locator("#list tbody tr").count()
    table = list(csv.reader(io.StringIO(page.evaluate("copied"))))
    assert table[0][:3] == ["problem", "row", "stands out"] and len(table) == lines + 1
    assert table[1][0] == '\'=1+1,"a" & b_1' and float(table[1][3]) == min(
        float(line[3]) for line in table[1:] if "open" not in line[1]
    )
    page.get_by_role("button", name="copy as LaTeX").click()
    latex = page.evaluate("copied")
    assert latex.startswith("\\begin{tabular}{lllrrr}\n\\toprule\nproblem & row & stands out & ASD")
    assert '=1+1,"a" \\& b\\_1 & ' in latex and latex.count("\\\\\n") == lines + 1
    assert violations(page) == []
