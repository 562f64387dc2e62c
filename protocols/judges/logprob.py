"""A judge whose probabilities are those of the tokens it was about to write."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply, Token
from oversight.protocols.errors import unreadable
from oversight.protocols.judges.judge import ModelJudge, Shown, normalised
from oversight.protocols.judges.shots import Shot, likeliest
from oversight.protocols.question import Question
from oversight.protocols.transcript import Judgement

_DECORATION = " \t\n()*\"'`.:▁Ġ"
"""What tokenizers and habits put around a label: ` A`, `(A`, `**A`."""


@dataclass(frozen=True)
class LogprobJudge(ModelJudge):
    """Asks for a label and reads the probability that each label had at its place.

    Variants of a label are summed, and the mass that all labels captured is reported: where it
    is low, the model was about to say something else. A label must be one token for this.
    """

    top_logprobs: int = 20
    """How many candidates to ask for; DeepSeek and OpenAI allow 20, some servers 5."""
    max_tokens: int = 8

    kind: ClassVar[str] = "logprob"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reason != "none":
            raise ValueError(
                f"reason: {self.reason} comes before the label, and so would be read for it; a "
                "judge that states probabilities can reason first"
            )

    def compose(self, shown: Shown) -> Call:
        asked = shown.asked("label", labels=" or ".join(shown.labels))
        return self.call(shown, "label", asked, top_logprobs=self.top_logprobs)

    def put(self, question: Question, shot: Shot) -> str:
        return likeliest(question, shot)

    async def elicit(self, shown: Shown, ask: Ask) -> tuple[Judgement, ...]:
        reply = await ask(self.compose(shown))
        masses = read_masses(reply, shown.case.options)
        # More than 1 can only be rounding on the provider's side.
        captured = min(sum(masses), 1.0)
        return (Judgement(normalised(masses, reply), reply.call, reply.text, captured),)


def read_masses(reply: Reply, question: Question) -> list[float]:
    """The probability mass of each answer's label where the reply gives its label, in question
    order; at the very first token if no token is a label.

    Unreadable if no label is among the candidates there, and if every label in the reply is a word
    of a sentence, as in "A careful reader would not say".
    """
    if reply.outcome == "refused" or not reply.logprobs:
        raise unreadable("the reply has no logprobs", reply)
    places = {answer.label: place for place, answer in enumerate(question.answers)}
    labels = [n for n, token in enumerate(reply.logprobs) if _bare(token.text) in places]
    alone = [n for n in labels if not _goes_on(reply.logprobs[n + 1 : n + 2])]
    if labels and not alone:
        raise unreadable("the labels in the reply are words of a sentence", reply)
    answer_token = reply.logprobs[alone[0] if alone else 0]
    # A provider may leave the token it chose out of the candidates it reports.
    candidates = dict(answer_token.top)
    candidates.setdefault(answer_token.text, answer_token.logprob)
    masses = [0.0] * len(places)
    for text, logprob in candidates.items():
        place = places.get(_bare(text))
        if place is not None:
            masses[place] += math.exp(min(logprob, 0.0))
    if not any(masses):
        raise unreadable("no answer label is among the likeliest tokens", reply)
    return masses


def _goes_on(following: Sequence[Token]) -> bool:
    """Whether the token after a label makes it a part of a word or of a sentence."""
    return any(_bare(token.text)[:1].isalpha() and "\n" not in token.text for token in following)


def _bare(token: str) -> str:
    return token.strip(_DECORATION)
