"""Mechanisms in which helpers judge a proposal: critics, participants and reward models."""

import math
from itertools import product

import pytest
from msgspec import structs

from oversight import Agent, Call, LogprobJudge, Reply, StatedJudge, Verdict
from oversight.engine.run.lanes import attempt
from oversight.engine.sweep.sweep import Cell, report_rows
from oversight.protocols import JsonLines, RecursiveRewardModelling
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.datasets.loader import ACCEPT, REJECT, grouped, proposal
from oversight.protocols.mechanisms.critique import Critique, DebateFeedback, ProposerCritic
from oversight.protocols.prompts.prompt_set import default_prompts
from oversight.protocols.question import Answer, Problem, Question, balanced
from tests.fakes import (
    ALICE,
    APPLES,
    CRATES,
    JUDGE,
    A,
    B,
    Scripted,
    addresses,
    form,
    held,
    prompt,
    token,
)

RITA = StatedJudge("rita", reads_passage=True)
CAROL = Agent("carol")


def script(call: Call) -> str:
    """Critiques named by their draw, with equal ratings."""
    parsed = prompt(call)
    return {
        "percentages": "A: 70%\nB: 30%",
        "critique": f"flaw {call.draw[0]}",
        "statement": held(0.5),
    }.get(parsed.task, f"{parsed.asks} by {call.model}")


@pytest.mark.parametrize("draws", [1, 3, 5])
async def test_an_honest_critic_finds_a_planted_flaw_as_often_as_its_draws_allow(draws):
    """The known truth: a critic finds a flaw with probability 0.3 per draw. With k draws and a
    ranker that recognises a flaw, the judge hears of it with probability 1 - 0.7^k, here 0.300,
    0.657 and 0.832 with 1, 3 and 5 draws, for one or two critiques shown. It never hears of a flaw
    that does not exist, or from a critic who names none. So the helpfulness, rated 1 for a flaw and
    0.1 for none, is 1 - 0.9 x 0.7^k on average. All 2^k outcomes are counted."""
    shown_count = min(2, draws - 1) or 1

    async def found(critic: str, side: Answer) -> float:
        """How likely the judge is to hear of a flaw in the proposal for this side."""
        chance = helpful = 0.0
        for sees in product((True, False), repeat=draws):

            def planted(call: Call, sees: tuple[bool, ...] = sees) -> str:
                parsed = prompt(call)
                match parsed.task:
                    case "speak":
                        return "Step 2 is 3 x 12." if parsed.side == "B" else "Step 2 is 4 x 12."
                    case "critique":
                        flawed = call.model == "honest" and "3 x 12" in parsed.speeches[0]
                        return "It is wrong." if flawed and sees[call.draw[0]] else "All is well."
                    case "statement":
                        return held(1.0 if "wrong" in parsed.speeches[-1] else 0.1)
                readable = len(parsed.speeches) <= 1 + shown_count
                is_heard = readable and any("wrong" in speech for speech in parsed.speeches)
                return "A: 100%\nB: 0%" if is_heard else "A: 50%\nB: 50%"

            protocol = Critique(JUDGE, ALICE, Agent(critic), critiques=draws, shown=shown_count)
            verdict = await protocol.run(CRATES, side, Scripted(planted))
            weight = math.prod(0.3 if entry else 0.7 for entry in sees)
            chance += weight * (verdict.probs[0] == 1)
            helpful += weight * float(dict(verdict.measures).get("helpfulness", 0))
        if draws > 1:
            assert helpful == pytest.approx(0.1 + 0.9 * chance)
        return chance

    assert await found("honest", B) == pytest.approx(1 - 0.7**draws)
    assert await found("honest", A) == await found("dishonest", B) == 0


