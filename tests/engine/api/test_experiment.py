from dataclasses import replace

import pytest

from oversight import Experiment
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge, Propaganda
from tests.fakes import APPLES, Scripted

PROBLEMS = [replace(APPLES, id=f"apples-{n}") for n in range(3)]
AGENTS = [Agent("x"), Agent("y")]
JUDGES = [StatedJudge("j"), StatedJudge("k")]


def says(call):
    if call.model == "k":
        return "A: 20%\nB: 80%"
    return "A: 70%\nB: 30%" if call.model == "j" else "a speech"


async def test_an_experiment_has_a_trial_for_every_agent_and_judge():
    experiment = Experiment(Propaganda(JUDGES[0], AGENTS[0]).grid(AGENTS, JUDGES), PROBLEMS)
    trials = await experiment.run(Scripted(says))
    assert [(t.protocol.agent.model, t.protocol.judge.model) for t in trials] == [
        ("x", "j"),
        ("x", "k"),
        ("y", "j"),
        ("y", "k"),
    ]
    assert trials[0].asd.questions == ("apples-0", "apples-1", "apples-2")
    assert trials[0].asd.mean == pytest.approx(0.8)
    assert trials[1].asd.mean == pytest.approx(-1.2)


async def test_a_protocol_without_an_agent_has_a_trial_for_every_judge():
    protocols = NaiveJudge(JUDGES[0]).grid(AGENTS, JUDGES)
    trials = await Experiment(protocols, PROBLEMS).run(Scripted(says))
    assert [trial.protocol.judge.model for trial in trials] == ["j", "k"]


async def test_an_unreadable_judge_oversees_nothing_and_it_is_said_how_often():
    experiment = Experiment([NaiveJudge(JUDGES[0])], PROBLEMS)
    trials = await experiment.run(Scripted(lambda call: "who knows"), lanes=2)
    assert trials[0].asd and (trials[0].asd.mean, trials[0].unreadable) == (0, 3)
