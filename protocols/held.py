"""Conversations held elsewhere, by people or models, with what judges believed of them."""

from msgspec import Struct

from .question import Question
from .transcript import Quote

Probabilities = tuple[float, ...]


class RecordedTurn(Struct, frozen=True, gc=False):
    """One contribution to a recorded conversation."""

    round: int
    """From 1; of a judge's remark, the round that it was made after, from 0."""
    speaker: str
    """The seat: `Debater A`, `Judge`."""
    text: str
    side: str = ""
    """Label of the answer argued for; empty for a speaker without one."""
    quotes: tuple[Quote, ...] = ()
    """The quotes in it, between <quote> and </quote>, as they were checked by their places."""


class BeliefHistory(Struct, frozen=True, gc=False):
    """What one judge believed of a recorded conversation, round by round."""

    judge: str
    mode: str
    """How it was judged: `live`, as it went on; `stepped`, afterwards; `timed`; …"""
    beliefs: tuple[tuple[int, Probabilities], ...]
    """(rounds heard, probability of each answer in question order), ascending; the last is the
    verdict."""

    def after(self, rounds: int | None) -> Probabilities:
        """The belief after so many rounds, carried forward where it was not stated anew; the
        verdict for None. IndexError where nothing was stated by then."""
        heard = [probs for n, probs in self.beliefs if rounds is None or n <= rounds]
        return heard[-1]


class RecordedConversation(Struct, frozen=True, gc=False):
    """What was said once about a question, and how it was judged."""

    setting: str
    """Of the experiment: `human debate`."""
    turns: tuple[RecordedTurn, ...]
    argued: str = ""
    """Label of the one answer that was argued for; empty: every answer was."""
    judged: tuple[BeliefHistory, ...] = ()

    def until(self, rounds: int) -> tuple[RecordedTurn, ...]:
        """What had been said after so many rounds (0: all of them) when the judge was to decide:
        not what the judge itself remarked then."""
        last = min(rounds or self.rounds, self.rounds)
        return tuple(turn for turn in self.turns if turn.round <= last - (not turn.side))

    @property
    def rounds(self) -> int:
        return max((turn.round for turn in self.turns if turn.side), default=0)


class DiscussedQuestion(Question, frozen=True, cache_hash=True):
    """A question about which a conversation was held elsewhere."""

    held: RecordedConversation | None = None
