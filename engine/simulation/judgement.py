"""How a simulated judge puts its belief: in percentages, a form, candidate tokens or a vote."""

import math
from collections.abc import Sequence
from functools import lru_cache

from oversight.cache.reply import Token
from oversight.engine.simulation.chance import Chance, share

VARIANTS = (("{label}", 0.9), (" {label}", 0.07), ("({label}", 0.03))
"""Ways to write a label as one token, and how a judge's belief in it is split among them."""

NO_LABELS = ("The", "Both", "Neither", "It")
"""Tokens that are no label."""

CAPTURED = 0.96
"""Probability that all labels have together; the strays share the rest."""

MUDDLE = (
    "The speeches pull both ways, and this simulated judge would rather not be pinned down: "
    "there is much to be said on all sides."
)
"""A judgement that nobody can read: no number, no label, no form."""

REASONS = (
    "Step by step: the speeches put {gap:.2f} nats between ({first}) and ({second}), my own "
    "reading included."
)


def probabilities(nats: Sequence[float]) -> list[float]:
    """A probability for each log odds, adding up to 1."""
    most = max(nats)
    weights = [math.exp(each - most) for each in nats]
    total = sum(weights)
    return [weight / total for weight in weights]


def percentages(labels: Sequence[str], nats: Sequence[float]) -> str:
    """One line an answer, with decimals enough that rounding is below 1e-8 of a probability."""
    stated = zip(labels, probabilities(nats), strict=True)
    return "\n".join(f"{label}: {100 * p:.6f}%" for label, p in stated)


def drawn(nats: Sequence[float], chance: Chance) -> int:
    """A place, each as likely as it is believed to be right."""
    left = share(chance.pick)
    for place, p in enumerate(probabilities(nats)):
        left -= p
        if left < 0:
            return place
    return len(nats) - 1


def vote(labels: Sequence[str], nats: Sequence[float], chance: Chance) -> str:
    """A little reasoning and the line that a vote ends with."""
    ranked = sorted(range(len(nats)), key=nats.__getitem__, reverse=True)
    first, second = ranked[:2]
    reasons = REASONS.format(
        gap=nats[first] - nats[second], first=labels[first], second=labels[second]
    )
    return f"{reasons}\n\nAnswer: {labels[drawn(nats, chance)]}"


def label_token(labels: tuple[str, ...], nats: Sequence[float], candidates: int) -> Token:
    """The likeliest label as a token, with so many candidates at most, best first."""
    most = max(nats)
    total = most + math.log(sum(math.exp(each - most) for each in nats))
    forms, strays = _candidates(labels, candidates)
    top = [(text, portion + nats[place] - total) for text, portion, place in forms]
    said = top[nats.index(most) * (len(forms) // len(labels))]
    top += strays
    top.sort(key=lambda candidate: -candidate[1])
    return Token(*said, tuple(top[:candidates]))


@lru_cache(256)
def _candidates(
    labels: tuple[str, ...], candidates: int
) -> tuple[tuple[tuple[str, float, int], ...], tuple[tuple[str, float], ...]]:
    """(token, logarithm of its share of a label's probability, the label's place), and the strays
    with their logprobs.

    Variants of labels appear only where there is room for those of all labels, and strays only
    where there is room left, so that the shares of the labels among themselves come out exactly.
    """
    variants = VARIANTS if candidates >= len(VARIANTS) * len(labels) else (("{label}", 1.0),)
    forms = tuple(
        (form.format(label=label), math.log(CAPTURED * portion), place)
        for place, label in enumerate(labels)
        for form, portion in variants
    )
    room = max(candidates - len(forms), 0)
    strays = tuple((stray, math.log((1 - CAPTURED) / len(NO_LABELS))) for stray in NO_LABELS)
    return forms, strays[:room]


def stray_token(candidates: int) -> Token:
    """A token that is no label, among others that are none either."""
    top = [(stray, math.log(1 / 2 ** (n + 1))) for n, stray in enumerate(NO_LABELS)]
    return Token(*top[0], tuple(top[:candidates]))
