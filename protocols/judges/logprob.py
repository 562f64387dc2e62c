"""A judge whose probabilities are those of the label tokens in its reply."""

import math
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import unreadable
from ..prompts.statements import AROUND
from ..prompts.words import Words
from ..question import Question
from ..settings import ranged
from ..transcript import Judgement
from .judge import Elicitation, ModelJudge, Shown
from .shots import Shot, likeliest

_DECORATION = AROUND + "\n▁ĠĊ"
"""What models and tokenizers put around a label: ` A`, `(A`, `**A`, `ĠA`."""
_SPACES = " \n▁ĠĊ"

_SO = ("so", "therefore", "thus", "hence")
_WHOSE = ("the", "my")
_WHICH = ("right", "correct", "true", "best", "final", "likeliest")
_NOUNS = ("answer", "label", "verdict", "statement", "choice")
_MAX_ANNOUNCEMENT = 200
"""Characters before a verdict that may announce it."""

TOLERANCE = 0.01
"""How far a server's rounding may lift a logprob above 0, and the sum of probabilities above 1."""


@dataclass(frozen=True)
class LogprobJudge(ModelJudge):
    """Asks for a label and reads the probability that each label had at its place.

    Variants of a label are summed, and the mass that all labels captured is reported. Below
    `oversight.protocols.doubts.MIN_CAPTURED_MASS` the rest of the mass is unread, and gives the
    verdict bounds. A label must be one token for this. A label that
    is a word is read in any case (`yes` for `Yes`); a single letter only as it is written, since
    `a` may begin a sentence. With nine answers or more, a candidate `I` is unread mass as well.
    """

    top_logprobs: int = ranged(20)
    """How many candidates to ask for; DeepSeek and OpenAI allow 20, some servers 5."""
    max_tokens: int = ranged(8)

    kind: ClassVar[str] = "logprob"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reason != "none":
            raise ValueError(
                f"reason: {self.reason} comes before the label, and so would be read for it; a "
                "judge that states probabilities can reason first"
            )

    def compose(self, shown: Shown) -> Call:
        return self.call(shown, "label", "label", top_logprobs=self.top_logprobs, cue=True)

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        return {"labels": Words(" or ".join(labels))}

    def put(self, question: Question, shot: Shot) -> str:
        return likeliest(question, shot)

    async def elicit(self, shown: Shown, ask: Ask) -> Elicitation:
        reply = await ask(self.compose(shown))
        masses = read_masses(reply, shown.options)
        # More than 1 can only be rounding on the provider's side.
        total = sum(masses)
        probs = tuple([mass / total for mass in masses])
        return Elicitation((Judgement.read(reply, probs, min(total, 1.0)),))


def read_masses(reply: Reply, question: Question) -> list[float]:
    """The probability mass of each answer's label at the place where the reply gives its verdict,
    in question order.

    That place is the reply's first content, or what follows `The answer is`. Unreadable if no label
    stands there. Weak models go on with what they read, and a label elsewhere is part of a name, as
    in `<turn speaker="Debater B">` or `You are Debater B`, or a word, as in "A careful reader
    would not say". Unreadable, too, if the reply contradicts itself: another text than that of its
    tokens, a probability above 1, or probabilities that sum to more.
    """
    if reply.outcome == "refused" or not reply.logprobs:
        raise unreadable("the reply has no logprobs", reply)
    places = _vocabulary(question)
    place = _verdict_place(reply, places)
    said = "".join(_spaced(token.text) for token in reply.logprobs[: place + 1]).split()
    if not "".join(_spaced(reply.text).split()).startswith("".join(said)):
        raise unreadable("the reply's text and its logprobs say two things", reply)
    answer_token = reply.logprobs[place]
    # Some servers name a candidate twice, and others leave out the token that they chose.
    candidates = dict.fromkeys(answer_token.top)
    if all(text != answer_token.text for text, _ in candidates):
        candidates[answer_token.text, answer_token.logprob] = None
    found = [(text, logprob) for text, logprob in candidates if logprob > -math.inf]
    likely = [logprob for _, logprob in found]
    if max(likely, default=0) > TOLERANCE or math.fsum(map(math.exp, likely)) > 1 + TOLERANCE:
        raise unreadable("the reply's logprobs are no probabilities", reply)
    masses, stated = [0.0] * len(question.answers), places.get(_label(answer_token.text))
    for text, logprob in found:
        n = places.get(_label(text))
        # A candidate `I` may begin a sentence; nothing stands behind it that could tell.
        if n is not None and (n == stated or text.strip(_SPACES) != "I"):
            masses[n] += math.exp(min(logprob, 0.0))
    if not any(masses):
        raise unreadable("no answer label is among the likeliest tokens", reply)
    return masses


def _verdict_place(reply: Reply, labels: Container[str]) -> int:
    """Index of the token that is the reply's verdict. Unreadable if none is."""
    before, elsewhere = "", False
    for n, token in enumerate(reply.logprobs):
        if _label(token.text) in labels:
            if before and not _announces(before):
                elsewhere = True
            elif _goes_on("".join(_spaced(each.text) for each in reply.logprobs[n + 1 :])):
                raise unreadable("the label in the reply is a word of a sentence", reply)
            else:
                return n
        # Up to the first word there is nothing to announce.
        before = (before + _spaced(token.text)).lstrip(_DECORATION)
        if len(before) > _MAX_ANNOUNCEMENT:
            break
    if elsewhere:
        raise unreadable("the reply names a label, but not as its verdict", reply)
    raise unreadable("the reply gives no label", reply)


def _announces(before: str) -> bool:
    """Whether a label follows as the verdict, as after `The answer is` or `So the verdict:`."""
    bare = before.rstrip(" \t*\"'`(")
    words = [word.strip("*\"'`(,:") for word in bare.lower().split()]
    words = [word for word in words if word]
    for optional in (_SO, _WHOSE, _WHICH):
        if words and words[0] in optional:
            words = words[1:]
    if not words or words[0] not in _NOUNS:
        return False
    rest = words[1:]
    if rest[:2] == ["that", "is"] and rest[2:3] in (["right"], ["correct"], ["true"]):
        rest = rest[3:]
    return rest in (["is"], ["would", "be"]) or (not rest and bare[-1:] in (":", "\n"))


def _goes_on(after: str) -> bool:
    """Whether what follows a label makes it a part of a word or of a sentence."""
    line = after.partition("\n")[0].lstrip()
    return line.removeprefix("-").removeprefix("'").removeprefix("\u2019")[:1].isalpha()


@lru_cache(512)
def _vocabulary(question: Question) -> dict[str, int]:
    """Place of each answer, by its label as `_label` reads it; a label that differs from another by
    its case alone is read by none."""
    read = [_label(answer.label) for answer in question.answers]
    return {label: place for place, label in enumerate(read) if read.count(label) == 1}


@lru_cache(4096)
def _label(token: str) -> str:
    """What a token says, in one case if it is a word."""
    bare = token.strip(_DECORATION)
    return bare.casefold() if len(bare) > 1 else bare


def _spaced(token: str) -> str:
    """A token as the text that it is, where a server writes its spaces as tokenizers do."""
    return token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
