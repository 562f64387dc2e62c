"""Results of planted verdicts, row by row: known truths."""

import re
from io import StringIO
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from pytest import approx
from rich.console import Console

from oversight.engine.analysis.reports.aggregate import OutcomeTable
from oversight.engine.analysis.reports.report import report
from oversight.engine.analysis.reports.results import Results, collect
from oversight.engine.analysis.reports.side_by_side import side_by_side
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.run.outcome import outcome_of
from oversight.engine.run.record.values import RecordedCell
from oversight.engine.sweep.sweep import Cell
from oversight.protocols import Agent, NaiveJudge, OpenTrust, Propaganda, StatedJudge
from oversight.protocols.transcript import NOT_RUN, Failure, Verdict
from tests.engine.verdicts import (
    JUDGE,
    NAIVE,
    PROPAGANDA,
    SMALL,
    completed,
    problem,
    records,
    results,
    sweep,
    verdict,
)


def row(measured: Results, kind: str) -> Any:
    (only,) = [one for one in measured.rows if one.row.mechanism == kind]
    return only


def mean(figure: Estimate | None) -> float:
    assert figure is not None
    return figure.value


def test_lift_is_held_against_the_same_judge_and_no_other() -> None:
    stern = StatedJudge("sim/judge", max_tokens=99)
    grid = sweep(NAIVE, NaiveJudge(stern), Propaganda(stern, Agent("sim/strong")), PROPAGANDA)
    outcomes = [
        outcome_of(cell, verdict(cell, p, 1 - p))
        for cell in grid.cells()
        for p in [{"naive judge": 0.5, "propaganda": 0.9}[cell.row.kind]]
        if cell.row.protocol != NaiveJudge(stern)
    ]
    of_stern, of_plain = (r for r in collect(grid, outcomes).rows if r.row.kind == "propaganda")
    assert of_stern.lift is None and mean(of_plain.lift) == approx(-2 * 0.1**2 + 2 * 0.9**2)


def test_an_interval_is_over_problems_and_keeps_groups_together() -> None:
    ungrouped = [problem(n) for n in range(6)]
    grouped = [
        structs.replace(one, group="even" if n % 2 else "odd") for n, one in enumerate(ungrouped)
    ]
    worlds = {("propaganda", f"p{n}", 0): (0.5 + n / 20, 0.5) for n in range(6)}
    free = row(results(sweep(PROPAGANDA, problems=ungrouped), worlds), "propaganda").asd
    clustered = row(results(sweep(PROPAGANDA, problems=grouped), worlds), "propaganda").asd
    assert (free.n, free.clusters, clustered.n, clustered.clusters) == (6, 6, 6, 2)
    assert clustered.value == free.value
    low, high = free.interval
    assert low < free.value < high
    # Two groups say next to nothing: the interval is all of the range of ASD.
    assert clustered.interval == (-2, 2)
    assert (free.effective, clustered.effective) == approx((6, 2))
    assert free.method == clustered.method == "CR3 t"
    alone = [structs.replace(problem, group="one") for problem in ungrouped]
    only = results(sweep(PROPAGANDA, problems=alone), worlds)
    assert (row(only, "propaganda").asd.clusters, row(only, "propaganda").asd.interval) == (1, None)
    assert "no interval: it needs at least two problems or groups" in report(only, "text", 200)


def test_open_trust_is_not_an_estimate_and_its_lift_has_the_naive_judges_error() -> None:
    grid = sweep(OpenTrust(JUDGE, Agent("sim/strong")), NAIVE, problems=20)
    rng = np.random.default_rng(1)

    def verdict_of(cell: Cell) -> Verdict:
        p = float(cell.side == 0) if cell.row.agent else float(rng.uniform(0.2, 0.9))
        return verdict(cell, p, 1 - p)

    measured = collect(grid, completed(grid, verdict_of))
    trust, naive = row(measured, "open trust"), row(measured, "naive judge")
    for estimate in (trust.asd, trust.accuracy, trust.jse[1.0], trust.eas[1.0]):
        assert estimate and estimate.interval is None
    assert (trust.asd and trust.asd.value, trust.accuracy and trust.accuracy.value) == (0.0, 0.5)
    assert trust.lift and naive.asd and trust.lift.value == pytest.approx(-naive.asd.value)
    assert trust.lift.error == pytest.approx(naive.asd.error) and trust.lift.error
    assert trust.mde and trust.mde == trust.lift.mde()


def test_an_unreadable_judge_counts_against_the_agent_in_a_row_of_single_worlds_too() -> None:
    grid = sweep(PROPAGANDA, problems=6)

    def asd(unread: Failure | Verdict | None) -> Estimate | None:
        def ended(cell: Cell) -> Verdict | Failure:
            if cell.side != int(cell.problem.id[1:]) % 2:
                return Failure(NOT_RUN, "nobody argued for it")
            return (cell.problem.id == "p0" and unread) or verdict(cell, 0.7, 0.3)

        return row(collect(grid, completed(grid, ended)), "propaganda").asd

    worst = verdict(next(iter(grid.cells())), 0.0, 1.0)
    assert asd(Failure("unreadable", "no probability")) == asd(worst) != asd(None)


@pytest.mark.parametrize("width", [60, 100, 200])
def test_every_world_has_the_score_of_the_answer_it_argues_at_any_width(width: int) -> None:
    grid = sweep(NAIVE, problems=[problem(0, (1, -1, -1))])
    believed = [(0.5, 0.3, 0.2), (0.5, 0.3, 0.2), (0.3, 0.5, 0.2)]
    worlds = [
        RecordedCell(n, "", 0, 0, n, 0, verdict(cell, *probs))
        for n, (cell, probs) in enumerate(zip(grid.cells(), believed, strict=True))
    ]
    out = StringIO()
    worlds_shown = side_by_side(grid.rows[0], grid.problems[0], worlds, "brier", width)
    Console(width=width, file=out).print(worlds_shown)
    assert re.findall(r"agent score \(brier\) (\S+)", out.getvalue()) == ["-0.38", "-0.78", "-0.98"]


def test_a_copy_of_a_table_takes_outcomes_that_the_table_does_not_have() -> None:
    grid = sweep(NAIVE, PROPAGANDA)
    first, second, *_ = records(grid, SMALL, measures=(("steps", 3),))
    table = OutcomeTable(grid)
    table.add(first)
    copy = table.copied()
    copy.add(second)
    assert (int(table.ended.sum()), int(copy.ended.sum())) == (1, 2)
    assert (sum(table.outcomes), sum(copy.outcomes)) == (1, 2)
    steps = [one.secondary.by_world(0, one.probs)[0] for one in (table, copy)]
    assert [bool(one.lie) for one in steps] == [False, True]
    assert copy.sweep is table.sweep and copy.cells is table.cells
