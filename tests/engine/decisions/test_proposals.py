"""Graded proposals against planted graders."""

import json
from pathlib import Path

import numpy as np
import pytest

from oversight.engine.decisions.proposals import graded
from tests.command_line import Command


@pytest.mark.campaign
@pytest.mark.known_truth
@pytest.mark.parametrize("t", [0.9, 0.6, 0.4])
def test_the_lift_of_a_critic_is_what_it_knows_more_than_the_judge(t: float) -> None:
    """The known truth: a critic right with t, followed with w by a judge right alone with j, lifts
    J by 2 w (t - j), which is 0 where both are as good."""
    n, w, j = 200_000, 0.7, 0.6
    chance = np.random.default_rng(7)
    right = np.arange(n) % 2.0
    alone = chance.random(n) < j
    judged = np.where(chance.random(n) < w, chance.random(n) < t, alone)
    groups = [str(number // 2) for number in range(n)]
    naive, led = (
        graded(np.where(correct, right, 1 - right), right, groups) for correct in (alone, judged)
    )
    assert naive and led
    lift = led.youden.value - naive.youden.value
    assert lift == pytest.approx(2 * w * (t - j), abs=0.01)
    assert led.area.area.value == pytest.approx((led.youden.value + 1) / 2, abs=1e-9)


@pytest.mark.wire
def test_proposals_of_a_run_are_graded_row_by_row(place: Path, command: Command) -> None:
    sweep = (
        "problems: {bundled: {name: arithmetic, limit: 20, proposals: true}}\nagents: sim/strong\n"
        "judges: {kind: stated, model: sim/judge}\nprotocols: [naive_judge, proposer_critic]\n"
    )
    (place / "p.yaml").write_text(sweep)
    assert command("run", "p.yaml", "--run-folder", "run").code == 0
    done = command("measure", "proposals", "run", "--json")
    assert done.code == 0, done.err
    naive, critic = json.loads(done.out)["graded"]
    assert naive["n"] == critic["n"] == 40 and naive["lift"] is None
    for row in (naive, critic):
        apart = row["right"]["value"] - row["wrong"]["value"]
        assert row["j"]["value"] == pytest.approx(apart)
    lift = critic["j"]["value"] - naive["j"]["value"]
    assert critic["lift"]["value"] == pytest.approx(lift)
    (place / "q.yaml").write_text(
        sweep.replace(", proposals: true", "").replace("proposer_critic", "debate")
    )
    assert command("run", "q.yaml", "--run-folder", "plain").code == 0
    refused = command("measure", "proposals", "plain")
    assert refused.code == 2 and "write proposals: true" in refused.err
