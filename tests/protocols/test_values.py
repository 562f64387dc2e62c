"""Questions, scores, counts, ranges and samples of votes; readings of models' and people's words
(`words.md`); refused settings (`refusals.md`)."""

import math
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from examples.wrong_answers import Generator
from oversight import protocols
from oversight.cache.call import Call
from oversight.cache.reply import UNKNOWN_STOP, Reply
from oversight.engine.run.sides import reads_as_refusal
from oversight.protocols import (
    ADVOCATE,
    TOOLS,
    Agent,
    Case,
    Judge,
    LogprobJudge,
    Protocol,
    StatedJudge,
)
from oversight.protocols.agents.tool import unspoken
from oversight.protocols.agents.tools import calculate
from oversight.protocols.counts import COUNTED, counted
from oversight.protocols.datasets.catalogue import loader
from oversight.protocols.datasets.checkers import Checker
from oversight.protocols.datasets.jsonl import bundled
from oversight.protocols.datasets.leak import FEATURES, leakage_check
from oversight.protocols.datasets.loader import proposals
from oversight.protocols.datasets.solution import closing, is_apart, number, number_text, steps
from oversight.protocols.doubts import choices, envelope, mean_ranges, ranges_given, shifted
from oversight.protocols.judges.case import Belief, likeliest
from oversight.protocols.judges.exchange import exchanged
from oversight.protocols.judges.judge import as_probabilities
from oversight.protocols.judges.windowed import Windowed
from oversight.protocols.mechanisms.cross_examination import statements
from oversight.protocols.mechanisms.debate_game import equilibrium
from oversight.protocols.mechanisms.doubly_efficient_debate import Sampling
from oversight.protocols.mechanisms.market_making import distance
from oversight.protocols.prompts.prompt_set import PromptSet, default_prompts
from oversight.protocols.prompts.render import (
    Instructions,
    find_question,
    read_instructions,
    read_rules,
)
from oversight.protocols.protocol import as_verdict
from oversight.protocols.question import Answer, Question, is_graded, labelled, randomness
from oversight.protocols.quotes import find_quotes, marked
from oversight.protocols.scores import (
    RANGES,
    SCORES,
    SOLIB_SCORES,
    accuracy,
    applicable,
    brier,
    check_probabilities,
    log,
    logodds,
)  # fmt: skip
from oversight.protocols.tags import escape_and_count, size_in_words
from oversight.protocols.transcript import Judgement, Quote, ToolUse, Transcript, Turn, Verdict
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, A, Scripted, prompt, token
from tests.protocols.agents.test_agents import used
from tests.protocols.drafting.test_drafting import check_side, finding
from tests.protocols.judges.test_judges import SHOT, judge, system
from tests.protocols.prompts.test_shown import PASSAGE, verified
from tests.protocols.test_seat import FORM, SEAT
from tests.sessions import sessions
from tests.tables import PUBLIC, expressions

STEP = '<step n="1">ls</step>'
SCORES_FILE = Path(__file__).with_name("scores.md")
THREE, FOUR = (Question("?", tuple(Answer(text, text) for text in "ABCD"[:n])) for n in (3, 4))


def test_labels_depend_on_seed_and_id_alone_and_do_not_tell_the_truth():
    answers = [("48", "the work", 1.0), ("36", "", -1.0)]
    assert len({labelled("p", "?", answers, seed=seed).best for seed in range(20)}) == 2
    problems = [labelled(f"p{n}", "How many?", answers) for n in range(400)]
    assert all(problem.question.answers[problem.best].text == "48" for problem in problems)
    assert 160 <= sum(problem.best for problem in problems) <= 240


def verdicts(answers: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[float, ...]]:
    """Verdicts with small integer weights, so that ties and certainties occur."""
    weights = answers.flatmap(lambda k: st.lists(st.integers(0, 6), min_size=k, max_size=k))
    return weights.filter(any).map(lambda row: tuple(weight / sum(row) for weight in row))


def told(score: Callable[..., float]) -> Callable[..., list[str]]:
    return lambda *inputs, **settings: [f"{score(*inputs, **settings):.12g}"]


