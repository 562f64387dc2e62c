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

from oversight.engine.analysis.comparison import BY_DEFAULT, compare_rows, comparison_finding
from oversight.engine.analysis.pictures.kinds import Forest, pictured
from oversight.engine.analysis.reporting import Report
from oversight.engine.analysis.reports.family import Verdicts, mark, verdicts
from oversight.engine.analysis.reports.groups import pivot, rows_where
from oversight.engine.analysis.reports.report import finding, notes_of, report
from oversight.engine.analysis.reports.results import Results, collect
from oversight.engine.analysis.rows import RunRows, read_rows
from oversight.engine.analysis.scoring.contrasts import (
    Contrast,
    agreement,
    contrasts,
    family,
)
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.analysis.scoring.inference import Influences, of_questions
from oversight.engine.errors import UsageError
from oversight.engine.run.reader import Place, RunReader
from oversight.engine.run.record.values import CellEnd, RecordedCell
from oversight.engine.sweep.sweep import Cell
from oversight.engine.views.pages.links import PageQuery, ServerLinks
from oversight.engine.views.pages.overview import overview_page
from oversight.engine.views.pages.transcript_view import read
from oversight.protocols.agents.agent import Agent
from oversight.protocols.doubts import ANYTHING, UnreadReply
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.transcript import Failure, Transcript, Verdict
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


def kept(path: Path, end_of: Callable[[Cell, int], CellEnd], *protocols: Any) -> RunReader:
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
        own = 0.6 + n / 50 + 0.02 * rounds - 0.3 * cell.side
        probs = (own, 1 - own) if cell.side == 0 else (1 - own, own)
        return Verdict(probs, Transcript(cell.problem.question))

    return kept(tmp_path / "run", end, *debates(6))


def rounds_in(text: str) -> list[int]:
    """The rounds of the debates that a text names, in order."""
    return list(dict.fromkeys(int(n) for n in re.findall(r"debate, (\d) round", text)))


def test_six_outputs_agree_on_the_rows_that_were_measured(failing: RunReader) -> None:
    rows = read_rows(failing)
    found = rows.results("brier")
    told = {row.row.settings["rounds"]: row for row in found.rows[1:]}
    headline = verdicts(found).headline
    assert headline.endswith("3 of 6 rows were not measured.") and " of 3 rows " in headline
    # Text and Markdown: the words stand right after the name, and no figure in their line.
    for format, between in (("text", r" +"), ("markdown", r" \| ")):
        lines = report(found, format).splitlines()
        assert headline in "\n".join(lines[:2])
        for rounds, n in MEASURED.items():
            (line,) = [each for each in lines if each.lstrip(" |").startswith(f"{NAME} {rounds} r")]
            assert re.search(rf"{between}{re.escape(n)}( |$)", line) and "%" in line, line
        for rounds, cells in LEFT_OUT.items():
            (line,) = [each for each in lines if each.lstrip(" |").startswith(f"{NAME} {rounds} r")]
            end = line.split("rounds")[1].strip(" |")
            assert end == f"not measured: {cells} cells unreadable", line
    # LaTeX: a comment in place of a line.
    latex = report(found, "latex")
    comments = [line for line in latex.splitlines() if line.startswith("% ")]
    assert rounds_in("\n".join(comments)) == [*LEFT_OUT]
    assert rounds_in(latex.split(r"\end{table}")[0].split(r"\midrule")[1]) == [*MEASURED]
    # JSON and CSV: no estimate, but bounds, counts and the reason.
    plain = orjson.loads(report(found, "json"))
    assert plain["headline"] == headline and plain["verdicts"]["not_measured"] == 3
    lines = list(csv.DictReader(io.StringIO(report(found, "csv"), newline="")))
    for rounds, line, flat in zip(range(1, 7), plain["rows"][1:], lines[1:], strict=True):
        shown = [line[name] is not None for name in ("asd", "lift", "accuracy", "p", "mde")]
        assert set(shown) == {rounds in MEASURED} and line["bounds"]["worst"] is not None
        assert bool(flat["asd.value"]) == (rounds in MEASURED)
        assert (line["verdict"] == "not measured") == bool(line["not_measured"]) == (rounds > 3)
        assert (line["n"], line["imputed"]) == (told[rounds].n, told[rounds].imputed)
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
    assert [each.contrast.verdict for each in compared.contrasts] == [
        row.verdict for row in told.values() if row.verdict != "not measured"
    ]
    assert rounds_in(" ".join(compared.notes)) == [*LEFT_OUT]
    # Pages: the words, and readings of the cells.
    page = overview_page(failing, ServerLinks("a"), PageQuery(by="protocol"))
    assert f"<h1>{headline}" in page
    for rounds, cells in LEFT_OUT.items():
        line = page.split(f"{rounds} rounds</a>")[1].split("</tr>")[0]
        assert f"not measured: {cells} cells unreadable · read" in line
        assert 'class="band"' in line and 'class="mean' not in line and line.count("/problem/") == 3


