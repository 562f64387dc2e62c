"""Calls of a run and the rows that use each; what each row costs, with all calls that it makes.

A call that several rows make is paid once: the run costs less than its rows by themselves.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ...cache.reply import Usage
from ..models.accounting.prices import PriceList
from ..run.reader import RunReader
from ..run.record.cells import OF_VERDICT, numbers_of
from ..system.process import gc_relaxed
from .findings.finding import Part, number, program, word
from .rows import RunRows

CostAxis: TypeAlias = Literal["dollars", "tokens"]


MOST_PROBLEMS, READ = 10, 300
"""Limits of a sample: problems, and rows times problems."""


@dataclass(slots=True)
class PaidCall:
    """A distinct call of a run."""

    model: str
    usage: Usage
    rows: int = 0
    """Bit set of the numbers of the rows that use it."""
    judging: bool = False
    """Whether a verdict was read from its reply."""


@dataclass(slots=True)
class RunCalls:
    """Every distinct call of a run's cells, by its address and the endpoint that it was sent to."""

    calls: dict[tuple[str, str], PaidCall] = field(default_factory=dict)
    """By address and the endpoint's identity: the same in every run."""
    problems: frozenset[str] | None = None
    """Ids of the problems whose calls these are; None for all."""


def calls_of_run(run: RunReader, problems: frozenset[str] | None = None) -> RunCalls:
    """Calls of all cells of a run that have an outcome. problems: ids of those whose calls are
    wanted; None for all. RunFolderError."""
    sweep, tables = run.sweep, run.tables
    wanted = [n for n, each in enumerate(sweep.problems) if problems is None or each.id in problems]
    spans = [sweep.span(n) for n in wanted] if problems is not None else [range(len(sweep))]
    found = RunCalls(problems=problems)
    with gc_relaxed():
        rows: dict[int, int] = {}
        judging = set[int]()
        for span in spans:
            for stored in tables.ended(span, "asked", "judgements"):
                row = 1 << stored.cell.row
                for _, _, number, *_ in stored.asked:
                    rows[number] = rows.get(number, 0) | row
                for judgement in stored.judgements:
                    if judgement[2] == OF_VERDICT:
                        judging.update(numbers_of(judgement))
        for number, address, endpoint, *rest in tables.stored_calls(rows):
            model, identity, *_ = tables.endpoint(endpoint)
            # The reply of a call may have been recorded twice, in two forms.
            paid = found.calls.setdefault((address, identity), PaidCall(model, Usage(*rest[7:11])))
            paid.rows |= rows[number]
            paid.judging |= number in judging
    return found


@dataclass(frozen=True, slots=True)
class Spent:
    """Billed usage of a set of calls."""

    calls: int = 0
    dollars: float | None = 0.0
    """None if the price of a model is unknown."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens read from providers' prompt caches."""
    judge_tokens: int = 0
    """Input and output tokens of the calls from which verdicts were read."""


@dataclass(frozen=True, slots=True)
class RowCost:
    """Cost of one row by itself."""

    name: str
    problems: int
    """Problems with at least one cell of the row run."""
    alone: Spent

    def each(self, axis: CostAxis) -> float:
        """Cost a problem."""
        its = self.alone
        tokens = its.input_tokens + its.output_tokens
        return ((its.dollars or 0.0) if axis == "dollars" else tokens) / max(self.problems, 1)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of all rows of a run, in the order of its report."""

    rows: tuple[RowCost, ...]
    total: Spent
    """Cost of all distinct calls."""
    unpriced: tuple[str, ...]
    """Models without a known price."""
    sampled: int = 0
    """Problems, if these are the costs of some alone."""


def row_costs(run: RunRows, found: RunCalls, prices: PriceList) -> Costs:
    """Costs of the rows of a run."""
    prices = prices.named(run.sweep.meanings)
    every = found.calls.values()
    by_row: list[list[PaidCall]] = [[] for _ in run.names]
    for call in every:
        rows = call.rows
        while rows:
            by_row[(rows & -rows).bit_length() - 1].append(call)
            rows &= rows - 1
    return Costs(
        tuple(
            RowCost(run.names[n], _problems(run, n, found.problems), spent(calls, prices))
            for n, calls in enumerate(by_row)
        ),
        spent(every, prices),
        tuple(m for m in dict.fromkeys(each.model for each in every) if prices.find(m) is None),
        len(found.problems or ()),
    )


def sampled_costs(run: RunRows) -> Costs:
    """Costs of the rows of a run over its first ten problems or fewer, at the listed prices: for a
    page that is to be there at once."""
    count = max(1, min(MOST_PROBLEMS, READ // len(run.names)))
    sample = frozenset(problem.id for problem in run.sweep.problems[:count])
    return row_costs(run, calls_of_run(run.run, sample), run.run.prices)


def _problems(run: RunRows, row: int, among: Collection[str] | None) -> int:
    ran = np.unique(run.table.cells.problem[run.table.completed(row)]).tolist()
    return sum(among is None or run.sweep.problems[n].id in among for n in ran)


def spent(calls: Iterable[PaidCall], prices: PriceList) -> Spent:
    """What these calls took, each once."""
    count = read = wrote = cached = judged = 0
    dollars: float | None = 0.0
    for call in calls:
        usage, price = call.usage, prices.find(call.model)
        count += 1
        read += usage.input_tokens
        wrote += usage.output_tokens
        cached += usage.cache_read_tokens
        dollars = None if dollars is None or price is None else dollars + price.cost(usage)
        if call.judging:
            judged += usage.input_tokens + usage.output_tokens
    return Spent(count, dollars, read, wrote, cached, judged)


def costs_part(costs: Costs, ledger: float | None) -> Part:
    """The cost of each row in the order of the report. ledger: dollars recorded in the run's; None
    if it paid nothing."""
    notes = [
        "Each row by itself, with all calls that it makes; those of several rows are paid once.",
        "judge's: tokens in and out of the calls from which verdicts were read.",
    ]
    if ledger is not None:
        notes.append(f"the ledger has ${ledger:,.2f}, with requests that failed or were sent again")
    if costs.unpriced:
        notes.append(f"no price is known for {', '.join(costs.unpriced)}; give one with --prices")
    # Dollars are shown unless everything was free.
    priced = costs.total.dollars is None or costs.total.dollars > 0
    return Part(
        "rows",
        "cost by row",
        [
            word("row", "name"),
            program("problems", "problems"),
            program("alone", "alone"),
            *[number("$ alone", "alone.dollars", ",.4f", key="")] * priced,
            number("calls", "alone.calls", key=""),
            number("tokens in", "alone.input_tokens", key=""),
            number("cached", "alone.cached_tokens", key=""),
            number("out", "alone.output_tokens", key=""),
            number("judge's", "alone.judge_tokens", key=""),
        ],
        costs.rows,
        notes,
        total=RowCost("all rows", 0, costs.total),
    )
