"""A judge that reads its probabilities from the label tokens of its reply."""

import math
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import unreadable
from ..prompts.forms import AROUND
from ..prompts.prompt_set import Words
from ..question import Question
from ..settings import Count
from ..transcript import Judgement
from .case import Shot, likeliest
from .judge import Elicitation, ModelJudge, Shown

_DECORATION = AROUND + "\n▁ĠĊ"
"""Characters that models and tokenizers put around a label: ` A`, `(A`, `**A`, `ĠA`."""
_SPACES = " \n▁ĠĊ"

_SO = ("so", "therefore", "thus", "hence")
_WHOSE = ("the", "my")
_WHICH = ("right", "correct", "true", "best", "final", "likeliest")
_NOUNS = ("answer", "label", "verdict", "statement", "choice")
_MAX_ANNOUNCEMENT = 200
"""Maximum characters of text before a verdict that may announce it."""

TOLERANCE = 0.01
"""Tolerance for rounding by a server: logprobs above 0, and sums of probabilities above 1."""


@dataclass(frozen=True)
class LogprobJudge(ModelJudge):
    """Asks for a label and reads the probability of each label at its position.

    Variants of a label are summed, and the total mass of all labels is reported. Below
    `oversight.protocols.doubts.MIN_CAPTURED_MASS` the rest is unread and gives the verdict bounds.
    A label must be one token. A word is read in any case (`yes` for `Yes`), a single letter only
    as written, since `a` may begin a sentence. With nine or more answers, a candidate `I` is unread
    mass as well."""

    top_logprobs: Count = 20
    """Number of candidates to ask for. DeepSeek and OpenAI allow 20, some servers 5."""
    max_tokens: Count = 8

    kind: ClassVar[str] = "logprob"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reason != "none":
            raise ValueError(
                f"reason: {self.reason} comes before the label, and so would be read for it; a "
                "judge that states probabilities can reason first"
            )

    def compose(self, view: Shown) -> Call:
        return self.call(view, "label", "label", top_logprobs=self.top_logprobs, cue=True)

    def ways(self, labels: tuple[str, ...]) -> dict[str, Words]:
        return {"labels": Words(" or ".join(labels))}

    def put(self, question: Question, shot: Shot) -> str:
        return likeliest(question, shot)

    async def elicit(self, view: Shown, ask: Ask) -> Elicitation:
        reply = await ask(self.compose(view))
        masses = read_masses(reply, view.options)
        # A sum above 1 can only come from the provider's rounding.
        total = sum(masses)
        probs = tuple([mass / total for mass in masses])
        return Elicitation((Judgement.read(reply, probs, min(total, 1.0)),))


def read_masses(reply: Reply, question: Question) -> list[float]:
    """The probability mass of each answer's label at the verdict, in question order.

    The verdict is the reply's first content, or follows `The answer is`. Unreadable if no label is
    there. A label elsewhere is part of a name, as in `<turn speaker="Debater B">`, which weak
    models continue, or a word, as in "A careful reader would not say". Unreadable, too, if the
    reply contradicts itself: text that differs from its tokens, a probability above 1, or
    probabilities that sum to more than 1."""
    if reply.outcome == "refused" or not reply.logprobs:
        raise unreadable("the reply has no logprobs", reply)
    label_indices = _vocabulary(question)
    position = _verdict_place(reply, label_indices)
    prefix = "".join(_spaced(token.text) for token in reply.logprobs[: position + 1]).split()
    if not "".join(_spaced(reply.text).split()).startswith("".join(prefix)):
        raise unreadable("the reply's text and its logprobs say two things", reply)
    answer_token = reply.logprobs[position]
    # Some servers list a candidate twice, and others leave out the token that they chose.
    candidates = dict.fromkeys(answer_token.top)
    if all(text != answer_token.text for text, _ in candidates):
        candidates[answer_token.text, answer_token.logprob] = None
    likely = [(text, logprob) for text, logprob in candidates if logprob > -math.inf]
    logprobs = [logprob for _, logprob in likely]
    if max(logprobs, default=0) > TOLERANCE or math.fsum(map(math.exp, logprobs)) > 1 + TOLERANCE:
        raise unreadable("the reply's logprobs are not probabilities", reply)
    masses, chosen = [0.0] * len(question.answers), label_indices.get(_label(answer_token.text))
    for text, logprob in likely:
        n = label_indices.get(_label(text))
        # A candidate `I` may begin a sentence, and no later text can tell.
        if n is not None and (n == chosen or text.strip(_SPACES) != "I"):
            masses[n] += math.exp(min(logprob, 0.0))
    if not any(masses):
        raise unreadable("no answer label is among the likeliest tokens", reply)
    return masses


def _verdict_place(reply: Reply, labels: Container[str]) -> int:
    """Index of the token that is the reply's verdict. Unreadable if absent."""
    before, elsewhere = "", False
    for n, token in enumerate(reply.logprobs):
        if _label(token.text) in labels:
            if before and not _announces(before):
                elsewhere = True
            elif _goes_on("".join(_spaced(token.text) for token in reply.logprobs[n + 1 :])):
                raise unreadable("the label in the reply is a word of a sentence", reply)
            else:
                return n
        # Before the first word nothing can announce a verdict.
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
    remainder = words[1:]
    if remainder[:2] == ["that", "is"] and remainder[2:3] in (["right"], ["correct"], ["true"]):
        remainder = remainder[3:]
    return remainder in (["is"], ["would", "be"]) or (not remainder and bare[-1:] in (":", "\n"))


def _goes_on(after: str) -> bool:
    """Whether the text after a label makes it part of a word or of a sentence."""
    line = after.partition("\n")[0].lstrip()
    return line.removeprefix("-").removeprefix("'").removeprefix("\u2019")[:1].isalpha()


@lru_cache(512)
def _vocabulary(question: Question) -> dict[str, int]:
    """Index of each answer, by its label as `_label` reads it. Labels that differ only in case are
    left out."""
    labels = [_label(answer.label) for answer in question.answers]
    return {label: index for index, label in enumerate(labels) if labels.count(label) == 1}


@lru_cache(4096)
def _label(token: str) -> str:
    """The word or letter in a token; words in lower case."""
    bare = token.strip(_DECORATION)
    return bare.casefold() if len(bare) > 1 else bare


def _spaced(token: str) -> str:
    """The text of a token, for servers that write spaces as tokenizers do."""
    return token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
