import csv
import io
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import orjson
import pytest
from pytest import approx

from oversight import Agent, Debate, Failure, LogprobJudge, Protocol, UsageError, Verdict
from oversight.engine.analysis.reports.formats import ENDINGS, FORMATS
from oversight.engine.analysis.reports.groups import pivot, rows_where
from oversight.engine.analysis.reports.paper import groups_table, report_table
from oversight.engine.analysis.reports.report import (
    MOST_ROWS,
    finding,
    notes_of,
    report,
    save_report,
)
from oversight.engine.analysis.reports.results import Results, collect
from oversight.engine.display.table import Table
from oversight.engine.sweep.sweep import Cell
from oversight.protocols import BestOf, Consultancy, NaiveJudge, Propaganda, SideCheck
from tests.engine.verdicts import (
    JUDGE,
    NAIVE,
    PROPAGANDA,
    SMALL,
    completed,
    records,
    results,
    sweep,
    verdict,
)  # fmt: skip

LOST = Failure("Overloaded", "no reply")
FOUND = results(sweep(NAIVE, PROPAGANDA), SMALL | {("naive judge", "p1", 0): (0.5, LOST)})


def main_table(measured: Results) -> Table:
    return finding(measured).tables()[0]


def titled(measured: Results, start: str) -> Table | None:
    """The table whose title begins so."""
    every = finding(measured, measures=True).tables()
    return next((table for table in every if table.title.startswith(start)), None)


def notes(measured: Results) -> str:
    return " ".join(notes_of(measured))


def many(agents: int, protocols: int = 1) -> Results:
    """Rows of several agents under one judge."""
    names = [f"sim/agent-with-a-long-name-{n}" for n in range(agents)]
    rows = [Propaganda(JUDGE, Agent(name)) for name in names]
    rows += [Debate(JUDGE, Agent(name), rounds=k) for k in range(1, protocols) for name in names]
    grid = sweep(NAIVE, *rows)
    kinds = {row.kind for row in grid.rows}
    worlds = {
        (kind, p, 0): (0.8, 0.6 - n / 9) for kind in kinds for n, p in enumerate(("p0", "p1"))
    }
    return collect(grid, records(grid, worlds))


@pytest.mark.wire
def test_many_rows_are_averaged_in_groups_and_fit_a_screen() -> None:
    measured = many(29, 10)
    lines = report(measured, "text", 80).splitlines()
    assert len(measured.rows) == 291 and len(lines) <= 20
    assert max(map(len, lines)) <= 80 and "291 rows in 11 groups: --all · 2 problems" in lines
    assert len(finding(measured).text("text", 80).splitlines()) > 291
    assert len([line for line in lines if line.startswith("debate")]) == 9
    top = finding(measured, short=True, sort="asd").text("text", 80)
    assert "251 more lines: --all, some by --where." in " ".join(top.split())
    few = many(MOST_ROWS - 1)
    assert finding(few).text("text") == report(few, "text")


def test_rows_are_chosen_ordered_and_cut_to_columns_in_every_format() -> None:
    written = finding(FOUND, columns=["asd", "bounds.worst"], sort="asd").text("json")
    rows = orjson.loads(written)["rows"]
    assert [list(row) for row in rows] == [["protocol", "agent", "judge", "asd", "bounds"]] * 2
    assert [list(row["bounds"]) for row in rows] == [["worst"]] * 2
    assert [row["asd"]["value"] for row in rows] == [approx(0.8), approx(0.4)]
    head, *_ = finding(FOUND, columns=["n"]).text("csv").splitlines()
    assert head == '"protocol","agent","judge","n"'
    assert "mde" in finding(FOUND, columns=["mde"]).text("text")
    with pytest.raises(UsageError, match=r"'asdf': did you mean 'asd'. Choose from protocol, ag"):
        finding(FOUND, columns=["asdf"])


def test_the_table_of_the_paper_is_one_table_of_means_over_agents() -> None:
    measured = many(4, 2)
    lines = pivot(measured, ["protocol"])
    assert lines[0].group == ("naive judge",) and len(lines) == 3
    debate = next(line for line in lines if line.group == ("debate",))
    rows = [row for row in measured.rows if row.row.kind == "debate simultaneous 1 round"]
    for measure in ("asd", "accuracy", "lift"):
        every = [getattr(row, measure).value for row in rows]
        assert getattr(debate, measure).value == approx(sum(every) / len(every))
    assert debate.jse and debate.jse.value == approx(sum(row.jse[1].value for row in rows) / 4)
    assert all((line.lift is None) == (line.group == ("naive judge",)) for line in lines)
    written = groups_table(measured, lines, ["protocol"], True, ("SIMULATED",))
    assert written.count(r"\begin{tabular}") == written.count(r"\toprule") == 1
    assert "Simulated models." in written and "protocol & ASD & JSE" in written
    assert not re.search(r"[ \[]-\.?\d", written), "a hyphen for a minus"
    assert re.search(r"^naive judge & .*& \$-\$\.\d\d", written, re.MULTILINE)


