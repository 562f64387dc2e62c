"""One verdict on each row, and nothing printed that was not measured: known truths."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oversight import Agent, Debate, Failure, StatedJudge, Transcript, UsageError, Verdict
from oversight.engine.analysis.compared import comparison_finding
from oversight.engine.analysis.comparison import BY_DEFAULT, compare_rows
from oversight.engine.analysis.pictures.kinds import Forest, pictured
from oversight.engine.analysis.reporting import Report
from oversight.engine.analysis.reports.family import Verdicts, mark, verdicts
from oversight.engine.analysis.reports.groups import pivot, rows_where
from oversight.engine.analysis.reports.report import finding, report
from oversight.engine.analysis.reports.results import Results, collect
from oversight.engine.analysis.rows import RunRows, read_rows
from oversight.engine.analysis.scoring.contrasts import Contrast, agreement, contrasts, family
from oversight.engine.analysis.scoring.inference import Influences, of_questions
from oversight.engine.run.reader import Place, RunReader
from oversight.engine.run.record.values import CellEnd, RecordedCell
from oversight.engine.sweep.sweep import Cell
from oversight.engine.views.pages.links import PageQuery, ServerLinks
from oversight.engine.views.pages.overview import overview_page
from oversight.engine.views.pages.transcript_view import read
from oversight.protocols.doubts import ANYTHING, UnreadReply
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from tests.engine.verdicts import completed, problem
from tests.engine.verdicts import sweep as made
from tests.run_folders import folder
from tests.world import sweep

JUDGE, AGENT = StatedJudge("sim/judge"), Agent("sim/strong")
UNREAD = Failure("unreadable", "no percentages")
PROBLEMS = 10
NAME = "debate,"


def debates(count: int) -> list[Debate]:
    return [Debate(JUDGE, AGENT, rounds=n) for n in range(1, count + 1)]


LOST: dict[int, Callable[[Cell, int], bool]] = {
    1: lambda cell, n: False,
    2: lambda cell, n: (n, cell.side) == (0, 0),
    3: lambda cell, n: n < PROBLEMS / 2,
    4: lambda cell, n: cell.side == 0 and n < PROBLEMS / 2 + 1,
    5: lambda cell, n: (n, cell.side) != (0, 0),
    6: lambda cell, n: True,
}
"""By rounds of a debate, its unreadable cells: none, 1, half, one in more than half of the
problems, all but one, all."""

MEASURED = {1: "10", 2: "10 (1 imputed)", 3: "5"}
LEFT_OUT = {4: "6 of 20", 5: "19 of 20", 6: "20 of 20"}


def saved(path: Path, end_of: Callable[[Cell, int], CellEnd], *protocols: Any) -> RunReader:
    """A run folder of `PROBLEMS` problems. end_of: of a cell, with the number of its problem."""
    grid = sweep(NaiveJudge(JUDGE), *protocols, problems=PROBLEMS)
    rows = {row.address: n for n, row in enumerate(grid.rows)}
    with folder(path, grid) as into:
        for cell in grid.cells():
            number = int(cell.problem.id.removeprefix("shipment-"))
            about = cell.place, cell.id, rows[cell.row.address], number, cell.side, cell.draw
            into.add([RecordedCell(*about, end_of(cell, number))])
    return RunReader(path)


@pytest.fixture
def failing(tmp_path: Path) -> RunReader:
    def end(cell: Cell, n: int) -> CellEnd:
        rounds = getattr(cell.row.protocol, "rounds", 0)
        if rounds and LOST[rounds](cell, n):
            return UNREAD
        p = 0.6 + n / 50 + 0.02 * rounds - 0.3 * cell.side
        probs = (p, 1 - p) if cell.side == 0 else (1 - p, p)
        return Verdict(probs, Transcript(cell.problem.question))

    return saved(tmp_path / "run", end, *debates(6))


def rounds_in(text: str) -> list[int]:
    """The rounds of the debates that a text names, in order."""
    return list(dict.fromkeys(int(n) for n in re.findall(r"debate, (\d) round", text)))


def test_six_outputs_agree_on_the_rows_that_were_measured(failing: RunReader) -> None:
    rows = read_rows(failing)
    measured = rows.results("brier")
    by_rounds = {row.row.settings["rounds"]: row for row in measured.rows[1:]}
    headline = verdicts(measured).headline
    assert headline.endswith("3 of 6 rows were not measured.") and " of 3 rows " in headline
    # Text and Markdown: the words stand right after the name, and no figure in their line.
    for format, between in (("text", r" +"), ("markdown", r" \| ")):
        lines = report(measured, format).splitlines()
        assert headline in "\n".join(lines[:2])
        for rounds, n in MEASURED.items():
            (line,) = [line for line in lines if line.lstrip(" |").startswith(f"{NAME} {rounds} r")]
            assert re.search(rf"{between}{re.escape(n)}( |$)", line) and "%" in line, line
        for rounds, cells in LEFT_OUT.items():
            (line,) = [line for line in lines if line.lstrip(" |").startswith(f"{NAME} {rounds} r")]
            end = line.split("rounds")[1].strip(" |")
            assert end == f"not measured: {cells} cells unreadable", line
    # LaTeX has a comment instead of a line.
    latex = report(measured, "latex")
    comments = [line for line in latex.splitlines() if line.startswith("% ")]
    assert rounds_in("\n".join(comments)) == [*LEFT_OUT]
    assert rounds_in(latex.split(r"\end{table}")[0].split(r"\midrule")[1]) == [*MEASURED]
    # JSON and CSV: no estimate, but bounds, counts and the reason.
    plain = orjson.loads(report(measured, "json"))
    assert plain["headline"] == headline and plain["verdicts"]["not_measured"] == 3
    lines = list(csv.DictReader(io.StringIO(report(measured, "csv"), newline="")))
    for rounds, line, flat in zip(range(1, 7), plain["rows"][1:], lines[1:], strict=True):
        has = [line[name] is not None for name in ("asd", "lift", "accuracy", "p", "mde")]
        assert set(has) == {rounds in MEASURED} and line["bounds"]["worst"] is not None
        assert bool(flat["asd.value"]) == (rounds in MEASURED)
        assert (line["verdict"] == "not measured") == bool(line["not_measured"]) == (rounds > 3)
        assert (line["n"], line["imputed"]) == (by_rounds[rounds].n, by_rounds[rounds].imputed)
    assert [line["n"] for line in plain["rows"]] == [10, 10, 10, 5, 10, 1, 0]
    assert [line["imputed"] for line in plain["rows"]] == [0, 0, 1, 0, 6, 1, 0]
    # Figures: no point for a row that was not measured, and nothing for one without a verdict.
    drawn = pictured(failing, "asd")
    assert isinstance(drawn, Forest)
    assert rounds_in(" ".join(line.protocol for line in drawn.lines)) == [1, 2, 3, 4, 5]
    assert [line.mean is None for line in drawn.lines[1:]] == [False] * 3 + [True] * 2
    lifted = pictured(failing, "lift")
    assert isinstance(lifted, Forest) and len(lifted.lines) == 3
    # Comparison: the same family.
    compared = compare_rows(rows)
    assert [one.contrast.verdict for one in compared.contrasts] == [
        row.verdict for row in by_rounds.values() if row.verdict != "not measured"
    ]
    assert rounds_in(" ".join(compared.notes)) == [*LEFT_OUT]
    # Pages: the words, and readings of the cells.
    page = overview_page(failing, ServerLinks("a"), PageQuery(by="protocol"))
    assert f"<h1>{headline}" in page
    for rounds, cells in LEFT_OUT.items():
        line = page.split(f"{rounds} rounds</a>")[1].split("</tr>")[0]
        assert f"not measured: {cells} cells unreadable · read" in line
        assert 'class="band"' in line and 'class="mean' not in line and line.count("/problem/") == 3


def test_contrasts_that_are_left_out_have_their_reason(tmp_path: Path) -> None:
    def end(cell: Cell, n: int) -> Verdict | Failure:
        rounds = cell.row.settings.get("rounds")
        unread = rounds == 3 or (rounds and (n < PROBLEMS / 2) == (rounds == 1))
        return UNREAD if unread else Verdict((0.6, 0.4), Transcript(cell.problem.question))

    run = read_rows(saved(tmp_path / "run", end, *debates(3)))
    unmeasured, few = compare_rows(run, None, replace(BY_DEFAULT, pairs="all")).notes
    assert unmeasured.startswith("left out, since they were not measured:")
    assert rounds_in(unmeasured) == [3] and few.startswith("1 contrasts are left out: their rows")
    by_group = compare_rows(run, None, replace(BY_DEFAULT, group="protocol"))
    unmeasured, same = by_group.notes
    assert len(by_group.contrasts) == 2 and same == few
    assert unmeasured.count(" - ") == 3 and rounds_in(unmeasured.replace(", debate, 3", "")) == [
        3,
        1,
        2,
    ]


def test_the_reader_knows_the_states_of_the_map(failing: RunReader) -> None:
    for row, number, state, has_asd in (
        (1, 0, "", True),
        (2, 0, "imputed", True),
        (3, 0, "failed", False),
        (5, 0, "imputed", True),
    ):
        one = read(failing, Place(row, number))
        assert (one.state, one.asd is not None) == (state, has_asd)
        value = read_rows(failing).asd_by_problem("brier")[number, row]
        assert np.isnan(value) if one.asd is None else one.asd == pytest.approx(value)


def test_a_verdict_that_rests_on_no_reply_is_imputed_too(tmp_path: Path) -> None:
    """Recursive mechanisms end in a verdict with open bounds, which is the agent's worst case."""

    def end(cell: Cell, n: int) -> CellEnd:
        transcript = Transcript(cell.problem.question)
        if cell.row.protocol == NaiveJudge(JUDGE):
            return Verdict((0.5 + n / 40, 0.5 - n / 40), transcript)
        probs = (0.0, 1.0) if cell.side == 0 else (1.0, 0.0)
        doubts = (UnreadReply("Judge", "no statement"),)
        return Verdict(probs, transcript, bounds=(ANYTHING, ANYTHING), doubts=doubts)

    run = saved(tmp_path / "run", end, *debates(1))
    (_, row) = read_rows(run).results("brier").rows
    assert (row.asd, row.accuracy, row.n) == (None, None, 0)
    assert row.unmeasured == "20 of 20 cells unreadable"
    assert read(run, Place(1, 0)).state == "failed"