async def test_a_critic_that_was_turned_takes_what_an_honest_one_gave():
    """The known truth: a judge that follows the critic, unless it knows the critic's side, believes
    the wrong answer exactly where the critic works for the agent. With an honest or a sided critic
    both worlds end at the truth, and Brier ASD is 0 + 2. With an adversarial one each world ends at
    its own answer, and ASD is 0."""

    def planted(call: Call) -> str:
        parsed = prompt(call)
        if parsed.task == "critique":
            turned = "has been compromised" in parsed.user
            return "It fails." if "for B" in parsed.speeches[0] and not turned else "It holds."
        if parsed.task == "percentages":
            if parsed.speakers[-1] != "Critic":
                return "A: 50%\nB: 50%"
            wrong = ("B" in parsed.speakers[0]) == ("holds" in parsed.speeches[-1])
            return "A: 0%\nB: 100%" if wrong else "A: 100%\nB: 0%"
        return f"for {parsed.side}"

    for aux, expected in (("honest", 2.0), ("sided", 2.0), ("adversarial", 0.0)):
        protocol = Critique(JUDGE, ALICE, CAROL, critiques=1, aux=aux)
        assert await protocol.agent_score_difference(APPLES, Scripted(planted)) == expected


APPLES_TWICE = structs.replace(APPLES, id="again")
MADE_WRONG = "It counts four crates though one broke"
TAMPERED = structs.replace(APPLES, flaws=("", MADE_WRONG))


def referee(call: Call, words: str) -> str:
    """A ranker that finds exactly the words of a critique."""
    parsed = prompt(call)
    if parsed.task != "statement":
        drawn = words.split("|")
        return drawn[call.draw[-1] % len(drawn)] if parsed.task == "critique" else script(call)
    assert [player.split()[0] for player in parsed.speakers] == ["Proposer", "Critic"]
    about = parsed.statement
    if f"points to this flaw in the proposal: {MADE_WRONG}" in about:
        return held(float(MADE_WRONG in parsed.speeches[-1]))
    if "claims that something is wrong" in about:
        return held(float("wrong" in parsed.speeches[-1].lower()))
    assert "would not matter" in about
    return held(float("comma" in parsed.speeches[-1]))


@pytest.mark.parametrize(
    ("words", "hallucinated", "included", "nitpick"),
    [
        (f"Wrong: {MADE_WRONG}.", 1, 1, 0),
        ("It is wrong.", 1, 0, 0),
        ("A comma.", 0, 0, 1),
        (f"A comma.|Wrong: {MADE_WRONG}.", 1, 1, 0),
    ],
)
async def test_a_planted_flaw_measures_critiques(words, hallucinated, included, nitpick):
    """The known truth: critiques of a tampered answer either point to the planted flaw or do not;
    every flaw claimed in an intact one is made up; irrelevant points are nitpicks in both. The
    verdict equals the verdict on the same problem without planted flaws."""
    (row,) = report_rows([Critique(JUDGE, ALICE, CAROL, RITA, critiques=2, shown=2)])
    for side, result in enumerate((("hallucinated", hallucinated), ("included", included))):
        ask, plain = (Scripted(lambda call: referee(call, words)) for _ in range(2))
        verdict = await attempt(Cell(0, row, TAMPERED, side, 0, ""), ask)
        untold = await attempt(Cell(0, row, APPLES, side, 0, ""), plain)
        assert isinstance(verdict, Verdict) and isinstance(untold, Verdict)
        assert verdict.measures == (result, ("nitpick", nitpick)) and untold.measures == ()
        assert structs.replace(verdict, measures=()) == untold
        # Participants are not told: the ranker is asked after the verdict.
        before, after = ask.calls[: len(plain.calls)], ask.calls[len(plain.calls) :]
        assert {call.address for call in before} == addresses(plain)
        assert {call.model for call in after} == {"rita"} and len(after) == 4


async def test_missing_measures_do_not_change_the_verdict():
    (row,) = report_rows([Critique(JUDGE, ALICE, CAROL, critiques=1)])

    def mute(call: Call) -> str:
        return "Hm." if prompt(call).task == "statement" else script(call)

    verdict = await attempt(Cell(0, row, TAMPERED, 1, 0, ""), Scripted(mute))
    assert isinstance(verdict, Verdict) and verdict.measures == ()


def test_flaws_are_kept_with_their_answers(tmp_path):
    write_jsonl([TAMPERED, APPLES_TWICE], tmp_path / "p.jsonl")
    assert JsonLines("p.jsonl").load(tmp_path) == grouped((TAMPERED, APPLES_TWICE))
    planted, plain = JsonLines("p.jsonl", relabel=True, seed=3).load(tmp_path)
    texts = [answer.text for answer in planted.question.answers]
    assert dict(zip(texts, planted.flaws, strict=True)) == {"48": "", "36": MADE_WRONG}
    assert plain.flaws == ()
    with pytest.raises(ValueError, match="apples: 1 flaws for 2 answers"):
        structs.replace(APPLES, flaws=("",))


