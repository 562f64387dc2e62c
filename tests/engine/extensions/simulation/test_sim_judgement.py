from math import exp

import pytest

from oversight.engine.extensions.simulation import SimModel
from oversight.engine.extensions.simulation.judgement import label_token
from oversight.protocols.agents.agent import Agent
from oversight.protocols.drafting.side_check import NO_SIDE, SideCheck, reader, side_form
from oversight.protocols.errors import Unreadable
from oversight.protocols.judges import (
    DistributionJudge,
    Judge,
    LogprobJudge,
    StatedJudge,
    VotesJudge,
)
from oversight.protocols.mechanisms.baselines import OpenTrust
from oversight.protocols.prompts.prompt_set import default_prompts
from oversight.protocols.question import Answer, Problem, Question
from oversight.protocols.seat import Seat
from oversight.protocols.transcript import Transcript, Turn
from tests.shipments import shipments, simulated, within

PROBLEMS = shipments(1000)
FIRST = PROBLEMS[0]
QUIET = simulated(PROBLEMS)
JUDGES = (StatedJudge("sim/it"), DistributionJudge("sim/it"), LogprobJudge("sim/it"))
each_judge = pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.kind)


def logistic(nats: float) -> float:
    return 1 / (1 + exp(-nats))


def heard(problem: Problem, *spoken: tuple[int, float]) -> Transcript:
    """A transcript with a speech of so many nats for each of these places."""
    answers = problem.question.answers
    turns = (
        Turn(f"Debater {answers[place].label}", f"({answers[place].label}){nats:+.3f} nats.")
        for place, nats in spoken
    )
    return Transcript(problem.question, tuple(turns))


@each_judge
async def test_a_judge_adds_what_it_hears_to_what_it_knows(judge: Judge) -> None:
    for problem in PROBLEMS[:10]:
        best = problem.best
        transcript = heard(problem, (best, 1.5), (1 - best, 1.0), (1 - best, 0.25))
        verdict = await judge.judge(transcript, QUIET)
        assert verdict.probs[best] == pytest.approx(logistic(0.75 + 1.5 - 1.25), abs=1e-8)


@each_judge
async def test_equal_evidence_is_an_exact_tie(judge: Judge) -> None:
    right, wrong = FIRST.best, 1 - FIRST.best
    transcript = heard(FIRST, (wrong, 0.1), (wrong, 0.2), (right, -0.45))
    verdict = await judge.judge(transcript, QUIET)
    assert verdict.probs == (0.5, 0.5)


@each_judge
async def test_among_four_answers_belief_is_shared_out_by_softmax(judge: Judge) -> None:
    answers = tuple(Answer(label, f"It is {label}.") for label in "ABCD")
    problem = Problem("four", Question("Which of four?", answers), (-1, -1, 1, -1))
    verdict = await judge.judge(heard(problem, (0, 1.5), (3, 0.5)), simulated([problem]))
    weights = [exp(1.5), 1, exp(0.75), exp(0.5)]
    assert verdict.probs == pytest.approx([w / sum(weights) for w in weights], abs=1e-8)


@each_judge
async def test_hopeless_evidence_leaves_a_readable_verdict(judge: Judge) -> None:
    verdict = await judge.judge(heard(FIRST, (FIRST.best, 2000.0)), QUIET)
    assert verdict.probs[FIRST.best] == 1


@pytest.mark.parametrize("candidates", [2, 5, 6, 20])
async def test_logprobs_give_the_same_belief_however_many_candidates_are_asked_for(
    candidates: int,
) -> None:
    judge = LogprobJudge("sim/it", top_logprobs=candidates)
    verdict = await judge.judge(heard(FIRST, (FIRST.best, 5.0)), QUIET)
    assert verdict.probs[FIRST.best] == pytest.approx(logistic(5.75), abs=1e-12)
    assert verdict.judgements[0].captured == pytest.approx(0.96)


def test_candidates_are_variants_and_strays_best_first_and_no_more_than_the_whole() -> None:
    token = label_token(("A", "B"), (1.0, 0.0), 20)
    assert {" A", "(B", "The"} <= {text for text, _ in token.top}
    logprobs = [logprob for _, logprob in token.top]
    assert logprobs == sorted(logprobs, reverse=True)
    assert sum(map(exp, logprobs)) == pytest.approx(1)
    assert (token.text, token.logprob) == token.top[0]


async def test_votes_fall_as_often_on_the_truth_as_it_is_believed() -> None:
    sim = simulated(PROBLEMS, SimModel(insight=0.5, noise=1.0))
    judge = VotesJudge("sim/it", n=1)
    right = 0
    for problem in PROBLEMS[:500]:
        verdict = await judge.judge(Transcript(problem.question), sim)
        right += verdict.probs[problem.best] == 1
    assert within(right, 500, (logistic(1.5) + logistic(-0.5)) / 2)


async def test_who_is_trusted_chooses_the_truth_as_often_as_it_sees_it() -> None:
    sim = simulated(PROBLEMS, SimModel(insight=1.0, noise=0.5))
    protocol = OpenTrust(StatedJudge("sim/quiet"), Agent("sim/it"))
    right = 0
    for problem in PROBLEMS:
        side = problem.question.answers[0]
        verdict = await protocol.run(problem.question, side, sim)
        label = problem.question.answers[problem.best].label
        right += dict(verdict.measures)["chose"] == label
    assert within(right, len(PROBLEMS), (logistic(1.5) + logistic(0.5)) / 2)


@pytest.mark.parametrize(
    "judge", [*JUDGES, VotesJudge("sim/it", n=1)], ids=lambda judge: judge.kind
)
async def test_muddled_judgements_appear_at_their_rate_and_cannot_be_read(judge: Judge) -> None:
    sim = simulated(PROBLEMS, SimModel(muddle=0.2))
    unreadable = 0
    for problem in PROBLEMS[:500]:
        try:
            await judge.judge(Transcript(problem.question), sim)
        except Unreadable as fault:
            assert type(fault) is Unreadable
            unreadable += 1
    assert within(unreadable, 500, 0.2)


async def test_speeches_are_never_muddled() -> None:
    sim = simulated(PROBLEMS, SimModel(muddle=1))
    question = FIRST.question
    turn = await Agent("sim/it").speak(Transcript(question), question.answers[0], sim)
    assert turn.text.startswith("(A)")


async def test_a_reader_tells_which_answer_a_speech_argues_for() -> None:
    checked = SideCheck(Agent("sim/it"), Agent("sim/quiet"), candor=True)
    for problem in PROBLEMS[:10]:
        for side in problem.question.answers:
            turn = await checked.speak(Transcript(problem.question), side, QUIET)
            assert (turn.check, turn.retries) == ("on side", 0)


async def test_a_reader_finds_no_side_in_a_speech_that_states_none() -> None:
    transcript = Transcript(FIRST.question).then(Turn("Speaker", "Who knows."))
    seat = Seat(Agent("sim/it"), None, reader(default_prompts()))
    assert await seat.fill(side_form(FIRST.question), transcript, QUIET) == (NO_SIDE, False)
