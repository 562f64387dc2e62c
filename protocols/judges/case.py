"""The case put to a judge: choose the right answer, or judge a statement."""

from functools import cache, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ..agents.agent import RolePrompt
from ..doubts import ProbabilityRange, UnreadReply, ranges_given
from ..prompts.prompt_set import default_prompts
from ..question import Answer, Question
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
