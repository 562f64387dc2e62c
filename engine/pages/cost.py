"""What a run cost: by model as it was paid, and by row as a sample of problems tells."""

import math
from dataclasses import dataclass

from oversight.engine.accounting.ledger import UsageTotals, sum_usage
from oversight.engine.accounting.ledger_file import read_ledger
from oversight.engine.errors import RateLimited
from oversight.engine.pages.addresses import Addresses, Place
from oversight.engine.pages.environment import page
from oversight.engine.pages.opened import OpenedRun
from oversight.engine.pages.reading import Asked, replayed
from oversight.engine.sweeps.rows import Row

READINGS = 300
"""That are run again from the store to tell what rows cost."""
MOST_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class ModelCost:
    """One model, as the ledger has it."""

    model: str
    role: str
    sent: int
    stored: int
    refused: int
    limited: int
    faults: int
    doubtful: int
    input: int
    cached: float
    """Share of the input."""
    output: int
    dollars: float


@dataclass(frozen=True, slots=True)
class RowCost:
    """One row, by the problem: means over a sample."""

    row: Row
    calls: float
    shared: float
    """Share of the calls that more than one world has."""
    input: float
    output: float
    dollars: float | None
    asd: float | None
    """Over all problems."""


def cost_page(run: OpenedRun, links: Addresses, sampled: int, rows: list[RowCost]) -> str:
    """sampled, rows: as `row_costs` tells them."""
    ledger = read_ledger(run.folder)
    roles = dict(run.sweep.roles)
    return page(
        "cost",
        links,
        title=f"cost of {run.name}",
        run_name=run.name,
        here="cost",
        models=[_model(name, roles.get(name, ""), each) for name, each in ledger.items()],
        total=sum_usage(ledger.values()),
        sampled=sampled,
        rows=rows,
    )


async def row_costs(run: OpenedRun) -> tuple[int, list[RowCost]]:
    """How many problems were looked at, and what each row cost in them."""
    landed = run.landed()
    rows = run.sweep.rows
    count = max(1, min(MOST_PROBLEMS, READINGS // len(rows), len(run.sweep.problems)))
    costs = []
    for number, row in enumerate(rows):
        readings = [await replayed(run, Place(number, problem)) for problem in range(count)]
        worlds = [world for reading in readings for world in reading]
        each = [
            {call.address: call for world in reading for call in world}.values()
            for reading in readings
        ]
        calls = [call for reading in each for call in reading]
        asked = sum(map(len, worlds))
        asd = landed.results.rows[number].asd
        costs.append(
            RowCost(
                row,
                len(calls) / count,
                1 - len(calls) / asked if asked else 0.0,
                sum(call.reply.usage.input_tokens for call in calls) / count,
                sum(call.reply.usage.output_tokens for call in calls) / count,
                _dollars(calls, count),
                asd.mean if asd else None,
            )
        )
    return count, costs


def _dollars(calls: list[Asked], problems: int) -> float | None:
    prices = [call.dollars for call in calls]
    if not prices or None in prices:
        return None
    return math.fsum(price or 0.0 for price in prices) / problems


def _model(name: str, role: str, account: UsageTotals) -> ModelCost:
    limited = sum(count for _, kind, count in account.faults if kind == RateLimited.slug)
    usage = account.usage
    return ModelCost(
        name,
        role,
        account.sent,
        account.stored,
        dict(account.outcomes).get("refused", 0),
        limited,
        account.count("failed") - limited + account.count("unsent"),
        account.count("ambiguous"),
        usage.input_tokens,
        usage.cache_read_tokens / usage.input_tokens if usage.input_tokens else 0.0,
        usage.output_tokens,
        account.dollars,
    )
