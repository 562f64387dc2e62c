"""What debate is worth when both sides choose their speeches: rows that play the debate game."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from oversight.engine.decisions.rows import RunRows
from oversight.engine.errors import UsageError
from oversight.engine.reports.aggregate import OutcomeTable
from oversight.engine.runs.run_folder import outcomes
from oversight.protocols.mechanisms.debate_game import AGENT_GAIN, DRAWN, DebateGame
from oversight.protocols.scoring.sample import Sample, paired
from oversight.protocols.scoring.statistics import Estimate, estimate, estimates


@dataclass(frozen=True, slots=True)
class RowGame:
    """One row's game, over the problems that have a verdict in every world of some draw."""

    name: str
    pool: int
    """Drafts of every speech."""
    problems: int
    drawn: Estimate
    """ASD where both sides speak drafts at random: no choice, n = 1."""
    equilibrium: Estimate
    """ASD where both sides choose in equilibrium."""
    difference: Estimate
    """Equilibrium less drawn, problem by problem."""
    truth_gains: Estimate
    """Probability that the agent alone gains by choosing its drafts, where it argues for the
    truth."""
    lie_gains: Estimate
    """The same where it argues for anything else."""


def plays_game(run: RunRows, row: int) -> bool:
    return isinstance(run.sweep.rows[row].protocol, DebateGame)


def row_games(
    run: RunRows, rows: Sequence[int], score: str = "brier", *, seed: int = 0
) -> list[RowGame]:
    """The games of rows that play one. UsageError if one has no whole problem."""
    drawn = _as_drawn(run)
    return [_row_game(run, drawn, row, score, seed) for row in rows]


def _as_drawn(run: RunRows) -> OutcomeTable:
    """The outcomes of games, with the belief where nobody chooses in place of the verdict."""
    table = OutcomeTable(run.sweep)
    for record in outcomes(run.folder):
        if DRAWN in record.measures:
            belief = float(record.measures[DRAWN])
            in_order = (belief, 1 - belief) if record.side == 0 else (1 - belief, belief)
            table.add(msgspec.structs.replace(record, probs=in_order))
    return table


def _row_game(run: RunRows, drawn: OutcomeTable, row: int, score: str, seed: int) -> RowGame:
    found, alike = (table.worlds(row).samples(score, ()) for table in (run.table, drawn))
    if found is None or alike is None:
        raise UsageError(f"{run.names[row]}: no problem has a verdict in every world of a draw")
    protocol = run.sweep.rows[row].protocol
    assert isinstance(protocol, DebateGame)
    asd = (alike.asd, found.asd, paired(found.asd, alike.asd))
    return RowGame(
        run.names[row],
        protocol.pool,
        len(found.asd.questions),
        *estimates(asd, seed=seed),
        *(estimate(gain, seed=seed) for gain in _gains(run, row)),
    )


def _gains(run: RunRows, row: int) -> list[Sample]:
    """What the agent gains by choosing alone, where it argues for the truth and where it does
    not."""
    told = run.table.secondary.by_world(row, run.table.probs)
    gain = next(each for each in told if each.name == AGENT_GAIN)
    return [sample for sample in (gain.truth, gain.lie) if sample is not None]
