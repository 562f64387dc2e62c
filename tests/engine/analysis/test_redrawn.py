"""Judges that are drawn again, and what a plan makes of the noise that this shows."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.analysis.rows import read_rows
from oversight.engine.analysis.scoring.power import mde
from oversight.engine.extensions.planning.power import (
    Power,
    power_finding,
    power_plan,
    verdict_scores,
)
from oversight.engine.models.accounting.prices import listed
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.protocols.judges.case import Case
from oversight.protocols.judges.repeated import Redrawn
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.transcript import Transcript
from tests.engine.kept_runs import Kept
from tests.world import shipments

REDRAWN = """\
name: redrawn
draws: {draws}
problems: {{bundled: {{name: arithmetic, limit: 5}}}}
agents: {{model: sim/weak, best_of: 2}}
judges: {judge}
protocols: [naive_judge, propaganda]
"""
AGAIN = "{kind: redrawn, member: {kind: stated, model: sim/judge}, draws: 3}"


def test_a_verdict_drawn_again_is_of_the_same_transcript_and_the_mean_of_its_draws() -> None:
    asked: list[Call] = []

    async def ask(call: Call) -> Reply:
        asked.append(call)
        share = 50 + 10 * sum(call.draw)
        return Reply(f"A: {share}%\nB: {100 - share}%", call=call.address)

    judge = Redrawn(StatedJudge("sim/judge"), 3)
    transcript = Transcript(shipments(1)[0].question)
    verdict = asyncio.run(judge.decide(Case(transcript), ask))
    assert len({call.request for call in asked}) == 1
    # The first draw is what the judge says by itself: a run without draws is gone on with.
    assert [call.draw for call in asked] == [(), (1,), (2,)]
    assert [probs[0] for probs in verdict.redraws] == pytest.approx([0.5, 0.6, 0.7])
    assert verdict.probs[0] == pytest.approx(0.6)
    assert len(verdict.judgements) == 3
    with pytest.raises(ValueError, match="draws: 0 is too few"):
        Redrawn(StatedJudge("sim/judge"), 0)


def test_a_run_with_more_verdicts_goes_on_from_one_with_a_single_one(kept: Kept) -> None:
    one = read_rows(kept(REDRAWN.format(draws=1, judge="sim/judge")))
    three = read_rows(kept(REDRAWN.format(draws=1, judge=AGAIN)))
    # Whoever picks among drafts does so once, so that what was said is the same.
    for row in (0, 1):
        first, again = (verdict_scores(run, row, "brier") for run in (one, three))
        single, drawn = (np.array([*scores.values()]) for scores in (first, again))
        assert [*first] == [*again] and drawn.shape == (5, 1, 3)
        assert drawn[:, :, 0] == pytest.approx(single[:, :, 0])
        assert np.ptp(drawn, axis=2).any()


@pytest.mark.campaign
def test_a_plan_weighs_verdicts_against_draws_and_problems(place: Path, kept: Kept) -> None:
    sweep = REDRAWN.format(draws=2, judge=AGAIN)
    (place / "redrawn.yaml").write_text(sweep.replace("limit: 5", "limit: 20"))
    pilot, how = read_rows(kept(sweep)), Power("propaganda - naive judge", 0.1)
    opened = open_sweep(place / "redrawn.yaml")
    plan = asyncio.run(power_plan(opened, how, None, listed(), pilot=pilot))
    assert plan.mde == mde(plan.spread, 20, draws=(2, 2), verdicts=3, ends=(-4.0, 4.0))
    # The analysis of the run by itself has the same designs, without what they cost.
    alone = how.of_run(pilot, (), "brier").plain()["purchases"]
    keys = ("draws", "verdicts", "questions", "conservative")
    for one, planned in zip(alone, plan.purchases, strict=True):
        assert [one[key] for key in keys] == [getattr(planned, key) for key in keys]
    assert plan.spread.separated and plan.spread.judged
    bought = {(each.draws, each.verdicts): each for each in plan.purchases}
    assert set(bought) == {(k, j) for k in (1, 2, 4, 8) for j in (1, 3, 9)}
    # More verdicts on a draw need fewer problems, and more calls for each of them.
    one, nine = bought[1, 1], bought[1, 9]
    assert nine.questions < one.questions
    assert nine.calls / nine.questions > 2 * one.calls / one.questions
    assert "verdicts" in power_finding(plan).tables()[0].head
