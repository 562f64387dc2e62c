"""A judge that fills in a JSON form with one probability for each answer."""

from dataclasses import dataclass
from typing import ClassVar

import orjson

from ...cache.call import Ask, Call
from ..prompts.forms import probabilities_form, read_form
from ..question import Question
from ..transcript import Judgement
from .judge import Elicited, ModelJudge, Shown, as_probabilities
from .shots import Shot


@dataclass(frozen=True)
class DistributionJudge(ModelJudge):
    """Asks once for structured output, so that the provider enforces the format."""

    kind: ClassVar[str] = "distribution"

    def compose(self, shown: Shown) -> Call:
        form = probabilities_form(shown.options)
        return self.call(shown, "probabilities", "distribution", form)

    def put(self, question: Question, shot: Shot) -> str:
        stated = zip(question.answers, shot.probs, strict=True)
        return orjson.dumps({answer.label: prob for answer, prob in stated}).decode()

    async def elicit(self, shown: Shown, ask: Ask) -> Elicited:
        reply = await ask(self.compose(shown))
        filled = read_form(reply, probabilities_form(shown.options))
        stated = [filled.number(option.label) for option in shown.options.answers]
        return Elicited((Judgement(as_probabilities(stated, reply), reply.call, reply.text),))
