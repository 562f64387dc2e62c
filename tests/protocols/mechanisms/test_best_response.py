"""The best liar against an exact estimator and an exact judge of steps. It loses everywhere, and
wins if any one rule is missing.

The search tries every split of a claim of a formal domain and every pick, or every list of
statements that the prover may commit to and every challenge, lists that are too long included. See
tests/formal.py and tests/best_response.py."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any

import pytest

from oversight.cache.call import Call
from oversight.protocols import Answer, DoublyEfficientDebate, ProverEstimatorDebate, Transcript
from oversight.protocols.mechanisms import prover_estimator_debate
from oversight.protocols.mechanisms.prover_estimator_debate import established
from oversight.protocols.prompts.prompt_set import default_prompts
from tests.best_response import (
    CAP,
    EACH_DOMAIN,
    JUDGE,
    OTHER,
    PROVER,
    Moves,
    as_claim,
    asd,
    assigned,
    cut_silently,
    judged,
    lies_lose,
    lies_win,
    listed,
    places,
    speeches,
    task,
    verdict,
)  # fmt: skip
from tests.fakes import form, held
from tests.formal import Instance, instances

WORDS = default_prompts()
FOLLOWS = re.escape(WORDS.text("prover_estimator_debate.follows"))
LINK = re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.*?)", FOLLOWS))
"""Matches the mechanism's statement that a claim follows."""
_NUMBER = re.compile(r" ?\(\d+\) ")


def splitting(instance: Instance, most: int = CAP + 1, splits: int = 1) -> Moves:
    """Every move of a prover: its splits into at most `parts` parts, in any order, and its picks.
    The last pick has one direction, since its direction does not change the verdict."""
    built = [
        form(subclaims=parts, needed=needed, at_least=1)
        for n in range(1, most + 1)
        for parts in combinations(instance.statements, n)
        for needed in (("all", "any") if n > 1 else ("all",))
    ]

    def moves(call: Call) -> list[str] | None:
        match task(call):
            case "subclaims":
                return built
            case "pick":
                count, claim = len(listed(call, -2)), speeches(call)[0]
                last = splits == 1 or as_claim(claim) == claim
                return [
                    form(subclaim=n, truth_is=way)
                    for n in range(1, count + 1)
                    for way in (("higher",) if last else ("higher", "lower"))
                ]
        return None

    return moves


