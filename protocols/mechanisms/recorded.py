"""Conversations that were held elsewhere, judged again."""

from dataclasses import dataclass

from ...cache.call import Ask
from ..errors import NotRun
from ..held import DiscussedQuestion
from ..protocol import Conversation
from ..question import Answer, Question
from ..settings import ranged
from ..tags import escape_and_count
from ..transcript import Transcript, Turn


@dataclass(frozen=True)
class Recorded(Conversation):
    """What was said in a published experiment, before a judge of ours; no agent is asked.

    World a: the judge reads the recorded conversation on the question. Where every answer was
    argued, its verdict counts in every world. Where one was, it counts in that one, and the others
    were not run: neither failed nor missing.
    Shared: everything.
    """

    setting: str = ""
    """Of the experiment, such as `human debate`; conversations of others are not run. Empty: all
    of them."""
    rounds: int = ranged(0, least=0)
    """After how many rounds the judge decides; 0: after all. A conversation that was shorter counts
    as it ended."""

    @property
    def name(self) -> str:
        told = f" after {self.rounds}" if self.rounds else ""
        return f"recorded {self.setting}".rstrip() + told

    def check(self, question: Question) -> None:
        super().check(question)
        if not isinstance(question, DiscussedQuestion):
            raise ValueError(
                f"{self.name} needs conversations that were held: problems: {{study: FOLDER}}"
            )

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        question = transcript.question
        held = question.held if isinstance(question, DiscussedQuestion) else None
        if held is None:
            return transcript  # nothing was said: a sweep of such questions is refused
        if self.setting not in ("", held.setting):
            raise NotRun("the conversation on it was held in another setting")
        if held.argued not in ("", side.label):
            raise NotRun(f"({held.argued}) alone was argued for in this conversation")
        sides = {answer.label: answer for answer in question.answers}
        for said in held.until(self.rounds):
            text, forged = escape_and_count(said.text)
            transcript = transcript.then(
                Turn(said.speaker, text, sides.get(said.side), forged=forged, quotes=said.quotes)
            )
        return transcript
