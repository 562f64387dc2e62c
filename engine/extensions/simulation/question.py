"""A question parsed from a prompt, with its truth, which only simulated models know."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from ....protocols.prompts.parse import read_question, read_turns
from ....protocols.prompts.render import answer_body
from ....protocols.question import Problem
from ....protocols.tags import escape_tags
from ...errors import InvalidRequest
from .model import Chance, nats_summed
from .speech import SideCase, stated_strength


class GroundTruth:
    """True answers of some problems, looked up by the parts of them that a prompt shows.

    Several problems may share a question. Then the passage and the answers shown tell them apart.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._values: dict[str, list[tuple[str, dict[str, float]]]] = {}
        for problem in problems:
            bodies = map(answer_body, problem.question.answers)
            values = dict(zip(bodies, problem.values, strict=True))
            text, passage = map(escape_tags, (problem.question.text, problem.question.passage))
            self._values.setdefault(text, []).append((passage, values))

    def truth(self, text: str, bodies: Sequence[str], passage: str = "") -> int | None:
        """Index in `bodies`, the answers as shown, of the one with the highest value; of equals,
        the first in the problem. None if only the passage would tell, and it is not shown.

        Raises: InvalidRequest for an unknown question, or one with two different truths.
        """
        truths: dict[str, set[str]] = {}
        for of, values in self._values.get(text, ()):
            if bodies and all(body in values for body in bodies):
                best = max((known for known in values if known in bodies), key=values.__getitem__)
                truths.setdefault(of, set()).add(best)
        found = truths[passage] if passage in truths else set[str]().union(*truths.values())
        if len(found) == 1:
            return bodies.index(found.pop())
        if len(truths) > 1 and not passage:
            return None
        if found:
            raise InvalidRequest(
                f"the simulated world has {len(found)} truths about the question {text[:80]!r} "
                "with the same passage and answers; say in its text what tells the problems apart"
            )
        raise InvalidRequest(
            f"the simulated world knows nothing of the question {text[:80]!r} with the "
            f"{len(bodies)} answers shown; build it from the problems that are asked about"
        )


class ParsedQuestion:
    """One question as shown in prompts. Derived values are cached, since prompts repeat it."""

    def __init__(self, block: str, passage: str, world: GroundTruth) -> None:
        """block: from oversight.protocols.prompts.parse.find_question; empty without one.
        passage: as the reader is shown it; empty if it is not."""
        self.question, self._answers = read_question(block)
        self.labels = tuple(label for label, _ in self._answers)
        self.places = {label: place for place, label in enumerate(self.labels)}
        self._world, self._passage = world, passage

    @cached_property
    def truth(self) -> int | None:
        """Index of the true answer in presentation order; None if only a passage that is not shown
        would tell. InvalidRequest if it is unknown."""
        return self._world.truth(self.question, [body for _, body in self._answers], self._passage)

    @cached_property
    def cases(self) -> tuple[SideCase, ...]:
        """The case for each answer, with the next answer as its rival."""
        rivals = self._answers[1:] + self._answers[:1]
        return tuple(
            SideCase(self.question, answer, rival)
            for answer, rival in zip(self._answers, rivals, strict=True)
        )

    def belief(self, user: str, leaning: float) -> list[float]:
        """Log odds of each answer, up to a constant: `leaning` nats for the true one, plus the
        strengths stated by the speeches in a user message."""
        nats = [0.0] * len(self.labels)
        if self.truth is not None:
            nats[self.truth] = leaning
        for _, speech in read_turns(user):
            if (stated := stated_strength(speech)) and stated[0] in self.places:
                nats[self.places[stated[0]]] += stated[1]
        return [nats_summed(each) for each in nats]

    def argued_in(self, statement: str, user: str) -> int | None:
        """Place of the answer that a statement speaks for: the first that it names, as in `(A)`, or
        that of whoever spoke first, as `Prover A`; None if neither names one."""
        named = [each for each in _LABEL.findall(statement) if each in self.places]
        if not named:
            speakers = [speaker.rpartition(" ")[2] for speaker, _ in read_turns(user)[:1]]
            named = [each for each in speakers if each in self.places]
        return self.places[named[0]] if named else None

    def argued(self, user: str) -> str:
        """Label of the answer that the last speech argues for; empty if there is none."""
        stated = [stated_strength(speech) for _, speech in read_turns(user)[-1:]]
        return next((each[0] for each in stated if each and each[0] in self.places), "")

    def expression(self, chance: Chance) -> str:
        """An arithmetic expression with two numbers of the question."""
        a, b = (self._numbers[n % len(self._numbers)] for n in (chance.start, chance.stride))
        return f"{a} {'+-*/'[chance.pick % 4]} {b}"

    @cached_property
    def _numbers(self) -> list[str]:
        shown = [self.question, *(body for _, body in self._answers)]
        return _NUMBER.findall(" ".join(shown)) or ["1"]


_LABEL = re.compile(r"\(([^()]+)\)")
_NUMBER = re.compile(r"(?<![\w.])[1-9]\d{0,8}(?:\.\d{1,6})?(?![\w.])")