@pytest.mark.wire
@pytest.mark.skipif(not which("pdflatex"), reason="there is no pdflatex")
@pytest.mark.parametrize("score", ["brier", "log", "logodds"])
def test_tables_for_a_paper_compile_within_one_column(score: str, tmp_path: Path) -> None:
    judges, agents = (JUDGE, LogprobJudge("sim/judge")), [Agent(f"sim/{n}") for n in range(4)]
    pairs = [(judge, agent) for judge in judges for agent in agents]
    rows = [Debate(*pair, rounds=4, simultaneous=False) for pair in pairs]
    rows += [Consultancy(*pair, turns=4) for pair in pairs]
    grid, rng = sweep(*map(NaiveJudge, judges), *rows, problems=40), np.random.default_rng(0)

    def verdict_of(cell: Cell) -> Verdict:
        best = 0.4 + 0.1 * agents.index(cell.row.protocol.agent) if cell.row.agent else 0.5
        p = rng.beta(3 * best, 3 * (1 - best))
        return verdict(cell, p, 1 - p)

    measured = collect(grid, completed(grid, verdict_of), score=score)
    by = ["protocol", "judge"]
    table = groups_table(measured, pivot(measured, by), by, True, ())
    assert "protocol & ASD & slope & JSE" in table
    assert table.count(r"$\pm$") + table.count(r"\,[") >= 10, "no intervals to fit"
    text = report(measured, "latex")
    assert table.count("Simulated models.") == text.count("Simulated models.") == 1
    long = report_table(many(8, 5), True, ())
    (tmp_path / "t.tex").write_text(
        "\\documentclass[10pt,twocolumn]{article}\\usepackage{booktabs,longtable}"
        f"\\begin{{document}}\n{table}\n{text}\n\\onecolumn\n{long}\n\\end{{document}}\n"
    )
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert not re.search("Overfull|too large", ran.stdout), ran.stdout[-2000:]
    for caption in re.findall(r"\\caption{(.*)}", table + text + long):
        assert not re.search(r"://|--|max_tokens|[0-9a-f]{6}", caption), caption


def test_rows_are_kept_by_name_with_the_lift_over_their_naive_judge() -> None:
    some = rows_where(FOUND, ["protocol=Propaganda"], range(2))
    assert [row.protocol for row in some.rows] == ["propaganda"]
    assert some.rows[0].lift == FOUND.rows[1].lift is not None
    (line,) = pivot(some, ["protocol"])
    assert line.lift is not None
    with pytest.raises(UsageError, match="oose from naive judge, propaganda"):
        rows_where(FOUND, ["protocol=debate"], range(2))
    with pytest.raises(UsageError, match="write valid, or NAME=VALUE"):
        rows_where(FOUND, ["valid"], range(2))


def test_every_format_has_the_same_rows() -> None:
    (table,) = finding(FOUND).tables()
    lines = [table.head, *table.body]
    markdown = report(FOUND, "markdown").splitlines()
    rows = [line.strip("| ").split(" | ") for line in markdown if line.startswith("| ")]
    assert [tuple(row) for row in rows if not row[0].startswith("---")] == lines
    latex = report(FOUND, "latex")
    rows = [line.removesuffix(r" \\").split(" & ") for line in latex.splitlines() if " & " in line]
    assert [row[0] for row in rows] == [line[0] for line in lines]
    asds = [row.asd.value for row in FOUND.rows if row.asd]
    printed = [re.sub(r"{.*", "", row[1]).replace("$-$", "-") for row in rows[1:]]
    assert [float(asd) for asd in printed] == [approx(value, abs=0.005) for value in asds]
    objects = orjson.loads(report(FOUND, "json"))["rows"]
    assert [row["protocol"] for row in objects] == [row[0] for row in table.body]
    parsed = list(csv.DictReader(io.StringIO(report(FOUND, "csv"), newline="")))
    assert [row["protocol"] for row in parsed] == [row[0] for row in table.body]