@sessions(SCORES_FILE)
def test_a_verdict_scores_what_is_written_down(session, request):
    names = {name: told(score) for name, score in SCORES.items()}
    session.check(request, expressions(names | {"solib": told(SOLIB_SCORES["accuracy"])}))


@given(verdicts(st.integers(2, 5)))
def test_scores_keep_to_their_ranges_and_accuracies_of_all_answers_sum_to_one(probs):
    for place in range(len(probs)):
        assert math.log(1e-4) <= log(probs, place) <= math.log(1 - 1e-4)
        assert -2 <= brier(probs, place) <= 0 and 0 <= accuracy(probs, place) <= 1
    assert sum(accuracy(probs, place) for place in range(len(probs))) == pytest.approx(1)


@given(verdicts(st.just(2)))
def test_log_odds_are_opposite_for_the_two_answers(probs):
    assert logodds(probs, 0) == -logodds(probs, 1)
    assert abs(logodds(probs, 0)) <= math.log(9999) + 1e-9


@given(verdicts(st.integers(2, 4)), st.integers(0, 3))
def test_brier_and_log_are_proper(truth, shift):
    """A judge who believes `truth` expects the best score by stating it, not a rotation of it."""
    other = truth[shift % len(truth) :] + truth[: shift % len(truth)]
    for score in (brier, log):
        honest = sum(p * score(truth, place) for place, p in enumerate(truth))
        assert honest >= sum(p * score(other, place) for place, p in enumerate(truth)) - 1e-9


QUOTES = (Quote("four crates", True), Quote("six", False), Quote("nine", False), Quote("…", None))


def verdict(*turns: Turn) -> Verdict:
    return Verdict((0.5, 0.5), Transcript(CRATES, turns))


def test_every_irregularity_is_counted():
    clean = Turn("Advocate A", "It is 48.")
    assert counted(verdict(clean)) == counted(verdict()) == {}
    judged = Judgement.read(Reply("A: 70%", stop_reason=f"{UNKNOWN_STOP}because"), (0.7, 0.3))
    assert counted(replace(verdict(clean), judgements=(judged,))) == {"unknown_stop": 1}
    turns = (
        Turn("A", "No.", outcome="refused"), Turn("A", "", outcome="empty"), clean,
        Turn("B", "It is", outcome="truncated", forged=2, cut=True), Turn("B", "", check="unclear"),
        Turn("A", "I\u200b do.", hidden=1, malformed=2, check="candid"),
        Turn("B", "", outcome="truncated"),
        Turn("A", "I concede.", conceded=True, check="off side", retries=2),
        Turn("A", "The user wants me to win.", musing=True, unknown_stop=True),
        Turn("B", "Two quotes.", quotes=QUOTES, check="on side", retries=1),
        Turn("A", "1", tools=(ToolUse("calculator", "1", "1"), ToolUse("none", "", "error: x"))),
    )  # fmt: skip
    counts = counted(verdict(*turns))
    assert counts == {
        "refused": 1, "truncated": 2, "thinking": 1, "empty": 3, "forged": 2, "hidden": 1,
        "unknown_stop": 1, "musing": 1, "malformed": 2, "cut": 1, "verified": 1, "unverified": 2,
        "tool_calls": 2, "failed_tools": 1, "off_side": 1, "candid": 1, "unclear_side": 1,
        "retries": 3, "conceded": 1,
    }  # fmt: skip
    assert list(counts) == list(COUNTED) and {*map(type, counts.values())} == {int}
    for change in (
        {"forged": 1}, {"hidden": 1}, {"cut": True}, {"text": ""}, {"outcome": "refused"},
        {"retries": 1}, {"conceded": True}, {"check": "candid"}, {"quotes": QUOTES},
        {"musing": True}, {"unknown_stop": True}, {"malformed": 1},
    ):  # fmt: skip
        assert counted(verdict(clean, replace(clean, **change))), change


TENTH = st.integers(0, 10).map(lambda n: n / 10)
SPAN = st.one_of(
    TENTH.map(lambda p: (p, p)), st.tuples(TENTH, TENTH).map(lambda ends: (min(ends), max(ends)))
)
SPANS = st.lists(SPAN, min_size=1, max_size=5)