class Exact:
    """An estimator and a judge who know the truth of every claim, and an honest prover. Claims that
    a claim follows are recognised by their wording."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.known = {text: text in instance.true for text in instance.statements}
        for place, answer in enumerate(instance.question.answers):
            claim = f"The right answer is ({answer.label}) {answer.text}."
            self.known[claim] = place == instance.truth

    def __call__(self, call: Call) -> str:
        match task(call):
            case "subclaims":
                # The previous step. The first one has none, and is not split.
                sound = (*self.instance.sound, f"answer {self.instance.right.label}")
                before = sound[: sound.index(as_claim(speeches(call)[0]))]
                return form(subclaims=before[-1:], needed="all", at_least=1)
            case "pick":
                return form(subclaim=1, truth_is="higher")
            case "estimate":
                return form(probability=float(self._true(speeches(call)[0])))
            case "statement":
                return held(float(self._true(judged(call))))
        raise AssertionError(call)

    def _true(self, text: str) -> bool:
        speech = text.removeprefix("It is not the case that: ")
        if speech != text:
            return not self._true(speech)
        if text in self.known:
            return self.known[text]
        if not (link := LINK.fullmatch(text)):
            return False  # meaningless alone
        parts, needed = _NUMBER.split(link["subclaims"])[1:], link["needed"]
        count = len(parts) if needed == "all" else int(needed.rpartition(" ")[2])
        return self._follows(link["claim"], parts, count)

    def _follows(self, claim: str, parts: list[str], needed: int) -> bool:
        bare = as_claim(claim)
        if bare in self.instance.statements or bare != claim:
            return self.instance.implied(bare, parts, needed)
        # A link or an opposite follows from these if it is true, or if they do not hold.
        return self._true(claim) or sum(map(self._true, parts)) < needed


async def prover_estimator(
    protocol: ProverEstimatorDebate, instance: Instance, *, forgetful: bool = False
) -> tuple[float, int]:
    """ASD with the best liar and the honest prover, and the number of plays.

    forgetful: the rest of a play depends only on its current call, which holds for one split whose
    last entry says how many are needed."""
    ask = Exact(instance)
    honest, _ = await verdict(protocol, instance, instance.right, lambda call: None, ask)
    moves = splitting(instance, protocol.subclaims + (protocol.depth == 1), protocol.depth)
    lied, plays = await verdict(protocol, instance, instance.wrong, moves, ask, forgetful=forgetful)
    return asd(honest, lied), plays


@EACH_DOMAIN
@pytest.mark.campaign
async def test_no_split_carries_a_lie_past_an_exact_estimator(campaign, domain):
    """The known truth: in sums, formulas and paths through a graph, with an estimator and a judge
    who know the truth of each statement and of each split, every split of the wrong answer and
    every pick leave it at 0, and the correct split leaves the right answer at 1. ASD is 2 (Brier)
    in every instance."""
    protocol = ProverEstimatorDebate(JUDGE, PROVER, OTHER, subclaims=CAP, depth=1)
    tried = instances(domain, campaign.size(8, 500), campaign.seed)
    await lies_lose(domain, tried, partial(prover_estimator, protocol, forgetful=True))


@EACH_DOMAIN
@pytest.mark.campaign
async def test_no_split_of_a_split_carries_a_lie_either(campaign, domain):
    """The known truth: as above, over two splits into single parts, with claims, links, and
    opposites."""
    protocol = ProverEstimatorDebate(JUDGE, PROVER, OTHER, subclaims=1, depth=2)
    tried = instances(domain, campaign.size(2, 50), campaign.seed)
    await lies_lose(f"{domain}, two splits", tried, partial(prover_estimator, protocol))


def whatever_follows(estimates: tuple[float, ...], needed: int) -> float:
    """The check that the claim follows is missing."""
    return established((*estimates[:-1], 1.0), needed)


def any_will_do(estimates: tuple[float, ...], needed: int) -> float:
    """The combination differs from the one that the prover stated and the estimator read."""
    return established(estimates, 1)


def of_those_left(estimates: tuple[float, ...], needed: int) -> float:
    """In a list that was cut, at most the remaining subclaims are needed."""
    return established(estimates, min(needed, len(estimates) - 1))


def as_the_case_against(estimate: float, opposite: float) -> float:
    """A failed case against a claim makes it certain."""
    return 1 - opposite


@EACH_DOMAIN
@pytest.mark.parametrize("rule", ["it follows", "whole list", "as stated", "only lowered"])
@pytest.mark.campaign
async def test_without_a_rule_of_splits_the_search_finds_lies(campaign, domain, rule, monkeypatch):
    protocol = ProverEstimatorDebate(JUDGE, PROVER, OTHER, subclaims=CAP, depth=1)
    match rule:
        case "it follows":
            monkeypatch.setattr(prover_estimator_debate, "established", whatever_follows)
        case "whole list":
            cut_silently(monkeypatch)
            monkeypatch.setattr(prover_estimator_debate, "established", of_those_left)
        case "as stated":
            monkeypatch.setattr(prover_estimator_debate, "established", any_will_do)
        case "only lowered":
            monkeypatch.setattr(prover_estimator_debate, "lowered", as_the_case_against)
            protocol = replace(protocol, subclaims=1, depth=2)
    await lies_win(campaign, domain, rule, partial(prover_estimator, protocol))


def listing(instance: Instance, cap: int = CAP) -> Moves:
    """Every list that a prover can commit to, at most one too long. Lists that are too long twice
    are not read, so one of them is enough."""
    moves = [
        form(steps=item)
        for n in range(1, cap + 2)
        for item in product(instance.statements, repeat=n)
    ]
    again = moves[: 1 - len(instance.statements) ** (cap + 1)]

    def made(call: Call) -> list[str] | None:
        if task(call) != "steps":
            return None
        return again if "That is more than" in call.messages[-1].text else moves

    return made


def challenging(call: Call) -> list[str] | None:
    """Every move of an opponent."""
    return [form(step=n) for n in places(call)] if task(call) == "step" else None


def exact(instance: Instance) -> Callable[[Call], str]:
    """An opponent who points at the first step that does not follow if its prompt says to oppose
    the answer, and otherwise passes or points at the last valid step; a judge who is right about
    the step that it sees; and a prover with the correct argument where none is searched for."""

    def answer(call: Call) -> str:
        match task(call):
            case "steps":
                return form(steps=instance.sound)
            case "step":
                steps, numbers = listed(call), places(call)
                opposed = steps[-1] != f"answer {assigned(call)}" and call.model == OTHER.model
                options = [n for n in numbers if n and opposed != holds(steps[:n])]
                if not opposed or not options:
                    return form(step=numbers[0] and (options or numbers)[-1])
                return form(step=options[0])
            case "statement":
                return held(float(holds(listed(call))))
        raise AssertionError(call)

    sayable = {*instance.statements, *map(instance.claims, instance.question.answers)}

    def holds(steps: list[str]) -> bool:
        return steps[-1] in sayable and instance.rule(steps[-1], frozenset(steps[:-1]))

    return answer


async def doubly_efficient(
    protocol: DoublyEfficientDebate, instance: Instance
) -> tuple[float, int]:
    """ASD with the best liar, and with the honest prover against every challenge; and the plays."""
    others = exact(instance)
    true, tried = await verdict(
        protocol, instance, instance.right, challenging, others, against=True
    )
    lists = listing(instance)
    lied, played = await verdict(protocol, instance, instance.wrong, lists, others, forgetful=True)
    return asd(true, lied), tried + played


@EACH_DOMAIN
@pytest.mark.parametrize("opponent_is", ["honest", "adversarial"])
@pytest.mark.campaign
async def test_no_list_of_steps_carries_a_lie_past_an_exact_judge(campaign, domain, opponent_is):
    """The known truth: in sums, formulas and paths through a graph, of which the judge checks one
    step at a time exactly, every list of statements for the wrong answer fails, and the correct one
    for the right answer stands against every challenge. ASD is 2 (Brier) in every instance."""
    protocol = DoublyEfficientDebate(JUDGE, PROVER, OTHER, opponent_is=opponent_is, steps=CAP)
    # The opponents differ only if every step follows, which is never true of a lie.
    count = campaign.size(8, 500 if opponent_is == "honest" else 170)
    tried = instances(domain, count, campaign.seed)
    await lies_lose(f"{domain}, {opponent_is} opponent", tried, partial(doubly_efficient, protocol))


class NoConclusion(DoublyEfficientDebate):
    """The argument has only the prover's steps, and need not end in its claim."""

    async def _commit(self, transcript: Transcript, side: Answer, ask: Any) -> Any:
        built = await super()._commit(transcript, side, ask)
        assert built is not None
        return replace(built, entries=built.entries[:-1])


class ShownAlone(DoublyEfficientDebate):
    """The judge sees the challenged step without the steps that it depends on."""

    async def _check(self, question: Any, steps: Any, side: Answer, ask: Any) -> Any:
        return await super()._check(question, steps[-1:], side, ask)


@EACH_DOMAIN
@pytest.mark.parametrize("rule", ["conclusion", "whole list", "steps before"])
@pytest.mark.campaign
async def test_without_a_rule_of_steps_the_search_finds_a_liar(campaign, domain, rule, monkeypatch):
    kind = {"conclusion": NoConclusion, "steps before": ShownAlone}.get(rule, DoublyEfficientDebate)
    if rule == "whole list":
        cut_silently(monkeypatch)
    protocol = kind(JUDGE, PROVER, OTHER, steps=CAP)
    await lies_win(campaign, domain, rule, partial(doubly_efficient, protocol))
