"""The leak gate: how often rules that never read the question find the best answer.

A judge may look able and only have noticed that the true answers are longer. So before any model
is asked, each rule of form picks the answer that has most of some outward feature; where the
picks beat chance, or fall short of it, by more than luck, the data set leaks its labels. What no
single rule says, a classifier of words and spellings may.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from oversight.protocols.datasets.solution import number
from oversight.protocols.question import Answer, Problem
from oversight.protocols.scoring.shares import wilson

Feature: TypeAlias = Callable[[Answer], float]
"""How much of something outward an answer has; its rule picks the answer that has the most."""

CONFIDENCE = 0.95
"""That an honest data set passes: the intervals of all rules hold together at this level."""
MATERIAL = 0.03
"""How far from chance a rule must be to matter, beside its interval: 3 points in 100."""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DOT_ZERO = re.compile(r"\d\.0+(?!\d)")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|cannot|\w+n['\u2019]t)\b", re.IGNORECASE
)


def _shown(answer: Answer) -> str:
    return f"{answer.text}\n{answer.work}" if answer.work else answer.text


def _starts_with_number(text: str) -> bool:
    return text.lstrip(" $€£(-.")[:1].isdecimal()


def _size(answer: Answer) -> float:
    value = number(answer.text)
    return -math.inf if value is None else float(value)


def _roundness(answer: Answer) -> float:
    """Zeros at the end of a whole number (1500 has 2); below 0 for any other answer."""
    value = number(answer.text)
    if value is None or value != value.to_integral_value():
        return -1
    digits = str(abs(int(value)))
    return len(digits) - len(digits.rstrip("0"))


FEATURES: dict[str, Feature] = {
    "longest answer": lambda answer: len(answer.text) + len(answer.work),
    "most lines": lambda answer: _shown(answer).count("\n"),
    "most sentences": lambda answer: len(_SENTENCE_END.findall(_shown(answer))),
    "most equations": lambda answer: _shown(answer).count("="),
    "most numbers": lambda answer: len(_NUMBER.findall(_shown(answer))),
    "starts with a number": lambda answer: _starts_with_number(answer.text),
    "work starts with a number": lambda answer: _starts_with_number(answer.work),
    "largest number": _size,
    "roundest number": _roundness,
    "has a .0": lambda answer: bool(_DOT_ZERO.search(_shown(answer))),
    "has a money sign": lambda answer: any(sign in _shown(answer) for sign in "$€£"),
    "most negations": lambda answer: len(_NEGATION.findall(_shown(answer))),
    "ends in a full stop": lambda answer: _shown(answer).endswith("."),
}
"""The rules of form by name, all but the one of position."""
POSITION = "first position"
WORDING = "wording (classifier)"
"""The rule of `form_classifier`, which is learned; it leaks only where it is above chance."""
RULES = len(FEATURES) + 2

MENDS: tuple[tuple[str, str], ...] = (
    (
        POSITION,
        "give the answers a seeded order: set `relabel: true` where the loader `file` reads them",
    ),
    (
        r"longest answer|most .*",
        "give both answers one length and layout, or offer several wrong ones and take those that "
        "balance the rules, as `gsm8k` does and `oversight dataset generate-wrong` does",
    ),
    (
        re.escape(WORDING),
        "have one hand write both answers: `oversight dataset generate-rewritten` sends them "
        "through one model",
    ),
    (
        r"largest number|roundest number",
        "let wrong numbers fall on both sides of the right one and be as round as it is",
    ),
    (r".*", "write the answers of all problems in one notation, the wrong ones as the right ones"),
)
"""(pattern of rules, what to do about a leak by them); the first that fits."""


@dataclass(frozen=True, slots=True)
class RuleAccuracy:
    """How often one rule picked the best answer."""

    rule: str
    applicable: int
    """Problems whose answers the rule tells apart; on all others it has the luck of a draw."""
    accuracy: float
    """Over the problems that it reads, in [0, 1]; a tie of k answers counts 1/k."""
    low: float
    high: float
    """The interval of `accuracy` (Wilson 1927); those of one gate hold together at CONFIDENCE."""
    chance: float
    """What picking blindly gives: 1/k for k answers, averaged over the problems."""

    @property
    def leaks(self) -> bool:
        """Whether the rule is materially off chance, either way, and by more than luck."""
        off = self.accuracy - self.chance
        # Only luck makes what was learned from other problems worse than chance.
        off = off if self.rule == WORDING else abs(off)
        return off > MATERIAL and not self.low <= self.chance <= self.high

    @property
    def mend(self) -> str:
        """What to do if it leaks."""
        return next(mend for rules, mend in MENDS if re.fullmatch(rules, self.rule))


@dataclass(frozen=True, slots=True)
class LeakGate:
    """What every rule of form makes of one data set."""

    problems: int
    rules: tuple[RuleAccuracy, ...]
    """By how far they are from chance, farthest first."""

    @property
    def leaks(self) -> tuple[RuleAccuracy, ...]:
        return tuple(rule for rule in self.rules if rule.leaks)

    @property
    def line(self) -> str:
        """One line for people: the rules at fault, or else the farthest from chance."""
        if self.leaks:
            named = "; ".join(_in_words(rule) for rule in self.leaks)
            return f"leak gate: {named}: the form of an answer tells whether it is true"
        return (
            "leak gate: no rule of form finds the true answers; farthest from chance: "
            f"{_in_words(self.rules[0])}; with n = {self.problems:,} a leak of up to "
            f"{self.unseen} points would pass"
        )

    @property
    def unseen(self) -> int:
        """Points in 100 off a chance of 1/2 up to which a rule that tells all answers apart is not
        found, as often as not."""
        found = partial(power, self.problems)
        return bisect_left(range(51), 1 / 2, key=lambda points: found(points / 100)) - 1


def leak_gate(problems: Iterable[Problem]) -> LeakGate:
    """Try every rule of form on the problems. ValueError if there are none.

    Two or more answers, any values: a pick is right if no answer has a higher value. Problems
    are taken as independent, also those that share a passage.
    """
    problems = tuple(problems)
    if not problems:
        raise ValueError("no problems: a leak gate needs at least one")
    level = 1 - (1 - CONFIDENCE) / RULES
    rules = [
        _measured(name, problems, [[*map(feature, p.question.answers)] for p in problems], level)
        for name, feature in FEATURES.items()
    ]
    places = [[float(-n) for n in range(len(p.values))] for p in problems]
    rules.append(_measured(POSITION, problems, places, level))
    rules.append(_learned(problems, level))
    rules.sort(key=lambda rule: -abs(rule.accuracy - rule.chance))
    return LeakGate(len(problems), tuple(rules))


def power(n: int, tell: float) -> float:
    """The probability that the gate finds a rule that tells all answers of n problems apart and is
    right about the better of two by `tell` more often than chance, 0 to 1/2."""
    level = 1 - (1 - CONFIDENCE) / RULES
    least = bisect_left(range(n + 1), True, key=lambda hits: _found(hits, n, level))
    p = 1 / 2 + tell
    return sum(_binomial(k, n, p) for k in range(least, n + 1))


def _found(hits: int, n: int, level: float) -> bool:
    return hits > (1 / 2 + MATERIAL) * n and wilson(hits / n, n, level)[0] > 1 / 2


def _binomial(k: int, n: int, p: float) -> float:
    """The probability of k hits of n; by logarithms, which do not overflow."""
    if p >= 1:
        return float(k == n)
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log(1 - p))


def _learned(problems: Sequence[Problem], level: float) -> RuleAccuracy:
    """The rule of wording, over the problems that the classifier reads; if it finds too few, it
    has the luck of a draw."""
    # Numbers are for this rule alone, and slow to import.
    from oversight.protocols.datasets.form_classifier import preferences

    found = preferences(problems) or [[0.0] * len(problem.values) for problem in problems]
    return _measured(WORDING, problems[: len(found)], found, level)


def _measured(
    name: str, problems: Sequence[Problem], features: Sequence[Sequence[float]], level: float
) -> RuleAccuracy:
    """features: for each problem, how much of it each answer has."""
    applicable, hits, blind, rest = 0, 0.0, 0.0, 0.0
    for problem, amounts in zip(problems, features, strict=True):
        best = [value == max(problem.values) for value in problem.values]
        luck = sum(best) / len(best)
        blind += luck
        if min(amounts) == max(amounts):
            rest += luck
            continue
        picked = [right for right, n in zip(best, amounts, strict=True) if n == max(amounts)]
        hits += sum(picked) / len(picked)
        applicable += 1
    # Where nothing was tried, nothing is known.
    low, high = wilson(hits / applicable, applicable, level) if applicable else (0.0, 1.0)
    total = len(problems)
    return RuleAccuracy(
        name,
        applicable,
        (hits + rest) / total,
        (low * applicable + rest) / total,
        (high * applicable + rest) / total,
        blind / total,
    )


def _in_words(rule: RuleAccuracy) -> str:
    return (
        f"{rule.rule}, {rule.accuracy:.0%} right ({rule.low:.0%} to {rule.high:.0%}; it applies to "
        f"{rule.applicable:,})"
    )
