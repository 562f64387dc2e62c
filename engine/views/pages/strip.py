"""The strips of a run's pages: its state while it goes on, and the origin of its figures.

A run under way gives one snapshot a second. The foot of every page names models, data and versions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

from ...analysis.findings.finding import Column
from ...display.progress import MIN_CALLS, Snapshot, calls_of
from ...display.table import NONE
from ...display.text import dollars, minutes, printable, short
from ...display.throughput import WAITING
from ...errors import EngineError, RateLimited
from ...models.accounting.ledger import QUANTILES, UsageTotals, sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...providers.simulated import PREFIX
from ...run.listing import state_of
from ...run.observer import read_progress
from ...run.reader import RunReader, origins
from ...run.run_folder import SWEEP
from ...sweep.document import Document
from ...system.files import holder
from .environment import page
from .links import Links, PageQuery

TILES = (
    ("cells_text", "cells"),
    ("calls", "calls"),
    ("sent", "sent"),
    ("stored", "from cache"),
    ("reused", "reused"),
    ("in_flight", "in flight"),
    ("failed", "failed"),
    ("elapsed", "elapsed"),
    ("left", "left"),
    ("dollars", "spent"),
    ("forecast", "forecast"),
)
"""Figures of the strip: (key of a snapshot, name)."""


def limited(paid: UsageTotals) -> int:
    return sum(n for _, kind, n in paid.faults if kind == RateLimited.__name__)


def _paid(
    head: str, get: Callable[[UsageTotals], float], text: Callable[[float], str] = "{:,.0f}".format
) -> Column:
    return Column(head, lambda line: text(get(line[1])), value=lambda line: get(line[1]))


def _took(name: str, share: float) -> Column:
    def get(paid: UsageTotals) -> float:
        return paid.latency.quantile(share) if paid.latency.replies else nan

    return _paid(name, get, lambda value: NONE if isnan(value) else f"{value:.2f} s")


COUNTS = (
    _paid("requests", lambda paid: paid.sent),
    _paid("replies", lambda paid: paid.stored),
    _paid("refused", lambda paid: dict(paid.outcomes).get("refused", 0)),
    _paid("429s", limited),
    _paid("faults", lambda paid: paid.count("failed") + paid.count("unsent") - limited(paid)),
    _paid("unconfirmed", lambda paid: paid.count("unconfirmed")),
    _paid("tokens in", lambda paid: paid.usage.input_tokens, lambda value: short(int(value))),
    _paid(
        "cached",
        lambda paid: paid.usage.cache_read_tokens / max(paid.usage.input_tokens, 1),
        "{:.0%}".format,
    ),
    _paid("tokens out", lambda paid: paid.usage.output_tokens, lambda value: short(int(value))),
    _paid("spent", lambda paid: paid.dollars, dollars),
)
PAID = (
    *COUNTS,
    *(_took(name, share) for name, share in QUANTILES.items()),
    _paid("tokens/s", lambda paid: paid.latency.pace),
)
"""Columns of the ledger; its lines are (model, usage)."""


def snapshot_of(run: RunReader) -> dict[str, Any]:
    """The figures of the strip now, formatted. RunFolderError."""
    finished, failed = run.tables.count()
    now, ledger = read_progress(run.folder), read_ledger(run.folder)
    running, cells = holder(run.folder) is not None, run.manifest.cells
    share = finished / cells if cells else 1.0
    spread = share or now.ended / max(now.expected, 1)
    paid, state = sum_usage(ledger.values()).dollars, state_of(running, finished, cells)
    waits, limits = list[str](), list[str]()
    for line in now.models if running else ():
        (waits if line.startswith(WAITING) else limits).append(line)
    return {
        "state": state,
        "mode": "waiting" if waits else state,
        "cells": cells,
        "finished": finished,
        "cells_text": f"{finished:,} of {cells:,} ({share:.0%})",
        "failed": f"{failed:,}",
        "elapsed": minutes(now.elapsed),
        "left": minutes(now.left) if running and now.left is not None else NONE,
        "calls": calls_of(now),
        "sent": f"{now.new:,}",
        "stored": f"{now.stored:,}",
        "reused": f"{now.shared:,}",
        "in_flight": f"{now.in_flight if running else 0:,}",
        "dollars": (now.spend if running else "") or f"${paid:,.2f}",
        "forecast": f"${paid / spread:,.2f}" if paid and now.ended >= MIN_CALLS else NONE,
        "limits": printable("\n".join(limits)),
        "note": printable("\n".join((now.note, *waits)).strip()) or _note(now, ledger, running),
    }


def _note(now: Snapshot, ledger: Mapping[str, Any], running: bool) -> str:
    if not running:
        return "No process is running it."
    if ledger or now.models:
        return ""
    return "Simulated models answer at once: only this machine limits them."


MAX_CHECKED = 5_000
"""Maximum number of problems whose answers are checked for leakage."""


_KNOWN: "dict[str, tuple[object, Provenance]]" = {}


@dataclass(frozen=True, slots=True)
class Provenance:
    """The facts about its run on every page."""

    simulated: str
    """`simulated`, `partly simulated`, or nothing."""
    line: str


FAILURES, COST, ORIGIN = "Failures and flags", "Cost", "Where this comes from"
"""Titles of pages, and of their entries in the menu."""


def measures_of(run: RunReader) -> dict[str, str]:
    """By name, the titles of the analyses that have a page and suit the run."""
    # The server starts without the libraries of analyses.
    from ...analysis.catalogue import TOP, analysis, names

    kinds = {name: analysis(name) for name in names() if name not in TOP}
    return {name: kind.title for name, kind in kinds.items() if kind.title and kind().suits(run)}


def run_page(template: str, run: RunReader, links: Links, **values: Any) -> str:
    """One page about a run, with its origin in the foot. values: title, active_tab, and others."""
    menu: list[tuple[str, str]] = []
    if links.to("overview"):
        measures = [(title, links.to("measure", kind=n)) for n, title in measures_of(run).items()]
        menu = [(FAILURES, links.to("failures")), (COST, links.to("cost")), *measures]
        menu.append((ORIGIN, links.to("origin")))
    return page(template, links, run_name=run.name, origin=provenance(run), menu=menu, **values)


def provenance(run: RunReader) -> Provenance:
    """The facts that need no outcome; kept until another one lands."""
    cached = _KNOWN.get(str(run.folder))
    if cached is None or cached[0] != run.stamp:
        cached = _KNOWN[str(run.folder)] = run.stamp, _provenance_of(run)
    return cached[1]


def _provenance_of(run: RunReader) -> Provenance:
    models = [model for model, _ in run.sweep.roles]
    made_up = [model for model in models if model.startswith(PREFIX)]
    kind = ""
    if made_up:
        kind = "simulated" if len(made_up) == len(models) else "partly simulated"
    sources = origins(run.sweep, run.folder) or (f"models: {', '.join(models)}",)
    manifest = run.manifest
    facts = (*sources, f"{manifest.name} {manifest.identity[:12]}", f"oversight {manifest.version}")
    return Provenance(kind, " · ".join(facts))


def origin_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """The origin of the figures: models, data, prompts, checks and versions."""
    facts = list(_facts(run, [model for model, _ in run.sweep.roles]))
    if links.selection:
        facts.append(("this site", links.selection))
    title = f"where {run.name} comes from"
    return run_page("origin", run, links, title=title, active_tab=ORIGIN, facts=facts)


def _facts(run: RunReader, models: list[str]) -> Iterator[tuple[str, str]]:
    # These import numpy, which other pages of an active run do not need.
    from ....protocols.datasets.leak import leakage_check
    from ...analysis.rows import read_rows

    manifest = run.manifest
    yield "models", ", ".join(models)
    if sources := origins(run.sweep, run.folder):
        yield "replies", "; ".join(sources)
    yield "sweep", f"{manifest.name} {manifest.identity[:12]}"
    yield "problems", f"{len(run.problems):,}{_data(run)}"
    yield "prompts", manifest.prompts or "not known"
    if 0 < len(run.problems) <= MAX_CHECKED:
        yield "leakage", leakage_check(run.problems).line.removeprefix("leakage check ")
    results = read_rows(run).results("brier", (), guess=False)
    if results.health:
        issues = (f"{issue.name} {issue.share:.1%}" for issue in results.health.failing)
        yield "health", ", ".join(issues) or "nothing unusual"
    if argued := [row for row in results.rows if row.row.agent]:
        checked = sum(row.compliance.checked for row in argued)
        yield "compliance", f"side check in {checked:,} of {len(argued):,} rows with an agent"
    total = sum_usage(read_ledger(run.folder).values())
    yield "cost", dollars(total.dollars) if total.stored else "none: simulated or cached"
    yield "version", manifest.version


def _data(run: RunReader) -> str:
    try:
        problems = Document.read(run.folder / SWEEP).value.get("problems")
    except (EngineError, ValueError, AttributeError, OSError):
        return ""
    if isinstance(problems, dict):
        return ": " + ", ".join(_named(name, value) for name, value in list(problems.items())[:4])
    return f": {problems}" if isinstance(problems, str) else ""


def _named(name: str, value: object) -> str:
    if isinstance(value, dict):
        return f"{name} ({', '.join(f'{key} {text}' for key, text in value.items())})"
    return f"{name} {value}"
