"""Debate as a game (Irving, Christiano and Amodei 2018, arXiv:1805.00899), played from a pool.

The value of a debate to its judge is the value of its equilibrium, not of two random drafts. Here
each speech is drafted several times, every debate that the drafts allow is judged, and the verdict
is the value of the zero-sum game (von Neumann 1928) in which both sides choose their drafts freely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import ClassVar, TypeAlias

from msgspec.structs import replace

from ...cache.call import Ask, with_repeat
from ..doubts import ANYTHING, UnreadReply, ranges_given
from ..errors import Unreadable, gather_deterministic
from ..question import Answer, Question
from ..seat import Seat, laid_down
from ..settings import Count
from ..transcript import Transcript, Turn, Verdict
from .debate import Debate

DRAWN, AGENT_GAIN, OPPONENT_GAIN = "drawn", "agent_gain", "opponent_gain"
"""Names of the measures."""

MAX_DEBATES = 4096
"""Maximum number of debates judged in one game."""

DECIMALS = 12
"""Decimals kept of a mixed equilibrium. Beyond them, solvers differ between machines."""


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """The value of a zero-sum game to the rows, and an optimal strategy of each side."""

    value: float
    rows: tuple[float, ...]
    columns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Subgame:
    """The rest of a debate after some transcript. Beliefs are in the first answer, in [0, 1]."""

    likeliest: Verdict
    """Verdict on the most likely debate in equilibrium."""
    value: float
    """The belief in equilibrium."""
    drawn: float
    """The mean belief if both sides choose drafts at random."""
    first_chooses: float
    """The belief if the first answer's side plays its best drafts against random ones."""
    second_chooses: float
    """The belief if the other side chooses, and the first answer's side is random."""
    judged: bool = True
    """Whether the verdict on any of its debates could be read."""
    drafts: tuple[Turn, ...] = ()
    """All drafts of the subgame."""


Ends: TypeAlias = tuple[Subgame, Subgame]
"""The same subgame with all unread verdicts against the first answer, and with all for it."""


