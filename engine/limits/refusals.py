"""Models that refuse whatever they are asked: a grid of such calls is not worth running."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import AllRefused, BadCall
from engine.limits.latch import Latch

ENOUGH = 20
"""Refusals for one reason, before any reply, after which nothing else is expected."""


class Refusals:
    """Pulls the latch when the first calls of a model are refused for good, all for one reason.

    A model that has replied once, or gives several reasons, is not watched any more: what it
    refuses lies in the calls then.
    """

    def __init__(self, latch: Latch) -> None:
        self._latch = latch
        self._said: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By model, the reasons of its refusals, figures left out."""
        self._passed: set[str] = set()
        """Models that are not watched any more."""

    @contextmanager
    def watched(self, model: str) -> Iterator[None]:
        """Note how a call to the model ends."""
        try:
            yield
        except BadCall as refusal:
            # Calls that are too long, or too big, say so of themselves and not of the model.
            if type(refusal) is BadCall and model not in self._passed:
                self._refused(model, str(refusal))
            raise
        self._passed.add(model)

    def _refused(self, model: str, reason: str) -> None:
        said = self._said[model]
        said[re.sub(r"\d+", "…", reason)] += 1
        if len(said) > 1:
            self._passed.add(model)
        elif said.total() >= ENOUGH:
            self._latch.pull(
                AllRefused(f"{model}: its first {said.total()} calls were all refused: {reason}")
            )
