"""`plan --contrast`: problems needed to tell two rows apart, and detectable effects."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.special import chdtri

from oversight.engine.analysis.rows import read_rows
from oversight.engine.analysis.scoring.power import Spread, mde, questions_needed
from oversight.engine.extensions.planning.power import (
    PILOT,
    PILOT_FACTORS,
    Pilot,
    Power,
    difference_ends,
    pilot_spread,
    power_finding,
)
from oversight.engine.run.loaded_sweep import open_sweep
from tests.command_line import Command
from tests.engine.kept_runs import Kept

DRAWN = """\
name: drawn
draws: 3
problems: {bundled: {name: arithmetic, limit: 6}}
agents: {model: sim/weak}
judges: sim/judge
protocols: [naive_judge, propaganda, consultancy]
"""


def test_pilot_gives_the_variance_of_the_measured_differences(place, runs, command):
    (place / "drawn.yaml").write_text(DRAWN)
    run = read_rows(runs(DRAWN))
    means = run.asd("brier")
    apart = means["propaganda"].values - means["consultancy"].values
    spread, n = pilot_spread(run, 1, 2, "brier")
    assert (n, spread.between) == (6, pytest.approx(apart.var(ddof=1)))
    words = ("--contrast", "propaganda - consultancy", "--mde", "0.1", "--json")
    plan = json.loads(command("plan", "drawn.yaml", "--pilot", run.folder, *words).out)["power"]
    assert (plan["source"], plan["questions"]) == ("pilot", 6)
    assert plan["mde"] == pytest.approx(mde(spread, 6))
    assert plan["needed"] == questions_needed(spread, 0.1)
    wide = questions_needed(spread, 0.1, ends=(-4.0, 4.0), interval="conservative")
    assert plan["conservative"] == wide > plan["needed"]
    # Three repeats of 3 calls per world of either row; some are in both rows.
    assert 12 * plan["needed"] < plan["calls"] <= 36 * plan["needed"]


def test_without_a_pilot_the_range_of_the_score_is_the_worst_case(place: Path, command: Command):
    words = ("--contrast", "debate strong - consultancy strong", "--mde", "0.5")
    power = json.loads(command("plan", "small.yaml", *words, "--json").out)["power"]
    # Two rows between -2 and 2 differ by 4 at most, one way or the other.
    assert difference_ends([(1, -1)], "brier") == (-4, 4)
    needed = questions_needed(Spread(16.0), 0.5)
    assert power["needed"] == needed
    out = " ".join(command("plan", "small.yaml", *words).out.split())
    assert "in the worst case, the most that the score allows: 16.0" in out
    freedom = PILOT - 1
    factors = [freedom / chdtri(freedom, 1 - tail) for tail in (0.975, 0.025)]
    assert pytest.approx(factors, abs=0.005) == PILOT_FACTORS
    assert "30 of them as a pilot (oversight run SWEEP --limit 30, then --pilot RUN)" in out
    assert "this sweep is too small to detect any difference" in out
    # At worst the problems of a group differ in nothing.
    lines = ("question,answer,wrong,group", *(f"{n}?,{n},{n}1,g{n // 2}" for n in range(4)))
    (place / "g.csv").write_text("\n".join(lines))
    grouped = command("plan", "small.yaml", "--set", "problems={file: g.csv}", *words, "--json")
    assert json.loads(grouped.out)["power"]["needed"] == pytest.approx(2 * needed, abs=2)


def test_a_pilot_of_texts_plans_for_as_many_clusters_as_there_will_be(place: Path) -> None:
    grid = open_sweep(place / "small.yaml").sweep
    pilot = Pilot("pilot", Spread(1.0, design_effect=2.0), 160, 4.0)
    plan = Power("a - b", 0.5).planned(("a", "b"), grid, pilot, "brier")
    n = len(grid.problems)
    # Two clusters decide nothing in a report, and so in its plan.
    assert n == 4 and plan.mde is None
    ends = (-4.0, 4.0)
    assert mde(pilot.spread, n, clusters=2, ends=ends) == 4.0
    larger, pairs = replace(grid, problems=3 * grid.problems), Pilot("pilot", Spread(0.1), 160, 2.0)
    least = Power("a - b", 0.5).planned(("a", "b"), larger, pairs, "brier").mde
    six, twelve = (mde(pairs.spread, 12, clusters=count, ends=ends) for count in (6, 12))
    assert least == six > twelve
    rare = replace(larger, problems=20 * larger.problems, interval="conservative")
    least = Power("a - b", 0.5).planned(("a", "b"), rare, pairs, "brier").mde
    more = {"n": 240, "clusters": 120, "ends": ends}
    assert least == mde(pairs.spread, **more, interval="conservative") > mde(pairs.spread, **more)
    assert plan.needed == questions_needed(pilot.spread, 0.5, size=4.0)
    notes = " ".join(power_finding(plan).parts[0].notes)
    assert "too small to detect any difference (power 0.8, with the report's interval)" in notes
    assert "design effect 2.00 in groups of 4 problems" in notes


def test_a_report_says_what_its_problems_could_have_found(runs: Kept, command: Command) -> None:
    run = runs()
    text = " ".join(command("report", run, "--notes").out.split())
    assert "minus the naive judge's; too few problems to detect any" in text
    assert "4 problems: no lift can be detected; see oversight plan SWEEP --contrast" in text
    rows = json.loads(command("report", run, "--json").out)["rows"]
    compared = json.loads(command("compare", run, "--json").out)["contrasts"]
    assert {one["mde"] for one in (*rows, *compared)} == {None}
