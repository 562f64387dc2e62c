"""What the rows of a run cost a problem, over a sample of its problems."""

from dataclasses import dataclass

from ..decisions.calls import calls_of_run, sample_of
from ..decisions.costs import spent_by_row
from ..runs.reader import RunReader
from ..sweeps.grid import GridRow
from .completed import tallied


@dataclass(frozen=True, slots=True)
class SampledCost:
    """Cost of one row per problem: means over a sample of problems."""

    row: GridRow
    calls: float
    shared: float
    """Share of the calls that more than one world has."""
    input: float
    output: float
    dollars: float | None
    asd: float | None
    """Over all problems."""


def sampled_costs(run: RunReader) -> tuple[int, list[SampledCost]]:
    """(number of problems sampled, cost of each row over them)."""
    completed, rows = tallied(run), run.sweep.rows
    sample = sample_of(run.sweep)
    found = calls_of_run(run, sample)
    alone, _ = spent_by_row(found, len(rows), run.prices)
    count = len(sample)
    return count, [
        SampledCost(
            row,
            spent.calls / count,
            1 - spent.calls / asked if asked else 0.0,
            spent.input_tokens / count,
            spent.output_tokens / count,
            spent.dollars / count if spent.calls and spent.dollars is not None else None,
            result.asd.value if result.asd else None,
        )
        for row, spent, asked, result in zip(
            rows, alone, found.asked, completed.results.rows, strict=True
        )
    ]
