"""Judges that are drawn again."""

import asyncio

import numpy as np
import pytest

from oversight.cache import Call, Reply
from oversight.engine.analysis.rows import read_rows
from oversight.protocols import Case, Redrawn, StatedJudge, Transcript
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
    calls: list[Call] = []

    async def ask(call: Call) -> Reply:
        calls.append(call)
        share = 50 + 10 * sum(call.draw)
        return Reply(f"A: {share}%\nB: {100 - share}%", call=call.address)

    judge = Redrawn(StatedJudge("sim/judge"), 3)
    verdict = asyncio.run(judge.decide(Case(Transcript(shipments(1)[0].question)), ask))
    assert len({call.request for call in calls}) == 1
    # The first draw is what the judge says by itself: a run without draws is gone on with.
    assert [call.draw for call in calls] == [(), (1,), (2,)]
    assert [probs[0] for probs in verdict.redraws] == pytest.approx([0.5, 0.6, 0.7])
    assert verdict.probs[0] == pytest.approx(0.6) and len(verdict.judgements) == 3
    with pytest.raises(ValueError, match="draws: 0 is too few"):
        Redrawn(StatedJudge("sim/judge"), 0)


def test_a_run_with_more_verdicts_goes_on_from_one_with_a_single_one(runs: Kept) -> None:
    one = read_rows(runs(REDRAWN.format(draws=1, judge="sim/judge")))
    three = read_rows(runs(REDRAWN.format(draws=1, judge=AGAIN)))
    # A pick among drafts is made once, so the speeches are the same.
    for row in (0, 1):
        single = one.table.scored(row, "brier")
        assert single is not None
        places = three.table.cells.places(row).tolist()
        drawn = np.array([three.table.redraws[place] for place in places])
        assert drawn.shape == (10, 3, 2)
        assert drawn[:, 0] == pytest.approx(single.every.worlds.reshape(10, 2))
        assert np.ptp(drawn, axis=1).any()
