"""`examples/analyses/proposals.py`: graded proposals against planted graders."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from examples.analyses.proposals import graded, read
from oversight.cache.call import Call
from oversight.engine.errors import UsageError
from oversight.engine.run.reader import RunReader
from oversight.protocols.agents.agent import Agent
from oversight.protocols.datasets.loader import ACCEPT, REJECT, proposal
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.mechanisms.critique import ProposerCritic
from oversight.protocols.question import Answer, Problem, Question, balanced, randomness
from tests.command_line import Command
from tests.fakes import Scripted


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


@pytest.mark.wire
@pytest.mark.known_truth
def test_the_best_of_several_proposals_gains_what_a_perfect_judge_gains() -> None:
    """The known truth: of K proposals that are right with q, a perfect judge's pick is right with
    1 - (1 - q)^K, and a judge who knows nothing gains nothing."""
    items, draws, q = 20_000, 3, 0.4
    chance = np.random.default_rng(3)
    right = (chance.random(items * draws) < q).astype(float)
    groups = [str(n // draws) for n in range(items * draws)]
    perfect, blind = (graded(p, right, groups) for p in (right * 0.8 + 0.1, right * 0 + 0.5))
    assert perfect and blind
    assert perfect.best.value == pytest.approx(1 - (1 - q) ** draws, abs=0.01)
    assert blind.best.value == pytest.approx(blind.any.value, abs=1e-9)
    assert blind.any.value == pytest.approx(q, abs=0.01)


T, J, W, Q = 0.9, 0.6, 0.7, 0.55
"""P(the critic is right), P(the judge alone is), P(the judge follows the critic), P(a proposal
is right)."""


def happens(chance: float, *of: object) -> bool:
    return randomness(11, repr(of), "planted").random() < chance


def planted_proposal(number: int, draw: int) -> Problem:
    right = happens(Q, number, draw)
    return proposal(
        f"i{number}-{draw}",
        Question(f"Item {number}: how many?", (Answer("A", ACCEPT), Answer("B", REJECT))),
        Answer("", str(number if right else number + 1)),
        right,
        group=f"i{number}",
    )


def planted_seats(call: Call) -> str:
    """A critic who knows with T, and a judge who follows it with W and knows with J alone."""
    system, user = (message.text for message in call.messages[:2])
    item, stated = re.search(r"Item (\d+).*Proposed answer: (\d+)", system, re.DOTALL).groups()  # type: ignore[union-attr]
    labels = dict(
        (text, label) for label, text in re.findall(r'<answer label="(.)">\n(.*)', system)
    )
    right = labels[ACCEPT if item == stated else REJECT]
    wrong = labels[REJECT if item == stated else ACCEPT]
    known = right if happens(T, item, stated, "critic") else wrong
    alone = right if happens(J, item, stated, "judge") else wrong
    if call.response_format:
        return json.dumps({"answer": known})
    if 'task="percentages"' in user:
        heard = "I found" in user and happens(W, item, stated, "follows")
        belief = known if heard else alone
        return "\n".join(f"{label}: {90 if label == belief else 10}%" for label in labels.values())
    return "I found this out." if "critic" in user else "It is so."


@pytest.mark.wire
@pytest.mark.known_truth
async def test_a_planted_proposer_and_critic_come_out_as_planted() -> None:
    """The known truth: through the proposals, the protocols, the private decision of the
    critic, and the grades."""
    drawn = (planted_proposal(number, draw) for number in range(700) for draw in range(2))
    problems = tuple(balanced(drawn))
    is_right = np.array([float(p.values[place(p)] > 0) for p in problems])
    assert is_right.mean() == pytest.approx(Q, abs=4 * 0.5 / 1400**0.5)
    judge, agent = StatedJudge("sim/judge"), Agent("sim/strong")
    found = {}
    for protocol in (NaiveJudge(judge), ProposerCritic(judge, agent)):
        verdicts = [
            await protocol.run(p.question, p.question.answers[place(p)], Scripted(planted_seats))
            for p in problems
        ]
        accepted = np.array([v.probs[place(p)] for v, p in zip(verdicts, problems, strict=True)])
        found[type(protocol)] = graded(accepted, is_right, [p.group for p in problems])
    decided = [dict(verdict.measures)["critic_chose"] for verdict in verdicts]
    labels = [p.question.answers[place(p)].label for p in problems]
    chose = np.array([float(one == label) for one, label in zip(decided, labels, strict=True)])
    critic = graded(chose, is_right, [p.group for p in problems])
    naive, led = found[NaiveJudge], found[ProposerCritic]
    assert critic and naive and led
    near = 4 * (1 / 700 + 1 / 700) ** 0.5
    assert critic.youden.value == pytest.approx(2 * T - 1, abs=near)
    assert naive.youden.value == pytest.approx(2 * J - 1, abs=near)
    lift = (led.youden - naive.youden).estimate()
    assert lift.value == pytest.approx(2 * W * (T - J), abs=near)
    audited = (critic.youden - naive.youden).estimate()
    assert lift.value == pytest.approx(W * audited.value, abs=near)


def place(problem: Problem) -> int:
    return [answer.text for answer in problem.question.answers].index(ACCEPT)


@pytest.mark.wire
def test_proposals_of_a_run_are_graded_row_by_row(place: Path, command: Command) -> None:
    sweep = (
        "problems: {bundled: {name: arithmetic, limit: 20, proposals: true}}\nagents: sim/strong\n"
        "judges: {kind: stated, model: sim/judge}\nprotocols: [naive_judge, proposer_critic]\n"
    )
    (place / "p.yaml").write_text(sweep)
    assert command("run", "p.yaml", "--run-folder", "run").code == 0
    (naive, none), (led, critic) = read(RunReader(place / "run")).values()
    assert naive and led and critic and none is None
    assert {len(each.right.psi) + len(each.wrong.psi) for each in (naive, led, critic)} == {40}
    (place / "q.yaml").write_text(
        sweep.replace(", proposals: true", "").replace("proposer_critic", "debate")
    )
    assert command("run", "q.yaml", "--run-folder", "plain").code == 0
    with pytest.raises(UsageError, match="write proposals: true"):
        read(RunReader(place / "plain"))
