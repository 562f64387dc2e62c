"""Debate as a game (Irving, Christiano and Amodei 2018, arXiv:1805.00899), played from a pool.

What a debate is worth to its judge is what its equilibrium is worth, not two drafts that happen to
be drawn. Here each speech is drafted several times, every debate that the drafts allow is judged,
and the verdict is the value of the zero-sum game (von Neumann 1928) in which both sides choose
their drafts freely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import ClassVar, TypeAlias

from msgspec.structs import replace

from ...cache.call import Ask, nth
from ..doubts import ANYTHING, UnreadReply, ranges_given
from ..errors import Unreadable
from ..gather import gather_deterministic
from ..question import Answer, Question
from ..seat import Seat, laid_down
from ..settings import ranged
from ..transcript import Transcript, Turn, Verdict
from .debate import Debate

DRAWN, AGENT_GAIN, OPPONENT_GAIN = "drawn", "agent_gain", "opponent_gain"
"""The measures."""

MAX_DEBATES = 4096
"""Debates that one game may have judged."""

DECIMALS = 12
"""Decimals of a mixed equilibrium; beyond them solvers differ from machine to machine."""


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """The value of a zero-sum game to the rows, and an optimal strategy of either side."""

    value: float
    rows: tuple[float, ...]
    columns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Subgame:
    """The rest of a debate, from some transcript on. Beliefs are in the first answer, in [0, 1]."""

    likeliest: Verdict
    """Verdict on the debate that the equilibrium makes most likely."""
    value: float
    """The belief in equilibrium."""
    drawn: float
    """The mean belief if both sides speak drafts at random."""
    first_chooses: float
    """The belief if the first answer's side chooses its best drafts, and the other side speaks at
    random."""
    second_chooses: float
    """The belief if the other side chooses, and the first answer's side speaks at random."""
    judged: bool = True
    """Whether any of its debates has a verdict that could be read."""
    drafts: tuple[Turn, ...] = ()
    """All drafts of the subgame."""


Ends: TypeAlias = tuple[Subgame, Subgame]
"""The same subgame with all unread verdicts against the first answer, and with all for it."""


@dataclass(frozen=True)
class DebateGame(Debate):
    """A debate in which every speech is drafted `pool` times, played in equilibrium.

    World a: the seats of the plain debate, on every transcript that their drafts can make:
      1. whoever speaks drafts `pool` speeches on the transcript;
      2. each draft, or each pair of drafts by seats that speak at once, continues the debate on a
         transcript of its own;
      3. the judge decides after the last round: pool^(2 rounds) verdicts;
      4. from the last speech back, a seat that speaks alone takes its best draft, and two seats
         that speak at once play a matrix game, which is solved by linear programming.
    A verdict that cannot be read may be any: the game is solved with all of them against a, which
    is the verdict, and with all of them for a, its upper bound. The verdict is the belief at the
    root. The transcript is that of the debate that is likeliest in equilibrium.
    Shared: what the plain debate shares. Draft 0 is the speech of the plain debate, which is
    therefore one of those that are judged; and a larger pool contains the drafts of a smaller one.
    Reward: the judge's belief in one's own answer, against an opponent who chooses as well.
    Measured: `drawn`, the belief in a if both sides speak drafts at random; `agent_gain`, what the
    agent alone gains over that with its best drafts; and `opponent_gain`, what the opponent does.
    The sum of the two is the exploitability of the drafts as they are drawn.

    Where we differ: the speeches of Irving et al. are free; ours come from a pool, and so does the
    equilibrium. The noise of a judge is part of the game: both sides choose with the verdicts in
    sight.
    """

    rounds: int = ranged(1)
    pool: int = ranged(4)
    """Drafts of every speech, at the speaker's own temperature."""

    row: ClassVar[str] = "debate game {0.manner} {0.length} pool {0.pool}"
    opposes_answers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (debates := self.pool ** (2 * self.rounds)) > MAX_DEBATES:
            raise ValueError(
                f"pool: {self.pool} drafts in {self.rounds} rounds make {debates:,} debates of "
                f"each question; {MAX_DEBATES:,} are the most: use fewer drafts or rounds"
            )

    @property
    def apart(self) -> int:
        return int(self.pool ** (2 * self.rounds - self.simultaneous))

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        steps = [
            seats
            for number in range(1, self.rounds + 1)
            for seats in self.order(question, side, number)
        ]
        ends = await self._play(Transcript(question), steps, ask)
        argues_first = question.place(side) == 0
        game = ends[0] if argues_first else ends[1]
        if not game.judged:
            fault = next(doubt for doubt in game.likeliest.doubts)
            reason = "the verdict on none of its debates could be read"
            raise Unreadable(reason, "", fault.call, fault.cause, fault.seat)
        first, second = game.first_chooses - game.drawn, game.drawn - game.second_chooses
        measures = (
            (DRAWN, game.drawn if argues_first else 1 - game.drawn),
            (AGENT_GAIN, first if argues_first else second),
            (OPPONENT_GAIN, second if argues_first else first),
        )
        shown, low, high = game.likeliest, ends[0].value, ends[1].value
        heard = [replace(turn, at_once=False) for turn in shown.transcript.turns]
        return replace(
            shown,
            probs=(game.value, 1 - game.value),
            measures=measures,
            bounds=ranges_given((low, high), 0, 2) if ends[0] is not ends[1] else (),
            unheard=tuple(turn for turn in game.drafts if turn not in heard),
        )

    async def _play(
        self, transcript: Transcript, steps: Sequence[tuple[Seat, ...]], ask: Ask
    ) -> Ends:
        """The game from this transcript on. steps: who speaks then; seats of one step speak at
        once."""
        if not steps:
            return await self._decided(transcript, ask)
        seats, *later = steps
        # Two numbers: a speaker who picks among drafts of its own has drawn those of one number.
        asks = [ask, *(nth(nth(ask, n), 0) for n in range(1, self.pool))]
        drafts = await gather_deterministic(
            *(
                gather_deterministic(*(seat.speak(transcript, each) for each in asks))
                for seat in seats
            )
        )
        # A draft that says nothing falls out, unless there is no other.
        pools = [[turn for turn in each if not turn.silent] or each for each in drafts]
        games = await gather_deterministic(
            *(self._play(laid_down(transcript, *turns), later, ask) for turns in product(*pools))
        )
        made = tuple(turn for each in drafts for turn in each)
        first = seats[0].side == transcript.question.answers[0]
        width = len(pools[1]) if len(seats) == 2 else 1 if first else len(games)
        low, high = (
            solved([column[n : n + width] for n in range(0, len(column), width)], made)
            for column in zip(*games, strict=True)
        )
        return (low, low) if all(one is other for one, other in games) else (low, high)

    async def _decided(self, transcript: Transcript, ask: Ask) -> Ends:
        """The end of a debate: the judge's belief, or either end of what it may have been."""
        try:
            verdict = await self.judge.judge(transcript, ask, self.judging())
        except Unreadable as fault:
            verdict = Verdict(
                (0.5, 0.5), transcript, bounds=(ANYTHING,) * 2, doubts=(UnreadReply.of(fault),)
            )
        if not verdict.bounds:
            game = _ended(verdict, verdict.probs[0])
            return game, game
        low, high = verdict.bounds[0]
        return _ended(verdict, low), _ended(verdict, high)


