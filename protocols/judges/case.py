"""The case put to a judge: which answer is right, or whether a statement holds."""

from functools import cache, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ..agents.agent import RolePrompt
from ..doubts import ProbabilityRange, UnreadReply, ranges_given
from ..prompts.prompt_set import default_prompts
from ..question import Answer, Question
from ..transcript import Judgement, NamedMeasures, Transcript, Verdict

AFFIRM, DENY = "Yes", "No"
"""The options where a statement is judged; one token each, for judges that read logprobs."""


class Case(Struct, frozen=True):
    """A transcript and what is asked about it. Every kind of judge decides every case."""

    transcript: Transcript
    prompt: RolePrompt | None = None
    """What the judge reads beside the transcript: the rules, and its part in them; None: no more
    than that it is a judge."""
    statement: str = ""
    """The statement to judge, in anybody's words; empty: the case is which answer is right."""
    side: Answer | None = None
    """The answer that the statement speaks for, for the record: no prompt says it."""

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
    """The readings behind it; each over (true, not true)."""
    span: ProbabilityRange | None = None
    """The least and the most that the value would be, whatever unread replies had said; None: all
    were read."""
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
        """The verdict that gives `side` this probability. p: the least and the most that it is,
        where that is not the belief itself."""
        question, (low, high) = transcript.question, p or self.ends
        unread = self.span is not None
        return Verdict(
            probs_of(low if p or unread else self.value, side, question),
            transcript,
            tuple(
                replace(each, probs=probs_of(each.probs[0], side, question))
                for each in self.judgements
            ),
            measures,
            bounds=ranges_given((low, high), question.place(side), len(question.answers))
            if unread
            else (),
            doubts=self.doubts,
        )


def probs_of(p: float, side: Answer, question: Question) -> tuple[float, ...]:
    """A verdict that gives `side` the probability p, and the others equal shares of the rest."""
    share = (1 - p) / (len(question.answers) - 1)
    return tuple(p if answer == side else share for answer in question.answers)


@lru_cache(maxsize=1024)
def _of_statement(statement: str) -> Question:
    return Question(statement, (Answer(AFFIRM, ""), Answer(DENY, "")))


@cache
def _judging() -> RolePrompt:
    words = default_prompts()
    return RolePrompt("Judge", words.text("judge.rules"), words.text("judge.role"))
