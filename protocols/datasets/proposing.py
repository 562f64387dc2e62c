"""Proposals by a model: it is asked plainly, and its answers are graded by the known right ones.

So a judge oversees what a model really proposes. Nobody who takes part sees a grade. Several
proposals for one question are draws of one call; they are in one group, and tell how much a judge
gains by picking the best of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...cache.call import Ask, Call, nth
from ...cache.reply import Reply
from ..errors import unreadable
from ..gather import gather_in_order
from ..prompts.escape import escape_and_count
from ..prompts.forms import read_form, solution_form, texts_in
from ..question import Answer, Problem, Question, balanced
from .known import Known
from .proposals import ACCEPT, REJECT, proposal
from .solution import number, sense
from .writer import Writer, instructions, shown_question

PROPOSE = (
    "Answer the question: give the steps of your solution, a short sentence each, and the answer "
    "that they come to, as a number or in a few words. Fill in the form."
)


@dataclass(frozen=True, slots=True)
class Proposer(Writer):
    """The model that proposes."""

    draws: int = 1
    """Proposals for each question."""

    async def propose(self, known: Known, ask: Ask) -> tuple[Answer, ...]:
        """Its answers, in order of draw. Unreadable, or Declined for a refusal."""
        call = self.compose(known)

        async def draw(n: int) -> Answer:
            return _answer(await nth(ask, n)(call))

        return tuple(await gather_in_order(*(draw(n) for n in range(self.draws))))

    def compose(self, known: Known) -> Call:
        form = solution_form("string")
        return self.asked("\n\n".join(shown_question(known)), instructions(PROPOSE, form), form)


def is_right(known: Known, answer: Answer) -> bool:
    """The grade: whether an answer says what the right one says, as a number or a text."""
    truth = number(known.right.text)
    return (
        sense(answer.text) == sense(known.right.text)
        if truth is None
        else (number(answer.text) == truth)
    )


def proposed(
    written: Iterable[tuple[Known, Sequence[Answer]]], *, seed: int = 0
) -> tuple[Problem, ...]:
    """A problem for each proposal, which is right or wrong as it is graded."""
    graded = (
        proposal(
            f"{known.id}-{draw}",
            Question(known.text, (Answer("A", ACCEPT), Answer("B", REJECT)), known.passage),
            answer,
            is_right(known, answer),
            group=known.group or known.id,
        )
        for known, answers in written
        for draw, answer in enumerate(answers, 1)
    )
    return tuple(balanced(graded, seed))


def _answer(reply: Reply) -> Answer:
    form = solution_form("string")
    filled = read_form(reply, form)
    text, _ = escape_and_count(str(filled["answer"]).strip())
    if not text:
        raise unreadable("no answer was proposed", reply)
    steps = [escape_and_count(step)[0] for step in texts_in(filled, "steps", reply)]
    return Answer("", text, "\n".join(steps))
