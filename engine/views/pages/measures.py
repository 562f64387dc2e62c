"""The pages that are a finding each: cost, and all analyses; and the list of them."""

from collections.abc import Mapping

from ....cache.reply import Usage
from ...analysis.catalogue import analysis, names
from ...analysis.findings.finding import Column, Finding, Part
from ...analysis.frontier import costs_part, sampled_costs
from ...analysis.rows import read_rows
from ...display.quantity import dollars, short
from ...errors import EngineError
from ...models.accounting.ledger import UsageTotals, sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...run.reader import RunReader
from .findings import figure_of, finding_page
from .links import Asked, Links, one_of
from .strip import PAID, run_page


def cost_page(run: RunReader, links: Links, asked: Asked) -> str:
    """What was paid for each model, and what each row costs over a sample of problems, so that the
    page is there at once."""
    ledger = read_ledger(run.folder)
    paid, parts, said = sum_usage(ledger.values()), [_models(run, ledger)], list[str]()
    try:
        said.append(_all_calls(run))
        costs = sampled_costs(read_rows(run))
        parts.append(costs_part(costs, paid.dollars or None))
        said.append(
            f"Rows: all calls of {costs.sampled:,} of {len(run.problems):,} problems, at list "
            "prices."
        )
    except EngineError as exc:
        said.append(str(exc))
    if not ledger:
        said.append("The ledger is empty: models are simulated, or all came from the store.")
    if paid.doubtful:
        said.append(f"Up to {dollars(paid.doubtful)} more for requests whose end is not known.")
    return finding_page(
        run,
        links,
        Finding(tuple(parts)),
        title="Cost",
        lead="What was paid for each model, and what a row costs by itself.",
        said=said,
    )


def _all_calls(run: RunReader) -> str:
    """What all distinct calls of a run took together."""
    found = run.tables.fetched(
        "SELECT model, count(*), total(input_tokens), total(output_tokens),"
        " total(cache_read_tokens), total(cache_write_tokens)"
        " FROM calls JOIN endpoints USING(endpoint) GROUP BY model"
    )
    usages = {model: Usage(int(a), int(b), int(c), int(d)) for model, _, a, b, c, d in found}
    known = {model: listed for model in usages if (listed := run.prices.find(model))}
    told = f"The whole run: {sum(line[1] for line in found):,} calls, each counted once, "
    told += f"{short(sum(used.input_tokens for used in usages.values()))} tokens in and "
    told += f"{short(sum(used.output_tokens for used in usages.values()))} out"
    total = sum(known[model].cost(used) for model, used in usages.items() if model in known)
    if total and known.keys() == usages.keys():
        told += f"; {dollars(total)} at list prices"
    return f"{told}."


def _models(run: RunReader, ledger: Mapping[str, UsageTotals]) -> Part:
    """The ledger, a line a model."""
    roles = dict(run.sweep.roles)
    columns = [
        Column("model", lambda line: line[0], words=True),
        Column("role", lambda line: roles.get(line[0], ""), words=True),
        *PAID,
    ]
    notes = (
        "Median, p95 and p99: from a request's leaving to its reply; tokens/s: output of one call "
        "while it is under way.",
    )
    total = ("all", sum_usage(ledger.values())) if len(ledger) > 1 else None
    return Part("models", "by model, as paid", columns, list(ledger.items()), notes, total=total)


def measures_of(run: RunReader) -> list[str]:
    """The names of the analyses that have a page, and suit the run."""
    return [name for name in names() if (kind := analysis(name)).title and kind().suits(run)]


def measure_page(run: RunReader, links: Links, asked: Asked) -> str:
    """An analysis. What cannot be told of this run is said in its place."""
    name = one_of(asked.kind, measures_of(run), "measure")
    kind = analysis(name)
    finding, said = Finding(()), []
    try:
        finding = kind().at_once(read_rows(run), range(len(run.sweep.rows)), asked.score)
    except EngineError as exc:
        said = [str(exc)]
    return finding_page(
        run,
        links,
        finding,
        title=kind.title,
        lead=kind.lead,
        said=said,
        drawing=figure_of(run, links, name, asked.score),
    )


def more_page(run: RunReader, links: Links, asked: Asked) -> str:
    """The other pages of the run: those that have something to show."""
    kinds = {name: analysis(name) for name in measures_of(run)}
    pages = [
        (links.to("failures"), "Failures and doubts", "Why cells have no verdict, by cause."),
        (links.to("cost"), "Cost", "What was paid for each model, and what a row costs by itself."),
        *((links.to("measure", kind=n), its.title, its.lead) for n, its in kinds.items()),
        (links.to("search"), "Search", "Words in what was said, each with a link to the turn."),
        (links.to("origin"), "Where this comes from", "Models, data, prompts, checks, versions."),
    ]
    return run_page(
        "more",
        run,
        links,
        title=f"more of {run.name}",
        here="more",
        pages=[each for each in pages if each[0]],
    )
