import re
from dataclasses import replace

import pytest
from msgspec import structs

from oversight.cache.call import Call
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import StatedJudge
from oversight.protocols.judges.case import Case
from oversight.protocols.judges.exchange import exchanged
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Question
from oversight.protocols.scores import brier
from oversight.protocols.transcript import Transcript, Turn
from tests.fakes import CRATES, A, B, Scripted, prompt
from tests.world import shipments, simulated


def exchange(*turns: Turn, question: Question = CRATES) -> Transcript:
    return exchanged(Case(Transcript(question, turns))).transcript


def test_a_seat_that_is_not_called_by_its_side_keeps_its_name():
    (turn,) = exchange(Turn("Critic", "Weak.", A)).turns
    assert turn.speaker == "Critic"


def test_speeches_made_at_once_trade_places_round_by_round_and_replies_do_not():
    one, two = Turn("Debater A", "1", A, at_once=True), Turn("Debater B", "2", B, at_once=True)
    asked = Turn("Judge", "?")
    three, four = structs.replace(one, text="3"), structs.replace(two, text="4")
    assert [turn.text for turn in exchange(one, two, three, four).turns] == ["2", "1", "4", "3"]
    assert [turn.text for turn in exchange(one, two, asked, three, four).turns] == list("21?43")
    late = (Turn("Debater A", "1", A), Turn("Debater B", "2", B))
    assert [turn.text for turn in exchange(*late).turns] == ["1", "2"]


@pytest.mark.parametrize("simultaneous", [True, False])
async def test_a_judge_without_position_bias_believes_the_same_either_way(simultaneous):
    """The known truth: a judge who weighs what is said, whatever it is called and wherever it
    stands, gives the same probabilities asked in one order and in both."""
    problems = shipments(10)
    for problem in problems:
        plain: Protocol = Debate(
            StatedJudge("sim/quiet"), Agent("sim/it"), simultaneous=simultaneous
        )
        both = replace(plain, judge=StatedJudge("sim/quiet", both_orders=True))
        for one, other in zip(
            await plain.worlds(problem, simulated(problems)),
            await both.worlds(problem, simulated(problems)),
            strict=True,
        ):
            assert other.probs == pytest.approx(one.probs, abs=1e-6)


@pytest.mark.parametrize("lean", [0.6, 0.9])
@pytest.mark.parametrize("to", ["label", "first answer", "last speaker"])
async def test_a_judge_who_leans_one_way_is_undecided_in_both_orders(lean, to):
    """The known truth: a judge who gives `lean` to (A), to the answer shown first, or to whoever
    spoke last of those who spoke at once, whatever is said, gives one half to each answer when it
    is asked in both orders; of a statement, one half to its being true."""

    def leaning(call: Call) -> str:
        asked = prompt(call)
        if asked.task == "statement":
            options = re.findall(r"^(Yes|No): <", asked.user, re.MULTILINE)
            favourite = "Yes" if to == "label" else options[-1 if to == "last speaker" else 0]
            other = ({"Yes", "No"} - {favourite}).pop()
            return f"{favourite}: {100 * lean}%\n{other}: {100 - 100 * lean}%"
        favourite = {
            "label": "A",
            "first answer": asked.system.partition('<answer label="')[2][0],
            "last speaker": asked.speakers[-1][-1],
        }[to]
        other = "B" if favourite == "A" else "A"
        return f"{favourite}: {100 * lean}%\n{other}: {100 - 100 * lean}%"

    turns = [Turn(f"Debater {side.label}", "So.", side, at_once=True) for side in (A, B)]
    judge = StatedJudge("judge", both_orders=True)
    verdict = await judge.judge(Transcript(CRATES, tuple(turns)), Scripted(leaning))
    assert verdict.probs == pytest.approx((0.5, 0.5))
    belief = await judge.believes("It is so.", Transcript(CRATES), Scripted(leaning))
    # Of the two words of a statement only the place is exchanged.
    assert belief.value == pytest.approx(lean if to == "label" else 0.5)


@pytest.mark.parametrize("reads", [False, True])
async def test_what_stands_in_the_passage_alone_is_known_to_who_may_read_it(reads):
    """The known truth: the answer stands in the passage and nowhere else. Who may read it is sure,
    one who may not is at even odds; so the naive judge scores 0 and -0.5 (Brier)."""
    question = structs.replace(CRATES, passage="There were 48.")
    ask = Scripted(
        lambda call: "A: 100%\nB: 0%" if "were 48" in prompt(call).system else "A: 50%\nB: 50%"
    )
    naive = NaiveJudge(StatedJudge("judge", reads_passage=reads))
    verdict = await naive.run(question, A, ask)
    assert brier(verdict.probs, 0) == (0 if reads else -0.5)
