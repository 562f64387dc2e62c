"""A judge whose probabilities are those of the label tokens in its reply."""

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import unreadable
from ..prompts.words import Words
from ..question import Question
from ..transcript import Judgement
from .judge import Elicited, ModelJudge, Shown, normalised
from .shots import Shot, likeliest

_DECORATION = " \t\n()*\"'`.:▁ĠĊ"
"""Characters that tokenizers and models put around a label: ` A`, `(A`, `**A`."""

_ANNOUNCED = re.compile(
    r"""[\s*"'`]*
    (?:(?:so|therefore|thus|hence),?\s+)?
    (?:the\s+|my\s+)?
    (?:(?:right|correct|true|best|final|likeliest)\s+)?
    (?:answer|label|verdict|statement|choice)
    (?:\s+that\s+is\s+(?:right|correct|true))?
    [*"'`]*
    (?::|\s+is\b:?|\s+would\s+be\b:?|\s*\n)
    [\s*"'`(]*""",
    re.IGNORECASE | re.VERBOSE,
)
"""Text that may precede the label of a verdict, such as `The answer is`."""

_A_WORD = re.compile(r"[^\S\n]*[-'\u2019]?[^\W\d_]")
"""Start of the text after a label that is part of a word or of a sentence."""


@dataclass(frozen=True)
class LogprobJudge(ModelJudge):
    """Asks for a label and reads the probability that each label had at its place.

    Variants of a label are summed, and the mass that all labels captured is reported. Below
    `oversight.protocols.doubts.MIN_CAPTURED_MASS` the rest of the mass is unread, and gives the
    verdict bounds. A label must be one token for this. A label that
    is a word is read in any case (`yes` for `Yes`); a single letter only as it is written, since
    `a` may begin a sentence.
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
        asked = shown.asked("label", labels=Words(" or ".join(shown.labels)))
        return self.call(shown, "label", asked, top_logprobs=self.top_logprobs, cue=True)

    def put(self, question: Question, shot: Shot) -> str:
        return likeliest(question, shot)

    async def elicit(self, shown: Shown, ask: Ask) -> Elicited:
        reply = await ask(self.compose(shown))
        masses = read_masses(reply, shown.case.options)
        # More than 1 can only be rounding on the provider's side.
        captured = min(sum(masses), 1.0)
        return Elicited((Judgement(normalised(masses, reply), reply.call, reply.text, captured),))


def read_masses(reply: Reply, question: Question) -> list[float]:
    """The probability mass of each answer's label at the place where the reply gives its verdict,
    in question order.

    That place is the reply's first content, or what follows `The answer is`. Unreadable if no label
    stands there. Weak models go on with what they read, and a label elsewhere is part of a name, as
    in `<turn speaker="Debater B">` or `You are Debater B`, or a word, as in "A careful reader
    would not say".
    """
    if reply.outcome == "refused" or not reply.logprobs:
        raise unreadable("the reply has no logprobs", reply)
    places = _vocabulary(question)
    answer_token = reply.logprobs[_verdict_place(reply, places)]
    # A provider may leave the token it chose out of the candidates it reports.
    candidates = dict(answer_token.top)
    candidates.setdefault(answer_token.text, answer_token.logprob)
    masses = [0.0] * len(question.answers)
    for text, logprob in candidates.items():
        place = places.get(_label(text))
        if place is not None:
            masses[place] += math.exp(min(logprob, 0.0))
    if not any(masses):
        raise unreadable("no answer label is among the likeliest tokens", reply)
    return masses


def _verdict_place(reply: Reply, labels: Container[str]) -> int:
    """Index of the token that is the reply's verdict. Unreadable if none is."""
    texts = [token.text for token in reply.logprobs]
    elsewhere = False
    for n, text in enumerate(texts):
        if _label(text) not in labels:
            continue
        before = _spaced(texts[:n])
        if _bare(before) and not _ANNOUNCED.fullmatch(before):
            elsewhere = True
        elif _A_WORD.match(_spaced(texts[n + 1 :])):
            raise unreadable("the label in the reply is a word of a sentence", reply)
        else:
            return n
    if elsewhere:
        raise unreadable("the reply names a label, but not as its verdict", reply)
    raise unreadable("the reply gives no label", reply)


def _vocabulary(question: Question) -> dict[str, int]:
    """Place of each answer, by its label as `_label` reads it; a label that differs from another by
    its case alone is read by none."""
    read = [_label(answer.label) for answer in question.answers]
    return {label: place for place, label in enumerate(read) if read.count(label) == 1}


def _label(token: str) -> str:
    """What a token says, in one case if it is a word."""
    bare = _bare(token)
    return bare.casefold() if len(bare) > 1 else bare


def _spaced(tokens: Sequence[str]) -> str:
    """Tokens as the text that they are, where a server writes their spaces as tokenizers do."""
    return "".join(tokens).replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")


def _bare(token: str) -> str:
    return token.strip(_DECORATION)
