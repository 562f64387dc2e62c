"""Wrong answers chosen so that no outward feature gives the right ones away."""

from collections.abc import Sequence

from ..question import Answer
from .leak import FEATURES


class Balance:
    """How far the answers chosen so far lean, for each rule of the leakage check.

    Chooses the wrong answer that minimises the sum of the squared leans. A choice depends only on
    those before it, so more problems leave it as it is. The features are then near chance by
    construction, which says nothing about subtler ones.
    """

    def __init__(self) -> None:
        self._lean = [0] * len(FEATURES)

    def choose(self, right: Answer, wrong: Sequence[Answer]) -> Answer:
        """The most balancing of `wrong`, which is not empty; ties go to the first."""
        amounts = [feature(right) for feature in FEATURES.values()]
        leans = [self._then(amounts, answer) for answer in wrong]
        best = min(range(len(wrong)), key=lambda n: sum(lean * lean for lean in leans[n]))
        self._lean = leans[best]
        return wrong[best]

    def _then(self, amounts: Sequence[float], wrong: Answer) -> list[int]:
        """The leans with one more problem: +1 where the right answer has more, -1 where less."""
        return [
            lean + (amount > other) - (amount < other)
            for lean, amount, other in zip(
                self._lean, amounts, (feature(wrong) for feature in FEATURES.values()), strict=True
            )
        ]