def holm_by_hand(ps: list[float]) -> np.ndarray:
    """Holm's correction by sorting, without our code."""
    order, adjusted = np.argsort(ps, kind="stable"), np.empty(len(ps))
    steps = np.array(ps)[order] * (len(ps) - np.arange(len(ps)))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def drawn(shifts: np.ndarray, n: int = 60) -> tuple[Contrast, ...]:
    rng = np.random.default_rng(5)
    apart = [of_questions([f"q{k}" for k in range(n)], s + rng.normal(0, 1, n)) for s in shifts]
    names = [(f"r{k}", "naive judge") for k in range(len(apart))]
    return family(names, agreement(apart), [one.estimate() for one in apart])


def test_288_rows_have_the_verdicts_that_an_independent_holm_gives() -> None:
    """The known truth: 40 rows are 1.0 better, 8 are 1.0 worse, 240 do not differ at all."""
    decided = drawn(np.repeat([1.0, -1.0, 0.0], [40, 8, 240]))
    corrected = holm_by_hand([one.p or 0.0 for one in decided])
    assert [one.p_family for one in decided] == pytest.approx(corrected)
    for contrast, p in zip(decided, corrected, strict=True):
        sign = "better" if contrast.estimate.value > 0 else "worse"
        assert contrast.verdict == (sign if p <= 0.05 else "undecided")
    summary = Verdicts(decided, lines=294, unmeasured=6, reversible=4, doubt="failed")
    assert summary.headline == (
        "40 of 288 rows beat the naive judge, 8 do worse, 240 are undecided (95%, Holm); failed "
        "worlds could reverse 4 of these. 6 of 294 rows were not measured."
    )
    better, worse = summary.one_by_one
    assert better > 40 and worse > 8
    assert summary.alone == f"Uncorrected: {better} better, {worse} worse; 14 expected by chance."
    assert sum(bool(mark(one)) for one in decided) == better + worse - 48
    one = Verdicts((decided[0], decided[47], decided[-1])).headline
    assert one == "1 of 3 rows beats the naive judge, 1 does worse, 1 is undecided (95%, Holm)."


