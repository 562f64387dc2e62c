"""Wrong answers chosen so that no outward feature gives the right ones away."""

from collections.abc import Sequence

from ..question import Answer
from .leak import FEATURES


class Balance:
    """How far the answers chosen so far lean, for each rule of the leakage check.

    Chooses the pair that minimises the sum of the squared leans. A choice depends only on
    those before it, so more problems leave it as it is. The features are then near chance by
    construction, which says nothing about subtler ones.
    """

    def __init__(self) -> None:
        self._lean = [0] * len(FEATURES)

    def choose(self, pairs: Sequence[tuple[Answer, Answer]]) -> int:
        """The place of the most balancing (right, wrong), which are not empty; ties go to the
        first."""
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
