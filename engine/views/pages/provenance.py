"""Where the figures of a page come from: models, data, prompts, checks, cost, versions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...display.quantity import dollars
from ...errors import EngineError
from ...models.accounting.ledger import sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...providers.simulated import PREFIX
from ...run.reader import RunReader
from ...run.run_folder import SWEEP
from ...run.sources import origins
from ...sweep.document import Document
from .environment import page
from .routes import Addresses, Asked

MAX_CHECKED = 5_000
"""Problems up to which the form of their answers is looked at."""


_KNOWN: "dict[str, tuple[object, Provenance]]" = {}


@dataclass(frozen=True, slots=True)
class Provenance:
    """What every page says of the run behind it."""

    simulated: str
    """`simulated`, `partly simulated`, or nothing."""
    line: str


def run_page(
    template: str, run: RunReader, links: Addresses, *, title: str, here: str, **values: Any
) -> str:
    """One page about a run, with a line at its foot of where it comes from. here: its tab."""
    return page(
        template,
        links,
        title=title,
        run_name=run.name,
        here=here,
        origin=provenance(run),
        **values,
    )


def provenance(run: RunReader) -> Provenance:
    """What is known without a look at any outcome; kept until another one lands."""
    known = _KNOWN.get(str(run.folder))
    if known is None or known[0] != run.stamp:
        known = _KNOWN[str(run.folder)] = run.stamp, _told(run)
    return known[1]


def _told(run: RunReader) -> Provenance:
    models = [model for model, _ in run.sweep.roles]
    made_up = [model for model in models if model.startswith(PREFIX)]
    kind = ""
    if made_up:
        kind = "simulated" if len(made_up) == len(models) else "partly simulated"
    come = origins(run.sweep, run.folder) or (f"models: {', '.join(models)}",)
    manifest = run.manifest
    told = (*come, f"{manifest.name} {manifest.identity[:12]}", f"oversight {manifest.version}")
    return Provenance(kind, " · ".join(told))


def origin_page(run: RunReader, links: Addresses, asked: Asked) -> str:
    """All that is known of where the figures come from."""
    facts = list(_facts(run, [model for model, _ in run.sweep.roles]))
    if links.taken:
        facts.append(("this site", links.taken))
    title = f"where {run.name} comes from"
    return run_page("origin", run, links, title=title, here="more", facts=facts)


def _facts(run: RunReader, models: list[str]) -> Iterator[tuple[str, str]]:
    # They take numpy, for which no other page of a run under way waits.
    from ....protocols.datasets.leak import leakage_check
    from ...analysis.rows import read_rows

    manifest = run.manifest
    yield "models", ", ".join(models)
    if come := origins(run.sweep, run.folder):
        yield "replies", "; ".join(come)
    yield "sweep", f"{manifest.name} {manifest.identity[:12]}"
    yield "problems", f"{len(run.problems):,}{_data(run)}"
    yield "prompts", manifest.prompts or "not known"
    if 0 < len(run.problems) <= MAX_CHECKED:
        yield "leakage", leakage_check(run.problems).line.removeprefix("leakage check ")
    results = read_rows(run).results("brier", (1.0,))
    if results.health:
        signs = (f"{sign.name} {sign.share:.1%}" for sign in results.health.off)
        yield "health", ", ".join(signs) or "nothing unusual"
    if argued := [row for row in results.rows if row.row.agent]:
        checked = sum(row.compliance.checked for row in argued)
        yield "compliance", f"side check in {checked:,} of {len(argued):,} rows with an agent"
    total = sum_usage(read_ledger(run.folder).values())
    yield "cost", dollars(total.dollars) if total.stored else "none: simulated or cached"
    yield "version", manifest.version


def _data(run: RunReader) -> str:
    try:
        told = Document.read(run.folder / SWEEP).value.get("problems")
    except (EngineError, ValueError, AttributeError, OSError):
        return ""
    if isinstance(told, dict):
        return ": " + ", ".join(_named(name, value) for name, value in list(told.items())[:4])
    return f": {told}" if isinstance(told, str) else ""


def _named(name: str, value: object) -> str:
    if isinstance(value, dict):
        return f"{name} ({', '.join(f'{key} {each}' for key, each in value.items())})"
    return f"{name} {value}"
