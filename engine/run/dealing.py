"""Dealing out the cells of a run to several workers, any of which may be lost.

The cells of a problem share calls. While many problems are left, a worker takes whole problems, so
that its cache asks each call once. Cells of the last problems, and of lost workers, go to all
workers with room; there, a worker claims each call before it asks it.
"""

import math
from collections import Counter, deque
from dataclasses import dataclass, field

from ..sweep.sweep import Cell, Sweep
from .record.values import RecordedCell
from .schedule import Schedule

LIVES = 3
"""Workers that a cell may end before it fails; it was alone on the last one."""
LAST_PROBLEMS = 2
"""Problems per worker, at the end of a run, that all workers share."""


@dataclass(eq=False)
class Hand:
    """The cells and claims of one worker."""

    room: int = 0
    """Cells that keep it busy."""
    under_way: dict[int, Cell] = field(default_factory=dict)
    waiting: deque[Cell] = field(default_factory=deque)
    """Cells of problems that no other worker takes."""
    granted: list[tuple[str, bool]] = field(default_factory=list)
    """Calls that it may ask now, and whether another worker has paid for them."""


class Deal:
    """Deals out the cells of an order."""

    def __init__(
        self, schedule: Schedule[Cell, RecordedCell], sweep: Sweep, ended: bytearray, workers: int
    ) -> None:
        """ended: by place, not 0 for a cell that has an outcome."""
        self._schedule, self._sweep = schedule, sweep
        spans = map(sweep.span, range(len(sweep.problems)))
        open_ones = [n for n, span in enumerate(spans) if not all(ended[span.start : span.stop])]
        self._shared = {*open_ones[-LAST_PROBLEMS * workers :]}
        """Problems whose cells go to all workers."""
        self._left = ended.count(0)
        self._hands: list[Hand] = []
        self._ahead: Cell | None = None
        """The next cell of the order, if it was looked at."""
        self._exhausted = False
        self._returned: deque[Cell] = deque()
        """Cells of lost workers."""
        self._deaths: Counter[int] = Counter()
        """By place, workers that ended by themselves while the cell was under way."""
        self._claims: dict[str, deque[Hand]] = {}
        """By call, the worker that may ask it, and those that wait."""
        self._paid: set[str] = set()

    def join(self, hand: Hand) -> None:
        """Deal to one more worker."""
        self._hands.append(hand)

    def is_shared(self, cell: Cell) -> bool:
        """Whether the worker must claim the calls of a cell."""
        return self._sweep.problem_at(cell.place) in self._shared

    @property
    def idle(self) -> bool:
        """Whether no cell is under way."""
        return not any(hand.under_way for hand in self._hands)

    @property
    def finished(self) -> bool:
        """Whether every cell of the order has ended."""
        waiting = self._returned or any(hand.waiting for hand in self._hands)
        return self._exhausted and not waiting and self.idle

    async def take(self, hand: Hand) -> list[Cell]:
        """The cells that a worker begins now: as many as it has room for, and at most its share of
        those that are left, so that all workers are busy to the end."""
        cells: list[Cell] = []
        rooms = sum(other.room for other in self._hands)
        room: float = min(hand.room, max(math.ceil(self._left * hand.room / rooms), 1))
        if self._deaths:
            room = min([room, *map(self._company, hand.under_way.values())])
        while len(hand.under_way) < room and (cell := await self._next(hand)) is not None:
            hand.under_way[cell.place] = cell
            room = min(room, self._company(cell))
            cells.append(cell)
        return cells

    def record_result(self, hand: Hand, place: int, result: RecordedCell | None) -> None:
        """Take note of how a cell ended; without a result at a stop."""
        self._left -= result is not None
        self._schedule.record_result(hand.under_way.pop(place), result)

    def lose(self, hand: Hand, *, by_itself: bool) -> Cell | None:
        """Give the cells of a lost worker to the others.

        by_itself: whether the worker ended, and not its machine. Then a cell under way may be the
        cause: it begins again with fewer others each time. Returns the cell that was alone on the
        last of `LIVES` workers, which stays under way until `ended`.
        """
        cells, guilty = [*hand.under_way.values()], None
        if by_itself:
            self._deaths.update(hand.under_way.keys())
            if len(cells) == 1 and self._deaths[cells[0].place] >= LIVES:
                guilty = cells.pop()
        self._hands.remove(hand)
        hand.under_way = {} if guilty is None else {guilty.place: guilty}
        cells += hand.waiting
        self._shared.update(self._sweep.problem_at(cell.place) for cell in cells)
        self._returned.extend(cells)
        for call in [call for call, hands in self._claims.items() if hand in hands]:
            self.release(hand, call, paid=False)
        return guilty

    def claim(self, hand: Hand, call: str) -> None:
        """A worker wants to ask a call: it may as soon as no other worker is asking it."""
        hands = self._claims.setdefault(call, deque())
        hands.append(hand)
        if hands[0] is hand:
            hand.granted.append((call, call in self._paid))

    def release(self, hand: Hand, call: str, paid: bool) -> None:
        """A worker has asked a call; paid: and paid for it."""
        if paid:
            self._paid.add(call)
        hands = self._claims[call]
        first = hands[0]
        hands.remove(hand)
        if not hands:
            del self._claims[call]
        elif hands[0] is not first:
            hands[0].granted.append((call, call in self._paid))

    def _company(self, cell: Cell) -> float:
        """Cells that may be under way on one worker with a cell that may have ended others."""
        deaths = self._deaths[cell.place]
        hand_room = max(other.room for other in self._hands)
        return max(hand_room >> 3 * deaths, 1) if deaths else math.inf

    async def _next(self, hand: Hand) -> Cell | None:
        if self._returned:
            # Where it must wait for others to end, none begins: else it would wait forever.
            if len(hand.under_way) < self._company(self._returned[0]):
                return self._returned.popleft()
            return None
        if hand.waiting:
            return hand.waiting.popleft()
        cell, self._ahead = self._ahead or await self._pull(), None
        if cell is not None and not self.is_shared(cell):
            number = self._sweep.problem_at(cell.place)
            while (after := await self._pull()) is not None:
                if self._sweep.problem_at(after.place) != number:
                    self._ahead = after
                    break
                hand.waiting.append(after)
        return cell

    async def _pull(self) -> Cell | None:
        cell = await anext(self._schedule, None)
        self._exhausted = cell is None
        return cell