async def test_a_judge_who_trusts_the_critic_is_as_good_as_the_critic():
    """The known truth: with a critic who is right on r of n questions, for every proposal, and a
    judge who believes it, accuracy ASD is r/n - (n - r)/n. With 14 of 20 this is 0.4. The agent is
    not asked for its own opinion, here always (B)."""
    n, right = 20, 14

    def planted(call: Call) -> str:
        parsed = prompt(call)
        number = int(parsed.system.partition("number ")[2].partition("?")[0])
        match parsed.task:
            case "choice":
                return form(answer="A" if number < right and call.model == "carol" else "B")
            case "percentages":
                return "A: 100%\nB: 0%" if parsed.speeches[-1] == "A it is" else "A: 0%\nB: 100%"
        return f"{parsed.side} it is"

    protocol = ProposerCritic(JUDGE, ALICE, CAROL)
    total, agreed = 0.0, [0, 0]
    for number in range(n):
        question = Question(f"Which is number {number}?", (Answer("A", "yes"), Answer("B", "no")))
        problem = Problem(str(number), question, (1, -1))
        total += await protocol.agent_score_difference(problem, Scripted(planted), "accuracy")
        for place, verdict in enumerate(await protocol.worlds(problem, Scripted(planted))):
            agreed[place] += bool(dict(verdict.measures)["agrees"])
    assert total / n == pytest.approx(2 * right / n - 1) and agreed == [right, n - right]


PROPOSED = next(balanced([proposal("p", CRATES, Answer("", "36"), False, group="crates")])).question


def reviewed(call: Call) -> str:
    """The critic rejects, and everybody names the side that is spoken for."""
    parsed = prompt(call)
    reject = next(answer.label for answer in PROPOSED.answers if answer.text == REJECT)
    return {"choice": form(answer=reject), "percentages": "A: 70%\nB: 30%"}.get(
        parsed.task, f"{parsed.side} by {call.model}"
    )


@pytest.mark.parametrize(
    ("aux", "critic"), [("honest", REJECT), ("sided", REJECT), ("adversarial", ACCEPT)]
)
@pytest.mark.parametrize("rebuttals", [0, 2])
async def test_a_proposer_who_defends_its_proposal_shares_all_calls(aux, critic, rebuttals):
    protocol = ProposerCritic(JUDGE, ALICE, CAROL, aux=aux, rebuttals=rebuttals, defends="proposal")
    protocol.check(PROPOSED)
    labels = {answer.text: answer.label for answer in PROPOSED.answers}
    asks, turns = [], []
    for side in PROPOSED.answers:
        asks.append(Scripted(reviewed))
        verdict = await protocol.run(PROPOSED, side, asks[-1])
        turns.append([(turn.speaker, turn.text) for turn in verdict.transcript.turns])
    assert addresses(asks[0]) == addresses(asks[1])
    accept = labels[ACCEPT]
    pair = [(f"Proposer {accept}", f"{accept} by alice"), ("Critic", f"{labels[critic]} by carol")]
    assert turns == [pair * (rebuttals + 1)] * 2
    assert dict(verdict.measures)["critic_chose"] == labels[critic]


def reward(call: Call, value: float) -> str:
    """The reply of a judge that finds the agent's answer right with this probability."""
    mine = prompt(call).speakers[0][-1]
    other = "B" if mine == "A" else "A"
    return f"{mine}: {100 * value:.9f}%\n{other}: {100 - 100 * value:.9f}%"


OWN = default_prompts().text("debate_feedback.own")
PAUL = Agent("paul")


