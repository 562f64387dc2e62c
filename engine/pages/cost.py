"""The cost of a run: by model from the ledger, and by row from a sample of problems."""

from dataclasses import dataclass

from ..accounting.latency import QUANTILES, Latency
from ..accounting.ledger import UsageTotals, sum_usage
from ..accounting.ledger_file import read_ledger
from ..decisions.costs import sampled_costs
from ..decisions.rows import read_rows
from ..errors import RateLimited
from ..pictures.completed import tallied
from ..runs.reader import RunReader
from .addresses import Addresses
from .provenance import run_page


@dataclass(frozen=True, slots=True)
class ModelCost:
    """The ledger's figures of one model."""

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
    latency: Latency


def cost_page(run: RunReader, links: Addresses) -> str:
    ledger = read_ledger(run.folder)
    roles = dict(run.sweep.roles)
    costs = sampled_costs(read_rows(run))
    return run_page(
        "cost",
        run,
        links,
        title=f"cost of {run.name}",
        here="cost",
        models=[_model(name, roles.get(name, ""), each) for name, each in ledger.items()],
        quantiles=QUANTILES,
        sampled=costs.sampled,
        total=sum_usage(ledger.values()),
        rows=list(zip(run.sweep.rows, costs.rows, tallied(run).results.rows, strict=True)),
    )


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
        account.latency,
    )
