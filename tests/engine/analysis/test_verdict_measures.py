"""`report --measures`: measures of a real run's stored verdicts, by definition: known truths."""

import json

import pytest

from oversight.engine.analysis.calibration import Calibration, Worlds
from oversight.engine.analysis.measures import verdict_measures
from oversight.engine.analysis.rows import read_rows
from oversight.protocols.scores import ALL_SCORES
from tests.command_line import Command
from tests.engine.kept_runs import SWEEP, Kept, muddled


@pytest.mark.wire
def test_a_report_of_a_run_has_them_in_every_format_and_under_every_score(runs, command):
    run = runs()
    for format in ("text", "markdown", "latex"):
        out = command("report", run, "--measures", "--format", format).out
        assert "against the naive judge, world by world" in out
        assert "verdicts: order, calibration and bias" in out
    assert "verdicts: order" not in command("report", run).out
    logprob = runs(SWEEP.replace("judges: sim/judge", "judges: {kind: logprob, model: sim/judge}"))
    assert "label mass" in command("report", logprob, "--measures").out.partition("measures:")[2]
    for score in ALL_SCORES:
        assert [row.verdicts for row in verdict_measures(read_rows(run), score)] == [8] * 5
    output = json.loads(command("report", run, "--json", "--measures", "--score", "log").out)
    assert len(output["verdict_measures"]) == 5 and output["score"] == "log"


def test_rows_without_verdicts_have_no_measures(runs: Kept, command: Command) -> None:
    run = runs(muddled(1))
    for row in verdict_measures(read_rows(run)):
        assert (row.verdicts, row.calibration, row.naive) == (0, None, None)
    assert "not determined" not in command("report", run, "--measures").out


def test_calibration_is_of_every_judge_that_could_be_read(runs: Kept, command: Command) -> None:
    both = muddled(1).replace("judges: sim/judge", "judges: [sim/judge, sim/strong]")
    bars = json.loads(command("measure", "calibration", runs(both), "--json").out)["bars"]
    assert {bar["judge"] for bar in bars} == {"sim/strong"}
    assert sum(bar["verdicts"] for bar in bars) == 40
    # Only the four problems are random.
    assert all(bar["share"]["clusters"] <= 4 for bar in bars)
    right = sum(bar["verdicts"] * bar["share"]["value"] for bar in bars)
    first = [problem.best == 0 for problem in read_rows(runs(both)).sweep.problems]
    assert right / 40 == pytest.approx(sum(first) / len(first))


def test_an_agent_who_is_believed_by_definition_has_no_estimates_of_that(runs: Kept) -> None:
    run = read_rows(runs(SWEEP.replace("consultancy: {turns: 2}", "open_trust:")))
    every = enumerate(verdict_measures(run))
    n, open_trust = next(row for row in every if row[1].name.startswith("open trust"))
    assert open_trust.first_label and open_trust.naive
    first = open_trust.first_label.estimate
    assert (first.value, first.interval) == (0, None)
    low, high = (open_trust.naive.lift and open_trust.naive.lift.interval) or (-1, 1)
    # Half of the worlds are judged right, and the naive judge is right in none to all.
    assert -0.5 <= low < high <= 0.5
    (worlds,) = Worlds().of_run(run, [n], "brier").parts[0].lines
    assert (worlds.higher.value, worlds.higher.interval) == (0.5, None)
    bars = Calibration().of_run(run, range(len(run.names)), "brier").parts[0].lines
    assert sum(bar.share.n for bar in bars) == 3 * 8, "open trust asks no judge"
