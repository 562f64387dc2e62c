"""The leakage check: how often rules that never read the question find the best answer.

A judge may look capable and only have noticed that the true answers are longer. So before any
model is asked, each rule of form picks the answer with the most of some outward feature; where its
picks beat chance, or fall short of it, by more than luck, the data set leaks its labels. Leaks by
wording alone are not found. `Balance` chooses wrong answers without such leaks."""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import TypeAlias

from ..question import Answer, Problem
from .solution import number

Feature: TypeAlias = Callable[[Answer], float]
"""Amount of an outward feature in an answer; its rule picks the answer with the most."""

CONFIDENCE = 0.95
"""Probability that an honest data set passes: the joint level of all rules' intervals."""
MATERIAL = 0.03
"""Minimum distance from chance that matters, in addition to the interval: 3 percentage points."""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DOT_ZERO = re.compile(r"\d\.0+(?!\d)")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_NEGATION = re.compile(
    r"\b(?:no(?:t|ne|thing|body)?|never|cannot)\b|\wn['\u2019]t\b", re.IGNORECASE
)


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
    "most lines": lambda answer: answer.whole.count("\n"),
    "most sentences": lambda answer: len(_SENTENCE_END.findall(answer.whole)),
    "most equations": lambda answer: answer.whole.count("="),
    "most numbers": lambda answer: len(_NUMBER.findall(answer.whole)),
    "starts with a number": lambda answer: _starts_with_number(answer.text),
    "work starts with a number": lambda answer: _starts_with_number(answer.work),
    "largest number": _size,
    "roundest number": _roundness,
    "has a .0": lambda answer: bool(_DOT_ZERO.search(answer.whole)),
    "has a money sign": lambda answer: any(sign in answer.whole for sign in "$€£"),
    "most negations": lambda answer: len(_NEGATION.findall(answer.whole)),
    "ends in a full stop": lambda answer: answer.whole.endswith("."),
}
"""The rules of form by name, all but the one of position."""
POSITION = "first position"
RULES = len(FEATURES) + 1

REMEDIES: tuple[tuple[str, str], ...] = (
    (
        POSITION,
        "set `relabel: true` where the loader `file` reads them: each label is right as often",
    ),
    (
        r"longest answer|most .*",
        "have wrong answers written at the length of the right ones: `oversight dataset "
        "propose FILE --repeats 4` takes pairs that balance the rules",
    ),
    (
        r"largest number|roundest number",
        "let wrong numbers fall on both sides of the right one and be as round as it is",
    ),
    (r".*", "write the answers of all problems in one notation, the wrong ones as the right ones"),
)
"""(pattern of rule names, remedy for a leak by them); the first match counts."""


@dataclass(frozen=True, slots=True)
class RuleAccuracy:
    """How often one rule picked the best answer."""

    rule: str
    applicable: int
    """Problems whose answers the rule tells apart; on all others it picks at random."""
    accuracy: float
    """Over the problems that it reads, in [0, 1]; a tie of k answers counts 1/k."""
    low: float
    high: float
    """The interval of `accuracy` (Wilson 1927); all of one gate hold together at CONFIDENCE."""
    chance: float
    """Accuracy of blind picks: 1/k for k answers, averaged over the problems."""

    @property
    def leaks(self) -> bool:
        """Whether the rule is materially off chance, either way, and by more than luck."""
        off = abs(self.accuracy - self.chance)
        return off > MATERIAL and not self.low <= self.chance <= self.high

    @property
    def remedy(self) -> str:
        """The fix if it leaks."""
        return next(remedy for rules, remedy in REMEDIES if re.fullmatch(rules, self.rule))


@dataclass(frozen=True, slots=True)
class LeakageCheck:
    """The accuracy of every rule of form on one data set."""

    problems: int
    rules: tuple[RuleAccuracy, ...]
    """By distance from chance, farthest first."""

    @property
    def leaks(self) -> tuple[RuleAccuracy, ...]:
        return tuple(rule for rule in self.rules if rule.leaks)

    @property
    def line(self) -> str:
        """One line for people: the rules at fault, or else the farthest from chance."""
        if self.leaks:
            rules = "; ".join(_in_words(rule) for rule in self.leaks)
            return f"label leakage: content-blind rules tell the right answer: {rules} problems"
        return (
            f"No label leak found. Most suspicious rule: {_in_words(self.rules[0])} of "
            f"{self.problems:,} problem{'s' * (self.problems != 1)}. Leaks below {self.unseen} "
            "points may go undetected"
        )

    @property
    def unseen(self) -> int:
        """Percentage points off a chance of 1/2 up to which the gate misses, as often as not, a
        rule that tells all answers apart."""
        detected = partial(power, self.problems)
        return bisect_left(range(51), 1 / 2, key=lambda points: detected(points / 100)) - 1


