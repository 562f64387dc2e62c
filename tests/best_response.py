"""The best that one player of a protocol can do, found by trying every sequence of its moves."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply
from oversight.protocols.errors import Unreadable

Moves = Callable[[Call], Sequence[str] | None]
"""The moves of the player at a call of its own; None at a call of somebody else's."""

NOTHING = float("-inf")
"""What a play is worth that ends without a verdict: less than any verdict."""


class _Branch(Exception):
    def __init__(self, position: str, moves: Sequence[str]) -> None:
        self.position = position
        self.moves = moves


class _Known(Exception):
    def __init__(self, worth: float) -> None:
        self.worth = worth


@dataclass
class Search:
    """One player against others who answer by a function, over all sequences of its moves.

    A position is the address of the call at which the player moves.
    """

    play: Callable[[Ask], Awaitable[float]]
    """What one play is worth to the player."""
    moves: Moves
    others: Callable[[Call], str]
    forgetful: bool = False
    """Whether a play is worth what a position in it is worth, whatever was moved before; then no
    position is played out twice. Else every sequence is."""
    plays: int = 0
    """How many were played to their end, or to a position whose worth is known."""
    known: dict[str, float] = field(default_factory=dict)
    """What positions are worth."""

    async def value(self, chosen: tuple[str, ...] = ()) -> float:
        """What the best play is worth that starts with these moves."""
        try:
            worth = await self._played(chosen)
        except _Branch as branch:
            worth = max([await self.value((*chosen, move)) for move in branch.moves])
            self.known[branch.position] = worth
            return worth
        except _Known as known:
            worth = known.worth
        self.plays += 1
        return worth

    async def _played(self, chosen: tuple[str, ...]) -> float:
        left = list(chosen)

        async def ask(call: Call) -> Reply:
            moves = self.moves(call)
            if moves is None:
                return Reply(self.others(call))
            if left:
                return Reply(left.pop(0))
            position = call.address
            if self.forgetful and position in self.known:
                raise _Known(self.known[position])
            raise _Branch(position, moves)

        try:
            return await self.play(ask)
        except Unreadable:
            return NOTHING