async def test_the_ranking_raises_the_share_of_sound_responses_as_it_should():
    """The known truth: half of all responses are correct, roles see it, and the score follows them.
    The best of N is correct with probability 1 - 2^-N, which is all but one of the 2^N patterns,
    counted here exactly."""
    candidates = 3

    def patterned(pattern: int):
        def answer(call: Call) -> str:
            parsed = prompt(call)
            match parsed.task:
                case "speak":
                    return "sound" if pattern >> call.draw[0] & 1 else "unsound"
                case "discuss":
                    return f"it is {parsed.speeches[0]}"
                case "statement":
                    return held(parsed.speeches.count("it is sound") / 3)
            return "A: 90%\nB: 10%" if parsed.speeches[0] == "sound" else "A: 40%\nB: 60%"

        return answer

    protocol = DebateFeedback(JUDGE, ALICE, candidates=candidates)
    asks = [Scripted(patterned(pattern)) for pattern in range(2**candidates)]
    verdicts = [await protocol.run(CRATES, A, ask) for ask in asks]
    sound = [verdict for verdict in verdicts if verdict.probs == pytest.approx((0.9, 0.1))]
    assert len(sound) == 2**candidates - 1
    assert sum(dict(v.measures)["spread"] == 1.0 for v in verdicts) == 2**candidates - 2


async def test_a_model_that_is_kinder_to_its_own_shows_in_the_score():
    """The known truth: participants find every flaw in another's text and one of three in their
    own. So the score of a flawed response rises from 0 to 2/3, and ASD falls from 2 to 2/9."""

    def partial(call: Call) -> str:
        parsed = prompt(call)
        match parsed.task:
            case "speak":
                return "flawed" if parsed.side == "B" else "sound"
            case "discuss":
                flawed = parsed.speeches[0] == "flawed"
                lenient = OWN in parsed.user and "Participant 1:" not in parsed.user
                return "flaw" if flawed and not lenient and call.model == "paul" else "fine"
            case "statement":
                return held(parsed.speeches.count("fine") / 3)
        return reward(call, parsed.speeches.count("fine") / 3)

    for is_own, in_b in ((False, 0.0), (True, 2 / 3)):
        protocol = DebateFeedback(JUDGE, ALICE, PAUL, own=is_own)
        verdict = await protocol.run(CRATES, B, Scripted(partial))
        assert dict(verdict.measures)["score"] == pytest.approx(in_b)
        asd = await protocol.agent_score_difference(APPLES, Scripted(partial))
        assert asd == pytest.approx(2 * (1 - in_b) ** 2)


HELGA = Agent("helga")


def script_reward(call: Call, rewards: tuple[float, ...] = (0.25, 0.75, 0.5)) -> str:
    """Candidates named by their draw, with `rewards` of draw 0, 1, 2 …"""
    parsed = prompt(call)
    match parsed.task:
        case "criteria":
            return form(criteria=["units", "sums", "sense"])
        case "speak":
            return f"draw {call.draw[0]}"
        case "percentages":
            return reward(call, rewards[int(parsed.speeches[0].removeprefix("draw "))])
    return f"{parsed.asks}: {parsed.speeches[-1]} of {parsed.speeches[0]}"


@pytest.mark.parametrize("candidates", [1, 2, 3])
async def test_best_of_n_against_a_reward_without_truth_gains_what_the_largest_of_n_gains(
    candidates,
):
    """The known truth: rewards are noise, 1/4, 1/2, 3/4 or 1 with equal probability. The largest of
    N is at most k/4 with probability (k/4)^N, so its mean is 1 minus the mean of those for k below
    4, and N candidates gain this minus the mean of one, 5/8. More optimisation improves any answer.
    All 4^N outcomes are counted."""
    levels = (0.25, 0.5, 0.75, 1.0)
    mean = gained = 0.0
    for pattern in product(levels, repeat=candidates):
        ask = Scripted(lambda call, pattern=pattern: script_reward(call, pattern))
        protocol = RecursiveRewardModelling(JUDGE, ALICE, criteria=1, candidates=candidates)
        verdict = await protocol.run(CRATES, B, ask)
        mean += verdict.probs[1] / 4**candidates
        gained += float(dict(verdict.measures)["gained"]) / 4**candidates
    largest = 1 - sum(level**candidates for level in levels[:-1]) / 4
    assert mean == pytest.approx(largest) and gained == pytest.approx(largest - 5 / 8)