def test_the_reader_knows_the_states_of_the_map(failing: RunReader) -> None:
    for row, number, state, known in (
        (1, 0, "", True),
        (2, 0, "imputed", True),
        (3, 0, "failed", False),
        (5, 0, "imputed", True),
    ):
        one = read(failing, Place(row, number))
        assert (one.state, one.asd is not None) == (state, known)
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

    run = kept(tmp_path / "run", end, *debates(1))
    (_, row) = read_rows(run).results("brier").rows
    assert (row.asd, row.accuracy, row.n) == (None, None, 0)
    assert row.unmeasured == "20 of 20 cells unreadable"
    assert read(run, Place(1, 0)).state == "failed"


def holm_by_hand(ps: list[float]) -> np.ndarray:
    """Holm's correction by sorting, without our code."""
    order, found = np.argsort(ps, kind="stable"), np.empty(len(ps))
    steps = np.array(ps)[order] * (len(ps) - np.arange(len(ps)))
    found[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return found


def drawn(shifts: np.ndarray, n: int = 60) -> tuple[Contrast, ...]:
    rng = np.random.default_rng(5)
    apart = [of_questions([f"q{k}" for k in range(n)], s + rng.normal(0, 1, n)) for s in shifts]
    names = [(f"r{k}", "naive judge") for k in range(len(apart))]
    return family(names, agreement(apart), [each.estimate() for each in apart])


def test_288_rows_have_the_verdicts_that_an_independent_holm_gives() -> None:
    """The known truth: 40 rows are 1.0 better, 8 are 1.0 worse, 240 do not differ at all."""
    found = drawn(np.repeat([1.0, -1.0, 0.0], [40, 8, 240]))
    corrected = holm_by_hand([each.p or 0.0 for each in found])
    assert [each.p_family for each in found] == pytest.approx(corrected)
    for each, p in zip(found, corrected, strict=True):
        sign = "better" if each.estimate.value > 0 else "worse"
        assert each.verdict == (sign if p <= 0.05 else "undecided")
    shown = Verdicts(found, lines=294, unmeasured=6, reversible=4, doubt="failed")
    assert shown.headline == (
        "40 of 288 rows beat the naive judge, 8 do worse, 240 are undecided (95%, Holm); failed "
        "worlds could reverse 4 of these. 6 of 294 rows were not measured."
    )
    better, worse = shown.one_by_one
    assert better > 40 and worse > 8
    assert shown.alone == f"Uncorrected: {better} better, {worse} worse; 14 expected by chance."
    assert sum(bool(mark(each)) for each in found) == better + worse - 48
    one = Verdicts((found[0], found[47], found[-1])).headline
    assert one == "1 of 3 rows beats the naive judge, 1 does worse, 1 is undecided (95%, Holm)."


def test_few_problems_and_rare_errors_have_one_sentence_each() -> None:
    few = drawn(np.array([3.0, 0.0, 0.1]), 8)
    told = re.sub(r"\d\.\d\d", "#", Verdicts(few).coarse)
    assert told == (
        "8 problems: differences below # to # cannot be seen; see oversight plan SWEEP --contrast "
        "'A - B' --mde 0.3."
    )
    assert not Verdicts(drawn(np.zeros(3), 900)).coarse


@pytest.mark.parametrize(
    ("n", "groups", "verdict"),
    [(59, 59, "undecided"), (60, 60, "identical"), (92, 92, "identical"), (92, 59, "undecided")],
)
def test_rows_that_agree_on_60_problems_or_groups_are_identical(
    n: int, groups: int, verdict: str
) -> None:
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
    judges = [JUDGE, StatedJudge("sim/other")]
    agents = [AGENT, Agent("sim/weak")]
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
    whole = several()
    try:
        shown = rows_where(whole, some, range(len(whole.rows)))
    except UsageError:
        return
    before = {row.name: (row.verdict, row.contrast) for row in whole.rows}
    assert all(before[row.name] == (row.verdict, row.contrast) for row in shown.rows)
    assert verdicts(shown) == verdicts(whole)
    told = finding(shown, every_note=every, columns=["verdict"] * every).plain()
    assert told["headline"] == verdicts(whole).headline and told["simulated"] is True
    for line in pivot(shown, ["mechanism"]):
        assert (line.contrast is None) == line.naive or line.unmeasured


def test_every_way_of_printing_a_run_has_one_verdict_on_each_row(failing: RunReader) -> None:
    rows: RunRows = read_rows(failing)
    found = rows.results("brier")
    known = [row.verdict for row in found.rows if row.contrast]
    whole = orjson.loads(comparison_finding(compare_rows(rows)).text("json"))
    assert [each["verdict"] for each in whole["contrasts"]] == known
    for n, each in enumerate(whole["contrasts"]):
        words = f"{each['first']} - naive judge"
        alone = compare_rows(rows, None, replace(BY_DEFAULT, contrasts=(words,)))
        assert [one.contrast.p_family for one in alone.contrasts] == [each["p_family"]], n
    printed = Report(None, by=(), columns=(), notes=True).sourced(rows, "brier").text("text")
    assert all(f" {verdict}" in printed for verdict in known)


def test_a_fragile_verdict_is_named_from_50_problems_on() -> None:
    for n, told in ((49, "With 49 problems, one rare error could reverse"), (60, "fragile")):
        grid = made(NaiveJudge(JUDGE), Propaganda(JUDGE, AGENT), problems=n)

        def end(cell: Cell) -> Verdict:
            moved = 0.05 * bool(cell.row.agent) * (1 - 2 * cell.side)
            p = 0.5 + moved + int(cell.problem.id[1:]) / 500
            return Verdict((p, 1 - p), Transcript(cell.problem.question))

        found = collect(grid, completed(grid, end))
        (contrast,) = [row.contrast for row in found.rows if row.contrast]
        assert contrast.decided and contrast.undone
        text = " ".join(finding(found, every_note=True).text("text").split())
        assert told in text and ("could undo it: conservative [" in text) == (n == 60)


def test_a_data_set_of_unequal_questions_says_which_weigh_more() -> None:
    problems = [problem(0), problem(1, (1, -1, -1, -1))]
    mixed = collect(made(NaiveJudge(JUDGE), problems=problems), [])
    assert "Problems with more answers weigh more: 2 to 4 answers." in notes_of(mixed)
    assert not any("weigh more" in note for note in notes_of(several()))


def test_a_group_without_a_measured_row_is_not_measured() -> None:
    lines = {line.group: line for line in pivot(several(), ["agent", "judge"])}
    lost = lines["sim/weak", "sim/other"]
    assert (lost.verdict, lost.unmeasured, lost.size) == ("not measured", "2 rows", 0)
    assert isinstance(lines["sim/weak", "sim/judge"].asd, Estimate)
