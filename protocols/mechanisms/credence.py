"""A credence: the one number from 0 to 1 that a reader states about what it was shown."""

from dataclasses import dataclass

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Brief, Speaker
from oversight.protocols.judges.case import probs_of
from oversight.protocols.prompts.forms import NUMBER, Filled, Form
from oversight.protocols.question import Answer, Question
from oversight.protocols.seat import Seat
from oversight.protocols.transcript import Judgement, Transcript


@dataclass(frozen=True, slots=True)
class Credence:
    value: float
    """In [0, 1]."""
    text: str
    """The reply, as the model wrote it."""
    call: str
    """Address of the call that it answers."""

    def of(self, side: Answer, question: Question) -> Judgement:
        """The credence read as the probability of `side`; the others share the rest alike."""
        return Judgement(probs_of(self.value, side, question), self.call, self.text)


async def credence(
    name: str, seat: tuple[Speaker, Answer | None, Brief], floor: Transcript, ask: Ask
) -> Credence:
    """What the seat states on this floor (a form). Unreadable if it is no number in [0, 1].

    name: of the form, and so the task as programs read it in the prompt.
    """

    def read(said: Filled) -> Credence:
        return Credence(said.number(name, 0, 1), said.reply.text, said.reply.call)

    return await Seat(*seat).fill(Form(name, {name: NUMBER}, read), floor, ask)