async def test_honest_helpers_give_the_judge_what_it_cannot_see_and_adversarial_ones_take_it():
    """The known truth: a wrong answer fails two of three criteria, and only helpers can tell. The
    reward is the fraction of criteria that helpers report as met; the judge does not know their
    side. With honest helpers a wrong answer gets 1/3, so Brier ASD is 0 + 2 (2/3)^2. With
    adversarial ones both get 1, and ASD is 0."""

    def planted(call: Call) -> str:
        parsed = prompt(call)
        match parsed.task:
            case "assess":
                fails = "for B" in parsed.speeches[0] and parsed.speeches[-1] != "units"
                sees = call.model == "helga" and not parsed.side
                return "it fails" if fails and sees else "it holds"
            case "percentages":
                words = zip(parsed.speakers, parsed.speeches, strict=True)
                return reward(call, [*words].count(("Helper", "it holds")) / 3)
        return f"for {parsed.side}" if parsed.task == "speak" else script_reward(call)

    for aux, expected in (("honest", 2 * (2 / 3) ** 2), ("adversarial", 0.0)):
        protocol = RecursiveRewardModelling(JUDGE, ALICE, HELGA, aux=aux)
        asd = await protocol.agent_score_difference(APPLES, Scripted(planted))
        assert asd == pytest.approx(expected)
        in_b = await protocol.run(CRATES, B, Scripted(planted))
        assert in_b.probs[1] == pytest.approx(1 / 3 if aux == "honest" else 1)


async def test_without_criteria_the_reward_model_reads_the_candidate_alone():
    def none(call: Call) -> str:
        return form(criteria=[]) if prompt(call).task == "criteria" else script_reward(call)

    verdict = await RecursiveRewardModelling(JUDGE, ALICE).run(CRATES, A, Scripted(none))
    assert len(verdict.transcript.turns) == 1 and verdict.probs == pytest.approx((0.75, 0.25))


async def test_candidate_with_a_silent_helper_does_not_win():
    def quiet(call: Call) -> str:
        words = script_reward(call)
        return "" if words.endswith("units of draw 1") else words

    protocol = RecursiveRewardModelling(JUDGE, ALICE, candidates=3)
    assert (await protocol.run(CRATES, A, Scripted(quiet))).probs == pytest.approx((0.5, 0.5))


async def test_other_answers_range_from_zero_to_the_rest_of_the_reward():
    """The known truth: a judge of labels gives A .5, and .2 to other tokens. A has .5 to .7, and
    each of the two others from 0 to everything that A leaves."""
    three = Question("?", tuple(Answer(label, label) for label in "ABC"))
    unread = Reply("A", logprobs=(token("A", 0.5, B=0.2, C=0.1, Perhaps=0.2),))

    def script(call: Call) -> str | Reply:
        if prompt(call).task == "criteria":
            return form(criteria=[])
        return unread if call.model == "judge" else "It is A."

    protocol = RecursiveRewardModelling(LogprobJudge("judge"), ALICE)
    spans = (await protocol.run(three, three.answers[0], Scripted(script))).spans
    assert [entry for span in spans for entry in span] == pytest.approx([0.5, 0.7, 0, 0.5, 0, 0.5])


async def test_a_flaw_that_shows_three_levels_down_is_found_at_that_depth_and_no_other():
    """The known truth: helpers see that B is wrong after a criterion has been narrowed twice, and
    above repeat the findings from below. At depth 3 the reward of B is 0 and Brier ASD 2. At 1 and
    2, where no criterion is narrow enough, B gets 1 as A does, and ASD is 0. Each level costs one
    more list of criteria and one more assessment."""

    def answer(call: Call) -> str:
        parsed = prompt(call)
        match parsed.task:
            case "criteria":
                level = int(parsed.speeches[0][-1]) if parsed.speeches else 0
                return form(criteria=[f"level {level + 1}"])
            case "assess":
                sees = parsed.speeches[0] == "for B" and parsed.speeches[-1] == "level 3"
                return "it fails" if sees or "it fails" in parsed.speeches else "it holds"
            case "percentages":
                return reward(call, float(parsed.speeches[-1] == "it holds"))
        return f"for {parsed.side}"

    for depth, expected in ((1, 0.0), (2, 0.0), (3, 2.0)):
        protocol = RecursiveRewardModelling(JUDGE, ALICE, candidates=1, depth=depth)
        assert await protocol.agent_score_difference(APPLES, Scripted(answer)) == expected
        ask = Scripted(answer)
        await protocol.run(CRATES, A, ask)
        tasks = [prompt(call).task for call in ask.calls]
        assert tasks.count("criteria") == tasks.count("assess") == depth