def leakage_check(problems: Iterable[Problem]) -> LeakageCheck:
    """Try every rule of form on the problems. ValueError without problems. Two or more answers, any
    values: a pick is right if no answer has a higher value. Problems are taken as independent, also
    those that share a passage."""
    problems = tuple(problems)
    if not problems:
        raise ValueError("no problems: a leakage check needs at least one")
    level = 1 - (1 - CONFIDENCE) / RULES
    rules = [
        _measured(name, problems, [[*map(feature, p.question.answers)] for p in problems], level)
        for name, feature in FEATURES.items()
    ]
    positions = [[float(-n) for n in range(len(p.values))] for p in problems]
    rules.append(_measured(POSITION, problems, positions, level))
    rules.sort(key=lambda rule: -abs(rule.accuracy - rule.chance))
    return LeakageCheck(len(problems), tuple(rules))


class Balance:
    """How far the answers chosen so far lean, for each rule of the leakage check.

    Chooses the pair that minimises the sum of the squared leans. A choice depends only on
    those before it, so more problems leave it as it is. The features are then near chance by
    construction, which says nothing about subtler ones."""

    def __init__(self) -> None:
        self._lean = [0] * len(FEATURES)

    def choose(self, pairs: Sequence[tuple[Answer, Answer]]) -> int:
        """The place of the most balancing (right, wrong), not empty; ties go to the first."""
        leans = [self._then(*pair) for pair in pairs]
        best = min(range(len(pairs)), key=lambda n: sum(lean * lean for lean in leans[n]))
        self._lean = leans[best]
        return best

    def _then(self, right: Answer, wrong: Answer) -> list[int]:
        """The leans with one more problem: +1 where the right answer has more, -1 where less."""
        return [
            lean + ((amount := feature(right)) > (other := feature(wrong))) - (amount < other)
            for lean, feature in zip(self._lean, FEATURES.values(), strict=True)
        ]


def power(n: int, tell: float) -> float:
    """Probability that the gate finds a rule that tells all answers of n problems apart and picks
    the better of two with probability 1/2 + `tell`; tell in [0, 1/2]."""
    level = 1 - (1 - CONFIDENCE) / RULES
    least = bisect_left(range(n + 1), True, key=lambda hits: _found(hits, n, level))
    p = 1 / 2 + tell
    return sum(_binomial(k, n, p) for k in range(least, n + 1))


def _found(hits: int, n: int, level: float) -> bool:
    return hits > (1 / 2 + MATERIAL) * n and wilson(hits / n, n, level)[0] > 1 / 2


def wilson(share: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Interval of a share of n trials (Wilson 1927, JASA 22); n may be an effective number. Within
    [0, 1], contains the share, and has positive width even at 0 and 1. ValueError for a share
    outside [0, 1], or n <= 0."""
    if not (0 <= share <= 1 and n > 0):
        raise ValueError(f"a share of {share} in {n} trials")
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Rounding must not leave the share itself outside.
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def _binomial(k: int, n: int, p: float) -> float:
    """The probability of k hits of n; by logarithms, which do not overflow."""
    if p >= 1:
        return float(k == n)
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log(1 - p))


def _measured(
    name: str, problems: Sequence[Problem], features: Sequence[Sequence[float]], level: float
) -> RuleAccuracy:
    """Accuracy of one rule. features: for each problem, the amount in each answer."""
    applicable, hits, blind, tied = 0, 0.0, 0.0, 0.0
    for problem, amounts in zip(problems, features, strict=True):
        highest, most = max(problem.values), max(amounts)
        best = [value == highest for value in problem.values]
        luck = sum(best) / len(best)
        blind += luck
        if min(amounts) == most:
            tied += luck
            continue
        picked = [right for right, n in zip(best, amounts, strict=True) if n == most]
        hits += sum(picked) / len(picked)
        applicable += 1
    # A rule that applies to no problem has the widest interval.
    low, high = wilson(hits / applicable, applicable, level) if applicable else (0.0, 1.0)
    total = len(problems)
    return RuleAccuracy(
        name,
        applicable,
        (hits + tied) / total,
        (low * applicable + tied) / total,
        (high * applicable + tied) / total,
        blind / total,
    )


def _in_words(rule: RuleAccuracy) -> str:
    interval = f"[{100 * rule.low:.0f}, {100 * rule.high:.0f}]"
    return f"'{rule.rule}' right in {rule.accuracy:.0%} {interval} on {rule.applicable:,}"
