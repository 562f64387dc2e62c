"""What is true where simulated models live. Prompts never say it; these models know it."""

from collections.abc import Iterable, Sequence

from oversight.engine.errors import InvalidRequest
from oversight.protocols.prompts.escape import escape_tags
from oversight.protocols.prompts.render import answer_body
from oversight.protocols.question import Problem


class GroundTruth:
    """The truth about every question of some problems, found by what a prompt shows of it.

    Several problems may put one question with other answers; those shown decide which is meant.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._values: dict[str, list[dict[str, float]]] = {}
        for problem in problems:
            bodies = map(answer_body, problem.question.answers)
            values = dict(zip(bodies, problem.values, strict=True))
            text = escape_tags(problem.question.text)
            self._values.setdefault(text, []).append(values)

    def __len__(self) -> int:
        """How many different questions it knows."""
        return len(self._values)

    def truth(self, text: str, bodies: Sequence[str]) -> int:
        """Place in `bodies`, the answers as shown, of the most valuable; of equals, of the one
        that the problem names first.

        InvalidRequest where the world knows no such question, or knows two truths about it.
        """
        truths = {
            max((known for known in values if known in bodies), key=values.__getitem__)
            for values in self._values.get(text, ())
            if bodies and all(body in values for body in bodies)
        }
        if len(truths) == 1:
            return bodies.index(truths.pop())
        if truths:
            raise InvalidRequest(
                f"the simulated world has {len(truths)} truths about the question {text[:80]!r} "
                "with the same answers; say in its text what tells the problems apart"
            )
        raise InvalidRequest(
            f"the simulated world knows nothing of the question {text[:80]!r} with the "
            f"{len(bodies)} answers shown; build it from the problems that are asked about "
            f"(it has {len(self)} questions)"
        )