@given(SPANS, st.integers(1, 4))
def test_every_choice_that_ratings_allow_is_found(spans, most):
    """The known truth: for all ratings within their ranges, here at either end, the highest ones,
    the first of equals, are among the choices. If all are exact they are the only choice, each in
    its original order."""
    chosen = choices(spans, most)
    for ratings in product(*spans):
        best = sorted(range(len(spans)), key=lambda n: (-ratings[n], n))[:most]
        assert tuple(sorted(best)) in chosen
        assert len(chosen) == 1 or any(low != high for low, high in spans)


@given(SPANS)
def test_mean_ranges_and_envelopes_are_tight(spans):
    """The known truth: the mean of numbers within ranges lies between the means of their ends, and
    an envelope ends where one of its rows does."""
    rows, share = [(span,) for span in spans], [1 / len(spans)] * len(spans)
    ((low, high),) = mean_ranges(rows, share)
    means = [sum(ratings) / len(spans) for ratings in product(*spans)]
    assert abs(min(means) - low) < 1e-9 and abs(max(means) - high) < 1e-9
    assert envelope(rows) == ((min(low for low, _ in spans), max(high for _, high in spans)),)


@given(SPAN, st.integers(2, 4), st.integers(0, 3))
def test_other_answers_share_the_rest(span, answers, place):
    """The known truth: probabilities sum to 1, so with p on one answer another has from 0 to the
    rest, or with two answers exactly the rest. Shifted probabilities keep the others' ratios."""
    place %= answers
    low, high = span
    bounds = ranges_given(span, place, answers)
    assert bounds[place] == span
    for n, ends in enumerate(bounds):
        assert n == place or ends == (1 - high if answers == 2 else 0.0, 1 - low)
    probs = [(n + 1) / (answers * (answers + 1) / 2) for n in range(answers)]
    moved = shifted(probs, place, low)
    assert moved[place] == low and abs(sum(moved) - 1) < 1e-9
    one, other = next(n for n in range(answers) if n != place), (place - 1) % answers
    assert abs(moved[one] * probs[other] - moved[other] * probs[one]) < 1e-9
    certain = shifted([float(n == place) for n in range(answers)], place, low)
    assert all(
        n == place or abs(p - (1 - low) / (answers - 1)) < 1e-9 for n, p in enumerate(certain)
    )


def off_by_chance(sampling: Sampling, claimed_p: float, true: float) -> float:
    """The exact probability that a stated probability fails: votes are binomial."""
    m = sampling.votes
    return sum(
        math.comb(m, k) * true**k * (1 - true) ** (m - k)
        for k in range(m + 1)
        if not sampling.passes(claimed_p, k / m)
    )