def _ended(verdict: Verdict, belief: float) -> Subgame:
    return Subgame(verdict, belief, belief, belief, belief, bool(verdict.judgements))


def solved(games: Sequence[Sequence[Subgame]], drafts: tuple[Turn, ...] = ()) -> Subgame:
    """The subgame before one choice. games: what the choices lead to; the first answer's side
    chooses the row, the other's the column. drafts: the choices."""
    columns = list(zip(*games, strict=True))
    found = equilibrium([[game.value for game in row] for row in games])
    row, column = found.rows.index(max(found.rows)), found.columns.index(max(found.columns))
    every = [game for row in games for game in row]
    likeliest = games[row][column].likeliest
    doubts = tuple(dict.fromkeys(doubt for game in every for doubt in game.likeliest.doubts))
    return Subgame(
        replace(likeliest, doubts=doubts) if doubts else likeliest,
        found.value,
        fmean(game.drawn for row in games for game in row),
        max(fmean(game.first_chooses for game in row) for row in games),
        min(fmean(game.second_chooses for game in column) for column in columns),
        any(game.judged for game in every),
        (*drafts, *(draft for game in every for draft in game.drafts)),
    )


def equilibrium(payoff: Sequence[Sequence[float]]) -> Equilibrium:
    """The equilibrium of a zero-sum game in which rows are paid the entry by columns.

    The first saddle point if there is one; otherwise found by linear programming.
    """
    columns = list(zip(*payoff, strict=True))
    floors, ceilings = [min(row) for row in payoff], [max(column) for column in columns]
    value = max(floors)
    if value == min(ceilings):
        return Equilibrium(
            value,
            _pure(floors.index(value), len(floors)),
            _pure(ceilings.index(value), len(ceilings)),
        )
    value, rows = _maximin(payoff)
    _, mixed = _maximin([[-entry for entry in column] for column in columns])
    return Equilibrium(value, rows, mixed)


def _pure(chosen: int, choices: int) -> tuple[float, ...]:
    return tuple(float(n == chosen) for n in range(choices))


def _maximin(payoff: Sequence[Sequence[float]]) -> tuple[float, tuple[float, ...]]:
    """The most that the rows can secure, and a mixed strategy that secures it."""
    import numpy as np
    from scipy.optimize import linprog

    entries = np.asarray(payoff)
    m, n = entries.shape
    # Maximise w under: the strategy x gets at least w against every column.
    found = linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.hstack((-entries.T, np.ones((n, 1)))),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(m), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    if not found.success or found.x is None:
        raise ValueError(f"the game has no solution: {found.message}")
    *strategy, value = found.x.round(DECIMALS).tolist()
    return value, tuple(strategy)