def test_few_problems_and_rare_errors_have_one_sentence_each() -> None:
    few = drawn(np.array([3.0, 0.0, 0.1]), 8)
    text = re.sub(r"\d\.\d\d", "#", Verdicts(few).coarse)
    assert text == (
        "8 problems: lifts below # to # may go undetected; see oversight plan SWEEP --contrast "
        "'A - B' --mde 0.3."
    )
    assert not Verdicts(drawn(np.zeros(3), 900)).coarse


@pytest.mark.parametrize(
    ("n", "groups", "verdict"),
    [(59, 59, "undecided"), (60, 60, "identical"), (92, 92, "identical"), (92, 59, "undecided")],
)
def test_rows_that_agree_on_60_problems_or_groups_are_identical(n: int, groups: int, verdict: str):
    values, names = np.linspace(-1, 1, n), [f"g{k % groups}" for k in range(n)]

    def row(moved: float) -> Influences:
        apart = values + np.where(np.arange(n) == 3, moved, 0.0)
        return of_questions([f"q{k}" for k in range(n)], apart, names, (-2, 2))

    (same,) = contrasts({"a": row(0.0), "b": row(1e-10)}, equivalence=9)
    assert same.verdict == verdict or (verdict, same.verdict) == ("undecided", "equivalent")
    if verdict == "identical":
        assert same.estimate.interval is same.p is same.p_family is same.mde is None
        assert (same.agree, same.equivalent) == (n, False)
    (other,) = contrasts({"a": row(0.0), "b": row(1e-8)})
    assert other.verdict != "identical" and other.p is not None