@pytest.mark.parametrize("true", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_near_statements_pass_and_far_ones_fail_with_high_probability(true):
    """The known truth: with this many votes, each true with the true probability, a near statement
    fails with probability at most `failure`, and a far one stands with at most that; summed over
    all counts of votes."""
    sampling = Sampling(0.05, 0.35, 0.1)
    for way in (-1, 1):
        if 0 <= (near := true + way * sampling.close) <= 1:
            assert off_by_chance(sampling, near, true) <= sampling.failure
        if 0 <= (far_value := true + way * sampling.far) <= 1:
            assert off_by_chance(sampling, far_value, true) >= 1 - sampling.failure


LONG = "<quote>one two</quote> <quote>three</quote> <quote>" + "word " * 50 + "word</quote>"
WORDS_FILE = Path(__file__).with_name("words.md")


def heard(words_said: str, scratchpad: bool = True, **settings: Any) -> str:
    """The text that others hear of it if the speaker may think in private."""
    speaker = Agent("alice", scratchpad=scratchpad, **settings)
    return speaker.read(Reply(words_said), (), A, ADVOCATE).text


def conceded(words_said: str) -> bool:
    return Agent("alice").read(Reply(words_said), (), A, ADVOCATE).conceded


def said_in(speech: str) -> list[str]:
    return [repr(statement.text) for statement in statements(speech)]


def relabelled(words_said: str) -> str:
    """The speech of Debater A after A and B are exchanged."""
    case = exchanged(Case(Transcript(CRATES, (Turn("Debater A", words_said, A),))))
    (turn,) = case.transcript.turns
    return f"{turn.speaker}, for {turn.side and turn.side.text}: {turn.text}"


async def filled(reply: str) -> tuple[float, int, str, str]:
    return await SEAT.fill(FORM, Transcript(CRATES), Scripted(lambda call: reply))


def wished(arguments: str, name: str = "calculator", inputs: tuple[str, ...] = tuple(TOOLS)) -> str:
    chosen = used(arguments, name, inputs)
    return f"{chosen.tool}: {chosen.arguments} = {chosen.result}"


async def checked(chosen: list[str]) -> tuple[str, str, int]:
    turn = await check_side(finding(*chosen))
    return turn.text, turn.check, turn.retries


async def example(kind: str) -> str:
    sections = await system(judge(kind, shots=(SHOT,)))
    return sections.partition("<reply>\n")[2].partition("\n</reply>\n</example>")[0]


def believed(p: float, span: object = None, ends: object = None) -> tuple[object, object]:
    """The verdict on the second of three answers, and its bounds."""
    verdict = Belief(p, span=span).verdict(THREE.answers[1], Transcript(THREE), (), ends)
    return verdict.probs, verdict.bounds


def scaled(*numbers: float, scale: float | None = 100) -> tuple[float, ...]:
    return as_probabilities(numbers, Reply(""), scale)


def exchanged_three(text: str) -> list[str]:
    """The answers, and a turn that says and thinks a text, after three answers are exchanged."""
    turn = Turn("Debater A", text, THREE.answers[0], reasoning=text)
    other = exchanged(Case(Transcript(THREE, (turn,)))).transcript
    (turn,) = other.turns
    answers = " ".join(f"{answer.label}={answer.text}" for answer in other.question.answers)
    return [answers, f"{turn.speaker}, {turn.side.text}: {turn.text}, {turn.reasoning}"]


def fits(room: float, *steps: str) -> None:
    """Nothing, if windows of these steps fit."""
    passage = "\n".join(f'<step n="{n}">{step}</step>' for n, step in enumerate(steps))
    windows(1, passage, room)


def windows(
    steps: int, passage: str = STEP, room: float = math.inf, reads_passage: bool = True, **more: Any
) -> None:
    judge = Windowed(
        StatedJudge("m", reads_passage=reads_passage), steps, **{"positive": "A"} | more
    )
    judge.check(replace(THREE, passage=passage), room)


async def graded(column: object, answer: str, **settings: Any) -> str:
    checker = Checker(**{"kind": "exact"} | settings)
    return str(await checker.grade(answer, checker.truth(column), {}))


def reply_of(call: Call) -> str | Reply:
    """The reply of a judge, whose model says how it judges; `Hm.` is unread."""
    first, drawn = 'label="A">\n48' in prompt(call).system, call.draw == (1,)
    zero = "\nC: 0%" * ('label="C"' in prompt(call).system)
    return {
        "ann": "A: 80%\nB: 20%" + zero, "ben": "A: 60%\nB: 40%", "cat": "Hm.",
        "votes": "Hm." if drawn else "Answer: Yes" if "No" in prompt(call).user else "Answer: A",
        "mass": Reply("A", logprobs=(token("A", 0.4, B=0.1, The=0.5),)),
        # In the other order, in which 36 is (A), the only vote is for 36, or nothing is stated.
        "order": "Answer: A" if first or call.draw == (0,) else "Hm.",
        "once": "A: 80%\nB: 20%" if first else "Hm.",
        "drawn": "Hm." if drawn else "A: 90%\nB: 10%" if call.draw else "A: 60%\nB: 40%",
    }[call.model]  # fmt: skip


async def judged(judge: Judge, three: bool = False, statement: str = "") -> list[object]:
    """The probability of A, its bounds, the number of unread replies, and all draws and redraws."""
    ask, heard_by = Scripted(reply_of), Transcript(THREE if three else CRATES)
    if statement:
        belief = await judge.believes(statement, heard_by, ask)
        return [f"{belief.value:g}, {belief.ends}, {len(belief.doubts)}"]
    verdict = await judge.judge(heard_by, ask)
    assert sum(verdict.probs) == pytest.approx(1)
    numbers = verdict.probs[0], *verdict.bounds[0], len(verdict.doubts)
    redraws = [p for p, _ in verdict.redraws]
    drawn = [f"{redraws} in {[call.draw for call in ask.calls]}"] * bool(redraws)
    return [", ".join(f"{number:.6g}" for number in numbers), *drawn]


def swapped(speeches: str, at_once: bool = True) -> str:
    """Speakers and words after an exchange of the labels; each word begins with its speaker."""
    sides = dict(zip("AB", CRATES.answers, strict=True))
    turns = [
        Turn(f"Debater {name}", text, sides[name], at_once=at_once) if name in sides
        else Turn("Critic", text, sides["A"])
        for name, text in speeches.split()
    ]  # fmt: skip
    other = exchanged(Case(Transcript(CRATES, tuple(turns)))).transcript.turns
    return " ".join(f"{turn.speaker[-1]}{turn.text}" for turn in other)


async def believing(word: str, p: float, **others: float) -> list[float]:
    """The belief in a statement of a judge whose label has these probabilities."""
    ask = Scripted(lambda call: Reply(word, logprobs=(token(word, p, **others),)))
    belief = await LogprobJudge("judge").believes("It holds.", Transcript(CRATES), ask)
    return [round(belief.value, 9)]


async def played(protocol: Protocol, side: int) -> tuple[float, ...]:
    """The probability of A in the world of an answer, and its bounds."""
    verdict = await protocol.run(CRATES, CRATES.answers[side], Scripted(reply_of))
    return verdict.probs[0], *verdict.bounds[0]


def features(name: str, more: Answer, less: Answer) -> str:
    return f"{FEATURES[name](more):g} > {FEATURES[name](less):g}"


NAMES = PUBLIC | {
    kind.__name__: kind
    for kind in (
        verified, heard, conceded, said_in, relabelled, filled, calculate, closing, number, steps,
        escape_and_count, is_graded, find_quotes, marked, Quote, loader, wished, checked,
        features, example, Reply, believed, scaled, exchanged_three, fits, as_verdict, likeliest,
        applicable, check_probabilities, is_apart, number_text, Decimal,
        graded, judged, played, size_in_words, unspoken, ToolUse, Turn, distance, equilibrium,
        find_question, read_instructions, read_rules, statements, randomness, Sampling, PromptSet,
        reads_as_refusal, believing, swapped,
    )
}  # fmt: skip


@sessions(WORDS_FILE)
def test_words_are_read_as_intended(session, request):
    more = {"PASSAGE": PASSAGE, "ALICE": ALICE, "JUDGE": JUDGE, "SHOT": SHOT, "LONG": LONG}
    more |= {name.upper(): StatedJudge(name) for name in ("ann", "ben", "cat")}
    more |= {"THREE": THREE, "RANGES": RANGES, "CRATES": CRATES, "DEFAULT": default_prompts()}
    more |= {"SOLIB_SCORES": SOLIB_SCORES}
    session.check(request, expressions(NAMES | more))


REFUSALS_FILE = Path(__file__).with_name("refusals.md")


def made(kind: type[Protocol], **settings: object) -> Protocol:
    agent = {"agent": ALICE} if "agent" in {field.name for field in fields(kind)} else {}
    return kind(**{"judge": JUDGE} | agent | settings)


REFUSERS = PUBLIC | {
    "ALICE": ALICE, "APPLES": APPLES, "CRATES": CRATES, "JUDGE": JUDGE, "THREE": THREE,
    "FOUR": FOUR, "DEFAULT": default_prompts(), "Instructions": Instructions, "nan": math.nan,
    "THREE_JUDGES": tuple(map(StatedJudge, ("ann", "ben", "cat"))), "inf": math.inf, "made": made,
    "windows": windows,
    "SHOT": protocols.Shot(protocols.Transcript(CRATES), (0.25, 0.75)), "loader": loader,
    "Generator": Generator, "bundled": bundled, "proposals": proposals, "replace": replace,
    "leakage_check": leakage_check, "Sampling": Sampling, "logodds": logodds,
}  # fmt: skip


@sessions(REFUSALS_FILE)
def test_bad_settings_are_refused_with_a_fix(session, request):
    session.check(request, expressions(REFUSERS))
    sections = session.text.split("\n$ ")[1:]
    assert sections and all("Error: " in entry.partition("\n")[2] for entry in sections)
