"""Cross-examination (Barnes and Christiano 2020): a copy of the speaker answers for a statement.

A debater whose meaning may shift during the debate cannot be pinned down. So the opponent may
question a copy of the speaker that has only the context up to a statement. The copy cannot adapt
its reply to later speeches, and the judge sees where the two disagree.
(«Writeup: progress on AI safety via debate», AI Alignment Forum, February 2020.)"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from msgspec import structs

from ...cache.call import Ask, with_repeat
from ..agents.agent import Speaker
from ..agents.tool import CLAIM
from ..doubts import UnreadReply
from ..prompts.forms import TEXT, Filled, Form, Schema, whole_number
from ..protocol import Conversation, WithHorizon
from ..question import Answer
from ..quotes import end_of
from ..seat import Role
from ..settings import Count
from ..tags import claims_in, end_of_words
from ..transcript import Transcript, Turn
from .decomposition import numbered

SPEAKER = Role("cross_examination.speaker", "Debater")
CHALLENGER = Role("cross_examination.challenger", "Debater")
WITNESS = Role("cross_examination.witness", "Copy of Debater", "answer")

MAX_STATEMENT_WORDS = 40
"""Maximum words of a statement. Otherwise a speech of one sentence would be given to the copy as a
whole, and could not be pinned down. Text without blanks is measured as in the word limit: 320
columns."""

_ENDS, _CLOSES = ".!?…", "\"'”\u2019)]*"
"""Characters that end a sentence, and characters that may follow them."""

PART: Schema = {
    "type": "string",
    "description": "words of the statement after which the copy hears no more; empty for all of it",
}


@dataclass(frozen=True, slots=True)
class Statement:
    speech: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.speech[self.start : self.end]

    def as_far_as(self, part: str) -> "Statement | None":
        """The statement from its start to the end of the first match of `part`, compared like a
        quote. A blank part matches all of it. None without a match."""
        end = end_of(part, self.text) if part.strip() else len(self.text)
        return replace(self, end=self.start + end) if end >= 0 else None

    @property
    def first_word(self) -> "Statement":
        return replace(self, end=self.start + len(self.text[: end_of_words(self.text, 1)].rstrip()))


@dataclass(frozen=True)
class CrossExamination(WithHorizon, Conversation):
    """The agent argues for `side`. Its opponent challenges statements, and a copy answers.

    World a:
      1. the agent speaks for a;
      2. an opponent, who argues for another answer, picks a statement of that speech, or its
         beginning by quoting a part of it, and asks a question about it (a form);
      3. a copy of the agent, which has only the question and the speech up to the end of the picked
         part, answers;
      4. steps 2 and 3 are repeated, `challenges` times in all, by the opponents in turn. Then the
         judge reads everything and decides.
    A statement is a sentence or a line of at most MAX_STATEMENT_WORDS. An opponent is asked once
    more if its quoted part is missing or does not match. After that the copy hears only the first
    word, or the whole statement, and the reply counts as unread. No copy hears other challenges. A
    speech without statements is not challenged. With fewer `challenges` than other answers, the
    last answers have none, so that in some worlds nobody speaks for the truth.
    Shared: nothing, since everything depends on the agent's speech for a, which the other world
    never hears. More challenges begin with the calls of fewer.
    Reward: the judge's belief in one's own answer, for the agent, its copies and the opponent.

    Where we differ: in the paper this is one move in a longer debate, and either side may be
    questioned. Ours is only that move, put to the overseen agent, so that its value can be seen.
    """

    agent: Speaker
    opponent: Speaker | None = None
    """The challenger. None: a copy of the agent."""
    challenges: Count = 1

    sections: ClassVar[tuple[str, ...]] = ("cross_examination",)

    @property
    def apart(self) -> int:
        return self.challenges

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        speech = await self.seat(self.agent, side, SPEAKER).speak(transcript, ask)
        sentences = statements(speech.text)
        listed = structs.replace(speech, text=numbered(sentence.text for sentence in sentences))
        exchanges: tuple[Turn, ...] = ()
        rivals = transcript.question.others(side)
        for number in range(self.challenges if sentences else 0):
            so_far = transcript.then(listed, *exchanges)
            against = rivals[number % len(rivals)]
            up_to, challenge = await self._challenge(so_far, side, against, sentences, ask)
            # The copy hears neither later claims nor the opponent's reasoning. The whole speech
            # stays as an unspoken draft, for the cost of its tools.
            claims = sum(use.tool == CLAIM for use in speech.tools) - len(claims_in(up_to))
            uses, drafts = speech.tools[: len(speech.tools) - claims], (*speech.drafts, speech)
            cut = structs.replace(speech, text=up_to, tools=uses, drafts=drafts)
            pinned = transcript.then(cut, structs.replace(challenge, reasoning=""))
            answer = await self.seat(self.agent, side, WITNESS).speak(pinned, ask)
            exchanges += (challenge, answer)
        return transcript.then(speech, *exchanges)

    async def _challenge(
        self,
        transcript: Transcript,
        side: Answer,
        against: Answer,
        sentences: tuple[Statement, ...],
        ask: Ask,
    ) -> tuple[str, Turn]:
        """The speech up to the challenged part, and the challenge."""
        seat = self.seat(self.opponent or self.agent, against, CHALLENGER)
        numbers = range(1, len(sentences) + 1)

        def read(filled: Filled) -> tuple[str, Turn]:
            statement = sentences[filled.whole("statement", numbers) - 1]
            part = filled.fields.get("part")
            matched = statement.as_far_as(part) if isinstance(part, str) else None
            picked = matched or (statement.first_word if isinstance(part, str) else statement)
            turn = seat.turn(
                filled,
                filled.text("question"),
                lambda question: self.words.data(
                    "cross_examination.challenge",
                    label=side,
                    statement=picked.text,
                    question=question,
                ),
            )
            if matched is None:
                doubt = UnreadReply(CHALLENGER.title, "no statement", filled.reply.call)
                turn = structs.replace(turn, doubts=(doubt,))
            return picked.speech[: picked.end], turn

        properties = {"statement": whole_number(numbers), "part": PART, "question": TEXT}
        form = Form("challenge", properties, read, ("part",))
        speech_part, challenge = await seat.fill(form, transcript, ask)
        if challenge.doubts:
            speech_part, challenge = await seat.fill(form, transcript, with_repeat(ask, 1))
        return speech_part, challenge


def statements(speech: str) -> tuple[Statement, ...]:
    """The sentences and lines of a speech, in order. Longer ones are split at MAX_STATEMENT_WORDS,
    or at as many columns."""
    ended: list[Statement] = []
    first = last = -1
    words = 0
    number = False
    for start, end in _words(speech):
        current = speech[first:end] if words else ""
        long = end_of_words(current, MAX_STATEMENT_WORDS) < len(current)
        if words and ("\n" in speech[last:start] or long):
            ended.append(Statement(speech, first, last))
            words = 0
        word = speech[start:end]
        # The number of a list item belongs to the item.
        opens = not words or (number and words == 1)
        number = not words and word[-1] in ".)" and word[:-1].isdecimal()
        first, last, words = first if words else start, end, words + 1
        shut = word.rstrip(_CLOSES)[1 if opens else 0 :]
        if words == MAX_STATEMENT_WORDS or (not number and shut.endswith(tuple(_ENDS))):
            ended.append(Statement(speech, first, last))
            words = 0
    return (*ended, Statement(speech, first, last)) if words else tuple(ended)


def _words(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each word. A word that is longer than a statement is split."""
    end = 0
    for word in text.split():
        start = text.index(word, end)
        while word:
            end = start + (end_of_words(word, MAX_STATEMENT_WORDS) or len(word))
            yield start, end
            word, start = word[end - start :], end
