"""The case put to a judge, and the few-shot examples that it sees before.

A case asks for the right answer, or for the probability of a statement."""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from ..agents.agent import RolePrompt
from ..doubts import ProbabilityRange, UnreadReply, ranges_given
from ..prompts.prompt_set import PromptSet, default_prompts
from ..prompts.render import Examples, question_block, turn_block
from ..question import Answer, Problem, Question
from ..transcript import Judgement, NamedMeasures, Transcript, Verdict

AFFIRM, DENY = "Yes", "No"
"""The options for a statement. Each is one token, for judges that read logprobs."""


class Case(Struct, frozen=True):
    """A transcript and a question about it. Every kind of judge can decide every case."""

    transcript: Transcript
    prompt: RolePrompt | None = None
    """The rules and the judge's role. None: a plain judge."""
    statement: str = ""
    """The statement to judge, possibly in a model's words. Empty: choose the right answer."""
    side: Answer | None = None
    """The answer that the statement supports. It is recorded, but not part of the prompt."""

    @property
    def options(self) -> Question:
        """The options to choose from, as the answers of a question."""
        return _of_statement(self.statement) if self.statement else self.transcript.question

    @property
    def judge_prompt(self) -> RolePrompt:
        return self.prompt or _judging()

    def without_passage(self) -> "Case":
        if not self.transcript.question.passage:
            return self
        question = self.transcript.question.without_passage()
        return replace(self, transcript=replace(self.transcript, question=question))


class Belief(Struct, frozen=True):
    """A judge's probability that a statement holds."""

    value: float
    """In [0, 1]."""
    judgements: tuple[Judgement, ...] = ()
    """The judgements it is based on, each over (true, not true)."""
    span: ProbabilityRange | None = None
    """Lowest and highest possible value if replies are unread. None: all were read."""
    doubts: tuple[UnreadReply, ...] = ()
    """The unread replies."""

    @property
    def ends(self) -> ProbabilityRange:
        return self.span or (self.value, self.value)

    def verdict(
        self,
        side: Answer,
        transcript: Transcript,
        measures: NamedMeasures,
        p: ProbabilityRange | None = None,
    ) -> Verdict:
        """The verdict that gives `side` this probability. p: its lowest and highest value, if it
        is not the belief itself."""
        question, (low, high) = transcript.question, p or self.ends
        unread = self.span is not None
        return Verdict(
            probs_of(low if p or unread else self.value, side, question),
            transcript,
            tuple(
                replace(judgement, probs=probs_of(judgement.probs[0], side, question))
                for judgement in self.judgements
            ),
            measures,
            bounds=ranges_given((low, high), question.place(side), len(question.answers))
            if unread
            else (),
            doubts=self.doubts,
        )


def probs_of(p: float, side: Answer, question: Question) -> tuple[float, ...]:
    """A verdict that gives `side` the probability p, and the others equal parts of the rest."""
    share = (1 - p) / (len(question.answers) - 1)
    return tuple(p if answer == side else share for answer in question.answers)


@lru_cache(maxsize=1024)
def _of_statement(statement: str) -> Question:
    return Question(statement, (Answer(AFFIRM, ""), Answer(DENY, "")))


@cache
def _judging() -> RolePrompt:
    words = default_prompts()
    return RolePrompt("Judge", words.text("judge.rules"), words.text("judge.role"))


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
