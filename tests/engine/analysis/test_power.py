"""`plan --contrast`: what it takes to tell two rows apart, and what a report could have found."""

import json
from pathlib import Path

import numpy as np
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
    verdict_scores,
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


def test_a_pilot_tells_noise_between_draws_from_differences_between_problems(
    place: Path, kept: Kept, command: Command
) -> None:
    (place / "drawn.yaml").write_text(DRAWN)
    run = read_rows(kept(DRAWN))
    scores = [np.array([*verdict_scores(run, row, "brier").values()])[:, :, 0] for row in (1, 2)]
    assert scores[0].shape == (6, 3)
    # Their means over draws are the report's.
    assert scores[0].mean(axis=1) == pytest.approx(run.asd("brier")["propaganda"].values)
    spread, n = pilot_spread(run, 1, 2, "brier")
    within = [each.var(axis=1, ddof=1).mean() for each in scores]
    total = (scores[0] - scores[1]).mean(axis=1).var(ddof=1)
    assert n == 6
    assert (spread.within_first, spread.within_second) == pytest.approx(tuple(within))
    assert spread.between == pytest.approx(max(0, total - sum(within) / 3))
    words = ("--contrast", "propaganda - consultancy", "--mde", "0.1", "--json")
    told = json.loads(command("plan", "drawn.yaml", "--pilot", run.folder, *words).out)["power"]
    assert (told["source"], told["questions"], told["separated"]) == ("pilot", 6, True)
    assert told["mde"] == pytest.approx(mde(spread, 6, draws=(3, 3)))
    for bought in told["purchases"]:
        draws = (bought["draws"],) * 2
        assert bought["questions"] == questions_needed(spread, 0.1, draws=draws)
        wide = questions_needed(spread, 0.1, draws=draws, ends=(-4.0, 4.0), interval="conservative")
        assert bought["conservative"] == wide > bought["questions"]
        # The naive judge is not among the two rows: 3 calls a world of either.
        drawn = bought["questions"] * bought["draws"]
        assert 4 * drawn < bought["calls"] <= 12 * drawn


def test_without_a_pilot_the_range_of_the_score_is_the_worst_case(
    place: Path, command: Command
) -> None:
    words = ("--contrast", "debate strong - consultancy strong", "--mde", "0.5")
    told = json.loads(command("plan", "small.yaml", *words, "--json").out)["power"]
    # Two rows between -2 and 2 differ by 4 at most, one way or the other.
    assert difference_ends([(1, -1)], "brier") == (-4, 4)
    needed = questions_needed(Spread(16.0), 0.5)
    assert told["purchases"][0]["questions"] == needed
    out = " ".join(command("plan", "small.yaml", *words).out.split())
    assert "spread assumed, the worst case: the range of the score allows no more: w² 16.0" in out
    freedom = PILOT - 1
    known = [freedom / chdtri(freedom, 1 - tail) for tail in (0.975, 0.025)]
    assert pytest.approx(known, abs=0.005) == PILOT_FACTORS
    assert "30 of them as a pilot (oversight run SWEEP --limit 30, then --pilot RUN)" in out
    assert "the sweep as it stands can decide no difference" in out
    # At worst the problems of a group differ in nothing.
    lines = ("question,answer,wrong,group", *(f"{n}?,{n},{n}1,g{n // 2}" for n in range(4)))
    (place / "g.csv").write_text("\n".join(lines))
    grouped = command("plan", "small.yaml", "--set", "problems={file: g.csv}", *words, "--json")
    bought = json.loads(grouped.out)["power"]["purchases"][0]["questions"]
    assert bought == pytest.approx(2 * needed, abs=2)
    assert len(told["purchases"]) == 1 and "cheapest" not in out
    several = command("plan", "small.yaml", "--contrast", "debate - consultancy", "--mde", "0.5")
    assert (several.code, "'debate - consultancy' means 2 contrasts" in several.err) == (2, True)


def test_a_pilot_of_texts_plans_for_as_many_clusters_as_there_will_be(place: Path) -> None:
    grid = open_sweep(place / "small.yaml").sweep
    pilot = Pilot("pilot", Spread(1.0, design_effect=2.0), 160, 4.0)
    found = Power("a - b", 0.5).designs(("a", "b"), grid, pilot, 1, "brier")
    n = len(grid.problems)
    # Two clusters decide nothing in a report, and so in its plan.
    assert n == 4 and found.mde is None
    assert mde(pilot.spread, n, clusters=2, ends=(-4.0, 4.0)) == 4.0
    assert found.purchases[0].questions == questions_needed(pilot.spread, 0.5, size=4.0)
    notes = " ".join(power_finding(found).parts[0].notes)
    assert "can decide no difference (power 0.8, by the interval that the report prints)" in notes
    assert "design effect 2.00 in groups of 4 problems" in notes
    assert "shows what more draws are worth" in notes


def test_half_of_a_question_about_power_is_refused(place: Path, command: Command) -> None:
    for words in (("--mde", ".1"), ("--contrast", "debate - consultancy"), ("--pilot", "x")):
        assert command("plan", "small.yaml", *words).code == 2
    wrong = command("plan", "small.yaml", "--contrast", "debate", "--mde", "0.1")
    assert (wrong.code, "write two rows" in wrong.err) == (2, True)


def test_a_report_says_what_its_problems_could_have_found(kept: Kept, command: Command) -> None:
    run = kept()
    told = " ".join(command("report", run, "--notes").out.split())
    assert "minus the naive judge's; too few problems to detect any" in told
    assert "4 problems: no difference can be seen; see oversight plan SWEEP --contrast" in told
    rows = json.loads(command("report", run, "--json").out)["rows"]
    compared = json.loads(command("compare", run, "--json").out)["contrasts"]
    assert {each["mde"] for each in (*rows, *compared)} == {None}
