"""Probes of beliefs: each prefix of a transcript once."""

import pytest
from msgspec.structs import replace

from oversight.cache.call import Call
from oversight.engine.run.probing import BeliefProbe, Probes, belief_probes, read_probes, run_probes
from oversight.engine.stop import StopToken
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.transcript import Transcript
from tests.fakes import Scripted, prompt
from tests.world import THREE, shipment, sweep


async def test_beliefs_are_probed_once_before_each_turn_and_read_back(tmp_path):
    two_best = replace(THREE, values=(-1, 1, 1))
    grid = sweep(Debate(StatedJudge("judge"), Agent("agent"), rounds=2), problems=1, draws=2)
    cells = [*grid.cells()][::3]
    ask = Scripted(lambda call: "So it is." if call.model == "agent" else "A: 80%\nB: 20%")
    probes = await belief_probes(cells, ask)
    assert [(probe.cell.place, len(probe.transcript.turns)) for probe in probes] == [
        (cell.place, turns) for cell in cells for turns in range(4)
    ]
    other = replace(cells[1], problem=two_best, id="other", place=9)
    probes += [BeliefProbe(other, Transcript(two_best.question))]

    def believed(call: Call) -> str:
        turns_heard = len(prompt(call).speeches)
        if "Which?" in prompt(call).system + prompt(call).user:
            return "A: 20%\nB: 30%\nC: 50%"
        return "hm" if turns_heard == 1 else f"A: {10 * turns_heard}%\nB: {100 - 10 * turns_heard}%"

    judge, token = Scripted(believed), StopToken()
    for calls_sent in (len(probes), 0):
        judge.calls.clear()
        await run_probes(probes, judge, Probes(tmp_path), lanes=1, stop_token=token, added=None)
        assert len(judge.calls) == calls_sent
    best = shipment(0).values.index(1)
    points = [(n, n / 10 if best == 0 else 1 - n / 10) for n in (0, 2, 3)]
    expected = {cell.place: [(n, pytest.approx(p)) for n, p in points] for cell in cells}
    assert read_probes(tmp_path) == expected | {9: [(0, pytest.approx(0.8))]}
