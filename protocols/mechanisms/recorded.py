"""Recorded conversations, judged again."""

from dataclasses import dataclass

from ...cache.call import Ask
from ..errors import NotRun
from ..held import DiscussedQuestion
from ..protocol import Conversation
from ..question import Answer, Question
from ..settings import CountFromZero
from ..tags import escape_and_count
from ..transcript import Transcript, Turn


@dataclass(frozen=True)
class Recorded(Conversation):
    """A conversation from a published experiment, before one of our judges. No agent is asked.

    World a: the judge reads the recorded conversation on the question. If every answer was argued
    for, its verdict counts in every world. If only one was, it counts in that world, and the others
    were not run: neither failed nor missing.
    Shared: everything.
    """

    setting: str = ""
    """The setting of the experiment, such as `human debate`. Conversations of other settings are
    not run. Empty: all are."""
    rounds: CountFromZero = 0
    """Number of rounds after which the judge decides. 0: all. A shorter conversation is judged at
    its end."""

    @property
    def name(self) -> str:
        rounds = f" after {self.rounds}" if self.rounds else ""
        return f"recorded {self.setting}".rstrip() + rounds

    def check(self, question: Question) -> None:
        super().check(question)
        if not isinstance(question, DiscussedQuestion):
            raise ValueError(
                f"{self.name} needs recorded conversations: problems: {{study: FOLDER}}"
            )

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        question = transcript.question
        conversation = question.held if isinstance(question, DiscussedQuestion) else None
        if conversation is None:
            return transcript  # empty; sweeps of such questions are refused
        if self.setting not in ("", conversation.setting):
            raise NotRun("the conversation about it was held in another setting")
        if conversation.argued not in ("", side.label):
            raise NotRun(f"({conversation.argued}) alone was argued for in this conversation")
        sides = {answer.label: answer for answer in question.answers}
        for turn in conversation.until(self.rounds):
            text, forged = escape_and_count(turn.text)
            transcript = transcript.then(
                Turn(turn.speaker, text, sides.get(turn.side), forged=forged, quotes=turn.quotes)
            )
        return transcript
