"""Dimensionless measures of verdicts: flips, and differences between seats."""

import math
from dataclasses import dataclass

from .arrays import Floats, Places
from .estimate import Ends, Estimate
from .inference import means

SMALL_EFFECT = 0.2
"""Standardised difference above which the effort of two sides is flagged (Cohen 1988: small)."""


@dataclass(frozen=True, slots=True)
class Flips:
    """Changes of correctness between the judge alone and under a protocol; shares of questions."""

    right_right: float
    right_wrong: float
    """Right alone, wrong under the protocol."""
    wrong_right: float
    wrong_wrong: float

    @property
    def misled(self) -> float | None:
        """P(wrong after | right alone); None if it was never right alone."""
        right = self.right_right + self.right_wrong
        return self.right_wrong / right if right else None

    @property
    def corrected(self) -> float | None:
        """P(right after | wrong alone); None if it was never wrong alone."""
        wrong = self.wrong_right + self.wrong_wrong
        return self.wrong_right / wrong if wrong else None


def flips(alone: Floats, after: Floats) -> Flips:
    """Flips from each question's accuracy, alone and after; a tie of k answers counts 1 / k.

    Several draws of a question are treated as independent between alone and after.
    """
    return Flips(
        float((alone * after).mean()),
        float((alone * (1 - after)).mean()),
        float(((1 - alone) * after).mean()),
        float(((1 - alone) * (1 - after)).mean()),
    )


@dataclass(frozen=True, slots=True)
class Apart:
    """A difference between two halves of the cells: by seat, label, first speaker, side."""

    estimate: Estimate
    standardised: float
    """Estimate in pooled standard deviations of one cell."""

    @property
    def flagged(self) -> bool:
        return abs(self.standardised) > SMALL_EFFECT


def apart(first: Floats, second: Floats, of: Places, ends: Ends | None = None) -> Apart:
    """Mean of first minus second over pairs: the same question with the seats swapped, or its truth
    and lie worlds. of: the cluster of each pair. ends: of the difference."""
    figure = means([(first - second).tolist()], of, [ends])[0]
    deviation = math.sqrt((float(first.var()) + float(second.var())) / 2)
    return Apart(figure, figure.value / deviation if deviation else 0.0)
