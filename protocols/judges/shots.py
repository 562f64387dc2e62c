"""Few-shot examples: well-judged cases that a judge sees before the real one."""

import math
from collections.abc import Callable, Sequence
from typing import Self

from msgspec import Struct

from ..prompts.prompt_set import PromptSet
from ..prompts.render import Examples, question_block, turn_block
from ..question import Problem, Question
from ..transcript import Transcript


class Shot(Struct, frozen=True):
    """A transcript, and the probabilities that a good judge gives its answers."""

    floor: Transcript
    probs: tuple[float, ...]
    """One per answer in floor.question.answers, in order, summing to 1."""
    reasoning: str = ""
    """The reasoning that a judge who reasons openly writes first."""
    id: str = ""
    """Id of the problem, if any."""

    def __post_init__(self) -> None:
        answers = self.floor.question.answers
        if len(self.probs) != len(answers):
            raise ValueError(f"probs: {len(self.probs)} for {len(answers)} answers; give one each")
        if min(self.probs) < 0 or not math.isclose(sum(self.probs), 1, abs_tol=1e-6):
            raise ValueError(f"probs: {self.probs} are not probabilities; they must sum to 1")

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """The case of a problem, decided by its values: its best answers share the probability."""
        most = max(problem.values)
        best = [float(value == most) for value in problem.values]
        probs = tuple(one / sum(best) for one in best)
        return cls(Transcript(problem.question), probs, id=problem.id)


def as_examples(
    shots: Sequence[Shot],
    reply: Callable[[Question, Shot], str],
    words: PromptSet,
    reads_passage: bool,
) -> Examples:
    """The shots as a judge sees them. reply: the judge's wording of a shot."""
    cases = (_example(shot, reply, reads_passage) for shot in shots)
    turns = tuple(turn for shot in shots for turn in shot.floor.turns)
    return Examples("\n\n".join([words.text("judge.examples"), *cases]), turns)


def likeliest(question: Question, shot: Shot) -> str:
    """The label of the answer with the largest probability; the first if several tie."""
    return question.answers[shot.probs.index(max(shot.probs))].label


def _example(shot: Shot, reply: Callable[[Question, Shot], str], reads_passage: bool) -> str:
    question = shot.floor.question if reads_passage else shot.floor.question.without_passage()
    reply_block = f"<reply>\n{reply(question, shot)}\n</reply>"
    parts = [question_block(question), *map(turn_block, shot.floor.turns), reply_block]
    return "<example>\n" + "\n\n".join(parts) + "\n</example>"