def flat(nested: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(nested, dict):
        return {name: nested}
    values: dict[str, Any] = {}
    for part, value in nested.items():
        values |= flat(value, f"{name}.{part}" if name else part)
    return values


def test_csv_has_at_most_20_columns_of_json_or_the_chosen_ones() -> None:
    rows = orjson.loads(report(FOUND, "json"))["rows"]
    for columns, most in (((), 20), (("asd", "bounds", "mde"), 99)):
        text = finding(FOUND, columns=columns).text("csv")
        parsed = list(csv.DictReader(io.StringIO(text, newline="")))
        assert len(parsed[0]) <= most and {"protocol", "asd.low"} <= {*parsed[0]}
        for line, row in zip(parsed, map(flat, rows), strict=True):
            for name, cell in line.items():
                # A missing figure has an empty column for each part.
                value = row.get(name)
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    assert float(cell) == value
                else:
                    assert cell == ("" if value is None else str(value))


def test_every_format_stands_in_the_run_folder(tmp_path: Path) -> None:
    save_report(FOUND, tmp_path)
    save_report(FOUND, tmp_path)
    for format in FORMATS:
        file = tmp_path / "report" / f"report.{ENDINGS[format]}"
        assert file.read_text() == report(FOUND, format) + "\n"
    assert len(list((tmp_path / "report").iterdir())) == len(FORMATS)


@dataclass(frozen=True)
class Nasty(NaiveJudge):
    """Is called by names that formats must not take for their own."""

    called: str = ""

    @property
    def name(self) -> str:
        return self.called


@pytest.mark.parametrize("format", list(FORMATS))
def test_names_do_not_break_a_format_and_no_file_has_colours(format: str) -> None:
    names = ["=HYPERLINK(1)", "a|b", "50% & {more}_$#", "[red]x[/red]", "**bold**"]
    protocols: list[Protocol] = [Nasty(JUDGE, name) for name in names]
    grid = sweep(*protocols)
    worlds = {(name, p, 0): (0.7, 0.7) for name in names for p in ("p0", "p1")}
    written = report(collect(grid, records(grid, worlds)), format)
    assert "\x1b" not in written
    match format:
        case "csv":
            rows = list(csv.DictReader(io.StringIO(written, newline="")))
            assert [row["protocol"] for row in rows] == ["'=HYPERLINK(1)", *names[1:]]
        case "json":
            assert [row["protocol"] for row in orjson.loads(written)["rows"]] == names
        case "markdown":
            body = [line for line in written.splitlines() if line.startswith("| ")][2:]
            heads = [re.split(r"(?<!\\)\|", line)[1].strip() for line in body]
            assert [re.sub(r"\\(.)", r"\1", head) for head in heads] == names
        case "latex":
            body = [line for line in written.splitlines() if line.endswith(r" \\")][1:]
            assert [len(re.findall(r"(?<!\\)&", line)) for line in body] == [3] * 5
            plain = re.sub(r"\$(-|\\pm|^{\\circ})\$", "", "".join(body))
            assert not re.search(r"(?<!\\)[%$#_]", plain)
        case "text":
            assert all(name in written for name in names)


def test_a_trend_over_agents_is_shown_from_three_on() -> None:
    agents = ["sim/a", "sim/b", "sim/c"]
    protocols = [Propaganda(JUDGE, Agent(name)) for name in agents]

    def by_agents(n: int) -> Results:
        grid = sweep(*protocols[:n], problems=4)
        outcomes = []
        for p in (0.4, 0.5, 0.6):
            worlds = {("propaganda", f"p{k}", 0): (p + k / 20, 1 - p) for k in range(4)}
            outcomes.append(list(records(grid, worlds)))
        by_agent = dict(zip(agents, outcomes, strict=True))
        return collect(grid, [r for name, rs in by_agent.items() for r in rs if r.agent == name])

    assert titled(by_agents(2), "slope") is None
    table = titled(measured := by_agents(3), "slope")
    assert table is not None and table.title == "slope of ASD on EAS (β=1) over agents"
    ((kind, judge, n, slope),) = table.body
    assert (kind, judge, n) == ("propaganda", "sim/judge stated", "3")
    assert re.fullmatch(r"-\d\.\d\d \[-?\d\.\d\d, -?\d\.\d\d\]", slope)
    assert "slope of ASD" in report(measured, "text", measures=True)
    # Two rows per agent make no line over agents.
    once, twice = (pivot(replace(measured, rows=measured.rows * n), ["mechanism"]) for n in (1, 2))
    assert once[0].slope and not twice[0].slope


def test_settings_that_people_plot_by_are_columns() -> None:
    checked = SideCheck(BestOf(4, Agent("sim/strong", temperature=0.7), JUDGE), JUDGE)
    protocols = [NAIVE, Debate(JUDGE, Agent("sim/weak", temperature=None), rounds=3)]
    protocols += [Consultancy(JUDGE, checked, turns=2)]
    grid = replace(sweep(*protocols), seed=7)
    head = ("model", "judge_model", "rounds", "simultaneous", "best_of", "temperature", "seed")
    naive, debate, consultancy = orjson.loads(report(collect(grid, []), "json"))["rows"]
    assert [naive[name] for name in head] == [None, "sim/judge", None, None, None, None, 7]
    assert [debate[name] for name in head] == ["sim/weak", "sim/judge", 3, True, 1, None, 7]
    assert [consultancy[name] for name in head] == ["sim/strong", "sim/judge", 2, None, 4, 0.7, 7]
    lines = list(csv.DictReader(io.StringIO(report(collect(grid, []), "csv"), newline="")))
    assert lines[1]["model"] == "sim/weak" and lines[1]["rounds"] == "3"
    assert all(name not in main_table(collect(grid, [])).head for name in head)


def test_csv_has_one_shape_for_a_measure_that_one_row_has_for_the_truth_alone() -> None:
    grid = sweep(NAIVE, PROPAGANDA)
    halves = {("naive judge", "p0", 0): (0.7, None), ("propaganda", "p0", 0): (0.6, 0.5)}
    measured = collect(grid, records(grid, halves, measures=(("steps", 3),)))
    head = finding(measured, columns=["measures"]).text("csv").splitlines()[0]
    assert '"measures.steps.lie.value"' in head and '"measures.steps.lie",' not in head
