"""Rewriting in one style: one model rewrites every worked solution, right and wrong alike.

Where people wrote the right solutions and models the wrong ones, a judge can tell them apart by
style. Here one model rewrites all of them, by one prompt that shows neither the question, nor the
label, nor the other answers; so that only their content can tell them apart.
"""

import re
from dataclasses import dataclass

from msgspec.structs import replace

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import Unreadable, unreadable
from ..gather import gather_in_order
from ..prompts.escape import escape_and_count, escape_tags
from ..prompts.forms import read_form, solution_form, texts_in
from ..prompts.render import Instructions
from ..prompts.words import Words
from ..question import Answer, Problem, Question
from .solution import laid_out, number, sense, steps
from .writer import Writer

TASK = (
    "Solutions by many hands are written down anew by one, so that their wording does not tell "
    "who wrote them. Some are right and some are wrong, which is as it should be."
)
REWRITE = (
    "Write this solution down anew, in plain words of your own: the same steps in the same order, "
    "one short sentence each, with the same numbers, and the same answer at the end. Correct "
    "nothing, add nothing, leave nothing out, and do not say whether it is right. Fill in the form."
)

_RESULT = re.compile(r"= (-?\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Rewriter(Writer):
    """The model that rewrites every answer."""

    temperature: float | None = 0.0

    async def rewrite(self, problem: Problem, ask: Ask) -> Problem:
        """The problem with every work rewritten; texts, labels and values stay.

        Unreadable if a rewritten solution has another answer, or lacks a result that it had, or if
        an answer has no work; Declined for a refusal.
        """
        question = problem.question
        answers = await gather_in_order(
            *(self._rewritten(answer, ask) for answer in question.answers)
        )
        question = Question(question.text, tuple(answers), question.passage)
        return replace(problem, question=question)

    def compose(self, answer: Answer) -> Call:
        """The call that rewrites one answer. It shows neither its label nor the question."""
        solution = f"<solution>\n{escape_tags(answer.work)}\n</solution>"
        form = solution_form("string" if number(answer.text) is None else "number")
        told = Instructions(form.name, Words(REWRITE)).text()
        return self.asked(f"{TASK}\n\n{solution}", told, form)

    async def _rewritten(self, answer: Answer, ask: Ask) -> Answer:
        if not answer.work:
            raise Unreadable(f"answer {answer.label} has no worked solution to rewrite", "")
        call = self.compose(answer)
        assert call.response_format
        reply = await ask(call)
        filled = read_form(reply, call.response_format)
        said = str(filled["answer"]).strip()
        if sense(said) != sense(answer.text):
            raise unreadable(f"{answer.text!r} was rewritten to come to {said[:40]!r}", reply)
        written = steps(
            "\n".join(escape_and_count(step)[0] for step in texts_in(filled, "steps", reply))
        )
        if not written:
            raise unreadable("the rewritten solution has no steps", reply)
        work = laid_out(written, answer.text)
        _require_results(answer.work, work, reply)
        return replace(answer, work=work)


def _require_results(work: str, rewritten: str, reply: Reply) -> None:
    """Unreadable if a number that the solution came to is gone: something was corrected."""
    numbers = {sense(text) for text in re.findall(r"-?\d+(?:\.\d+)?", rewritten)}
    for result in _RESULT.findall(work):
        if sense(result) not in numbers:
            raise unreadable(f"the result {result} is gone from the rewritten solution", reply)
