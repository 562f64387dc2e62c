"""Verdicts of a simulated judge: as percentages, probabilities, candidate tokens or a vote."""

import math
from collections.abc import Sequence
from functools import lru_cache

from ....cache.reply import Token
from .model import Chance, share

VARIANTS = (("{label}", 0.9), (" {label}", 0.07), ("({label}", 0.03))
"""(form, share): ways to write a label as one token, and their shares of its probability."""

NO_LABELS = ("The", "Both", "Neither", "It")
"""Candidate tokens other than labels."""

CAPTURED = 0.96
"""Total probability of all labels; the other tokens share the rest."""

MUDDLE = (
    "The speeches pull both ways, and this simulated judge would rather not be pinned down: "
    "there is much to be said on all sides."
)
"""An unreadable judgement, without number, label or form."""

REASONS = (
    "Step by step: the speeches put {gap:.2f} nats between ({first}) and ({second}), my own "
    "reading included."
)


def probabilities(nats: Sequence[float]) -> list[float]:
    """Softmax: probabilities of answers, from the log odds of each up to a constant."""
    most = max(nats)
    weights = [math.exp(each - most) for each in nats]
    total = sum(weights)
    return [weight / total for weight in weights]


def percentages(labels: Sequence[str], nats: Sequence[float]) -> str:
    """One line per answer; the rounding error is below 1e-8 of a probability."""
    stated = zip(labels, probabilities(nats), strict=True)
    return "\n".join(f"{label}: {100 * p:.6f}%" for label, p in stated)


def drawn(nats: Sequence[float], chance: Chance) -> int:
    """Index of a random answer, drawn by the probabilities of the answers."""
    left = share(chance.pick)
    for place, p in enumerate(probabilities(nats)):
        left -= p
        if left < 0:
            return place
    return len(nats) - 1


def vote(labels: Sequence[str], nats: Sequence[float], chance: Chance) -> str:
    """A short reasoning and the final line of a vote."""
    ranked = sorted(range(len(nats)), key=nats.__getitem__, reverse=True)
    first, second = ranked[:2]
    reasons = REASONS.format(
        gap=nats[first] - nats[second], first=labels[first], second=labels[second]
    )
    return f"{reasons}\n\nAnswer: {labels[drawn(nats, chance)]}"


def label_token(labels: tuple[str, ...], nats: Sequence[float], candidates: int) -> Token:
    """The most probable label as a token, with at most so many candidates, best first."""
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
    """(token, log share of its label's probability, index of the label) of each label token, and
    (token, logprob) of each stray.

    Variants of labels are used only if those of all labels fit, and strays only in the remaining
    room, so that the labels keep their exact relative probabilities.
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
    """A token other than a label, with candidates that are not labels either."""
    top = [(stray, math.log(1 / 2 ** (n + 1))) for n, stray in enumerate(NO_LABELS)]
    return Token(*top[0], tuple(top[:candidates]))
