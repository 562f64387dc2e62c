"""Walks through the pages of a run: copies of tables, and problems as dots."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from oversight.engine.analysis.rows import read_rows
from oversight.engine.run.reader import RunReader
from oversight.engine.views.pages.site import write_site
from tests.pages.browser import faults_in, served, violations

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


@pytest.mark.parametrize("width", (1440, 390))
def test_a_row_opens_to_one_dot_per_problem(width, page, run, hard, tmp_path):
    with RunReader(hard) as reader:
        rows = read_rows(reader)
        values, names = rows.asd_by_problem("brier"), rows.names
        ids = [problem.id for problem in reader.sweep.problems]
        n = max(range(len(names)), key=lambda row: np.ptp(values[:, row]))
        measured = values[:, n][~np.isnan(values[:, n])]
        lowest = int(np.nanargmin(values[:, n]))
        write_site(reader, tmp_path / "site", most=None, calls=False)
    page.set_viewport_size({"width": width, "height": 800})
    for address in (run, (tmp_path / "site" / "index.html").as_uri()):
        page.goto(address)
        faults = faults_in(page)
        page.locator(".fold").evaluate_all("all => all.forEach(each => each.click())")
        page.locator(f"tr[data-row='{n}'] .dots-of").click()
        opened = page.locator(".dots-row")
        assert opened.locator("circle").count() == len(measured)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert f"lowest: {ids[lowest]} " in opened.inner_text()
        page.evaluate("scrollTo(0, 0)")
        assert violations(page) == [] and faults == []
        opened.locator("p a").first.click()
        heading = page.locator("h1:visible").filter(has_text=ids[lowest])
        heading.first.wait_for()
    page.goto(f"{run}/compare?first={quote(names[n])}&second=naive+judge")
    assert page.locator("#dots circle").count() == len(measured)
    assert page.locator("#dots p a").count() == 2 and violations(page) == []