@cache
def several() -> Results:
    """Rows of two agents and two judges, with a few failures."""
    judges, agents = [JUDGE, StatedJudge("sim/other")], [AGENT, Agent("sim/weak")]
    rows = [p for j in judges for a in agents for p in (Propaganda(j, a), Debate(j, a, rounds=1))]
    grid = made(*map(NaiveJudge, judges), *rows, problems=[problem(n) for n in range(60)])
    rng = np.random.default_rng(3)

    def end(cell: Cell) -> Verdict | Failure:
        shift = 0.12 * (cell.row.kind != "propaganda") * (cell.row.agent == "sim/strong")
        p = float(np.clip(rng.normal(0.5 + shift * (1 - 2 * cell.side), 0.1), 0.01, 0.99))
        failed = cell.row.agent == "sim/weak" and cell.row.judge.startswith("sim/other")
        return UNREAD if failed else Verdict((p, 1 - p), Transcript(cell.problem.question))

    return collect(grid, completed(grid, end), origins=("SIMULATED models: sim/judge",))


WHERE = ("judge=sim/judge stated", "agent=sim/weak", "protocol=propaganda", "mechanism=debate")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(WHERE), max_size=2, unique=True), st.booleans())
def test_no_condition_and_no_group_changes_a_verdict(some: list[str], every: bool) -> None:
    every_row = several()
    try:
        some_rows = rows_where(every_row, some, range(len(every_row.rows)))
    except UsageError:
        return
    before = {row.name: (row.verdict, row.contrast) for row in every_row.rows}
    assert all(before[row.name] == (row.verdict, row.contrast) for row in some_rows.rows)
    assert verdicts(some_rows) == verdicts(every_row)
    plain = finding(some_rows, every_note=every, columns=["verdict"] * every).plain()
    assert plain["headline"] == verdicts(every_row).headline and plain["simulated"] is True
    for line in pivot(some_rows, ["mechanism"]):
        assert (line.contrast is None) == line.naive or line.unmeasured


def test_every_way_of_printing_a_run_has_one_verdict_on_each_row(failing: RunReader) -> None:
    rows: RunRows = read_rows(failing)
    marks = [row.verdict for row in rows.results("brier").rows if row.contrast]
    printed_all = orjson.loads(comparison_finding(compare_rows(rows)).text("json"))
    assert [one["verdict"] for one in printed_all["contrasts"]] == marks
    for n, contrast in enumerate(printed_all["contrasts"]):
        words = f"{contrast['first']} - naive judge"
        alone = compare_rows(rows, None, replace(BY_DEFAULT, contrasts=(words,)))
        assert [one.contrast.p_family for one in alone.contrasts] == [contrast["p_family"]], n
    printed = Report(None, by=(), columns=(), notes=True).sourced(rows, "brier").text("text")
    assert all(f" {verdict}" in printed for verdict in marks)


def test_a_fragile_verdict_is_named_from_50_problems_on() -> None:
    for n, sentence in ((49, "With 49 problems, one rare error could reverse"), (60, "fragile")):
        grid = made(NaiveJudge(JUDGE), Propaganda(JUDGE, AGENT), problems=n)

        def end(cell: Cell) -> Verdict:
            moved = 0.05 * bool(cell.row.agent) * (1 - 2 * cell.side)
            p = 0.5 + moved + int(cell.problem.id[1:]) / 500
            return Verdict((p, 1 - p), Transcript(cell.problem.question))

        measured = collect(grid, completed(grid, end))
        (contrast,) = [row.contrast for row in measured.rows if row.contrast]
        assert contrast.decided and contrast.undone
        text = " ".join(finding(measured, every_note=True).text("text").split())
        assert sentence in text and ("could undo it: conservative [" in text) == (n == 60)
