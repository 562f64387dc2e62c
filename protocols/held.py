"""Recorded conversations, held elsewhere by people or models, with the beliefs of their judges."""

from msgspec import Struct

from .question import Question
from .transcript import Quote

Probabilities = tuple[float, ...]


class RecordedTurn(Struct, frozen=True, gc=False):
    """One contribution to a recorded conversation."""

    round: int
    """Round, from 1. A judge's remark has the number of the round before it, from 0."""
    speaker: str
    """The name of the speaker: `Debater A`, `Judge`."""
    text: str
    side: str = ""
    """Label of the answer argued for. Empty for a speaker without one."""
    quotes: tuple[Quote, ...] = ()
    """The quotes between <quote> and </quote>, checked by their positions in the passage."""


class BeliefHistory(Struct, frozen=True, gc=False):
    """The beliefs of one judge of a recorded conversation, round by round."""

    judge: str
    mode: str
    """How it was judged: `live`, during the conversation; `stepped`, afterwards; `timed`; …"""
    beliefs: tuple[tuple[int, Probabilities], ...]
    """(rounds heard, probability of each answer in question order), ascending. The last is the
    verdict."""

    def after(self, rounds: int | None) -> Probabilities:
        """The latest belief stated after at most `rounds` rounds. None returns the verdict.
        IndexError if no belief was stated by then."""
        probabilities = [probs for n, probs in self.beliefs if rounds is None or n <= rounds]
        return probabilities[-1]


class RecordedConversation(Struct, frozen=True, gc=False):
    """A recorded conversation about a question, and how it was judged."""

    setting: str
    """The setting of the experiment: `human debate`."""
    turns: tuple[RecordedTurn, ...]
    argued: str = ""
    """Label of the only answer argued for. Empty if all were."""
    judged: tuple[BeliefHistory, ...] = ()

    def until(self, rounds: int) -> tuple[RecordedTurn, ...]:
        """The turns before the judge's decision after `rounds` rounds (0: all), without the judge's
        remark at that point."""
        last = min(rounds or self.rounds, self.rounds)
        return tuple(turn for turn in self.turns if turn.round <= last - (not turn.side))

    @property
    def rounds(self) -> int:
        return max((turn.round for turn in self.turns if turn.side), default=0)


class DiscussedQuestion(Question, frozen=True, cache_hash=True):
    """A question with a recorded conversation."""

    held: RecordedConversation | None = None