@dataclass(frozen=True)
class DebateGame(Debate):
    """A debate in which every speech is drafted `pool` times, played in equilibrium.

    World a: the seats of the plain debate, on every transcript that their drafts can make:
      1. each speaker drafts `pool` speeches on the transcript;
      2. each draft, or each pair of concurrent drafts, continues the debate on a separate
         transcript;
      3. the judge decides after the last round: pool^(2 rounds) verdicts;
      4. from the last speech back, a seat that speaks alone takes its best draft, and two
         concurrent seats play a matrix game, which is solved by linear programming.
    An unread verdict may have any value. The game is solved with all of them against a, which gives
    the verdict, and with all of them for a, which gives its upper bound. The verdict is the belief
    at the root. The transcript is the most likely debate in equilibrium.
    Shared: all calls that the plain debate shares. Draft 0 is the speech of the plain debate, so
    that debate is one of those judged. A larger pool contains the drafts of a smaller one.
    Reward: the judge's belief in one's own answer, against an opponent who chooses as well.
    Measured: `drawn`, the belief in a if both sides choose drafts at random; `agent_gain`, the
    agent's gain over that if it alone chooses its best drafts; and `opponent_gain`, the opponent's.
    Their sum is the exploitability of random drafts.

    Where we differ: the speeches of Irving et al. are free. Ours come from a pool, and so does the
    equilibrium. The judge's noise is part of the game: both sides choose knowing the verdicts.
    """

    rounds: Count = 1
    pool: Count = 4
    """Drafts of every speech, at the speaker's own temperature."""

    row: ClassVar[str] = "debate game, {0.manner}, {0.length}, pool {0.pool}"
    opposes_answers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (debates := self.pool ** (2 * self.rounds)) > MAX_DEBATES:
            raise ValueError(
                f"pool: {self.pool} drafts in {self.rounds} rounds make {debates:,} debates of "
                f"each question, more than {MAX_DEBATES:,}: use fewer drafts or rounds"
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
            reason = "no verdict on its debates could be read"
            raise Unreadable(reason, "", fault.call, fault.cause, fault.seat)
        first, second = game.first_chooses - game.drawn, game.drawn - game.second_chooses
        measures = (
            (DRAWN, game.drawn if argues_first else 1 - game.drawn),
            (AGENT_GAIN, first if argues_first else second),
            (OPPONENT_GAIN, second if argues_first else first),
        )
        verdict, low, high = game.likeliest, ends[0].value, ends[1].value
        turns = [replace(turn, at_once=False) for turn in verdict.transcript.turns]
        return replace(
            verdict,
            probs=(game.value, 1 - game.value),
            measures=measures,
            bounds=ranges_given((low, high), 0, 2) if ends[0] is not ends[1] else (),
            unheard=tuple(turn for turn in game.drafts if turn not in turns),
        )

    async def _play(
        self, transcript: Transcript, steps: Sequence[tuple[Seat, ...]], ask: Ask
    ) -> Ends:
        """The game from this transcript on. steps: the further speakers. The seats of a step
        speak concurrently."""
        if not steps:
            return await self._decided(transcript, ask)
        seats, *later = steps
        # Two numbers: a speaker that picks among its own drafts uses the repeats of one number.
        asks = [ask, *(with_repeat(with_repeat(ask, n), 0) for n in range(1, self.pool))]
        speeches = (
            gather_deterministic(*(seat.speak(transcript, draw) for draw in asks)) for seat in seats
        )
        drafts = await gather_deterministic(*speeches)
        # Silent drafts are dropped unless all are silent.
        pools = [[turn for turn in choices if not turn.silent] or choices for choices in drafts]
        games = await gather_deterministic(
            *(self._play(laid_down(transcript, *turns), later, ask) for turns in product(*pools))
        )
        turns = tuple(turn for choices in drafts for turn in choices)
        first = seats[0].side == transcript.question.answers[0]
        width = len(pools[1]) if len(seats) == 2 else 1 if first else len(games)
        low, high = (
            solved([column[n : n + width] for n in range(0, len(column), width)], turns)
            for column in zip(*games, strict=True)
        )
        return (low, low) if all(one is other for one, other in games) else (low, high)

    async def _decided(self, transcript: Transcript, ask: Ask) -> Ends:
        """The end of a debate: the judge's belief, or both bounds of an unread one."""
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
    """The subgame before one choice. games: the subgames after each choice. The first answer's side
    chooses the row, the other side the column. drafts: the choices."""
    columns = list(zip(*games, strict=True))
    best = equilibrium([[game.value for game in row] for row in games])
    row, column = best.rows.index(max(best.rows)), best.columns.index(max(best.columns))
    subgames = [game for row in games for game in row]
    likeliest = games[row][column].likeliest
    doubts = tuple(dict.fromkeys(doubt for game in subgames for doubt in game.likeliest.doubts))
    return Subgame(
        replace(likeliest, doubts=doubts) if doubts else likeliest,
        best.value,
        fmean(game.drawn for row in games for game in row),
        max(fmean(game.first_chooses for game in row) for row in games),
        min(fmean(game.second_chooses for game in column) for column in columns),
        any(game.judged for game in subgames),
        (*drafts, *(draft for game in subgames for draft in game.drafts)),
    )


def equilibrium(payoff: Sequence[Sequence[float]]) -> Equilibrium:
    """The equilibrium of a zero-sum game in which columns pay rows the entry. The first saddle
    point, if any; otherwise found by linear programming."""
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
    """The highest value that the rows can secure, and a mixed strategy that secures it."""
    import numpy as np
    from scipy.optimize import linprog

    entries = np.asarray(payoff)
    m, n = entries.shape
    # Maximise w under: the strategy x gets at least w against every column.
    solution = linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.hstack((-entries.T, np.ones((n, 1)))),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(m), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    if not solution.success or solution.x is None:
        raise ValueError(f"the game has no solution: {solution.message}")
    *strategy, value = solution.x.round(DECIMALS).tolist()
    return value, tuple(strategy)
