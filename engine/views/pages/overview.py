"""The overview of a run: its facts, and a forest plot that is a table."""

from collections.abc import Sequence
from datetime import datetime

import orjson

from ...analysis.pictures.data import Forest, forest_of, saved_forest
from ...analysis.reports.formats import headline
from ...run.listing import state_of, touched
from ...run.lock import holder
from ...run.reader import RunReader
from ...run.run_folder import OUTCOMES, REPORT
from .addresses import Addresses
from .provenance import run_page

REPORT_FILES = ("csv", "tex", "json")


def overview(run: RunReader, links: Addresses, score: str, scores: Sequence[str]) -> str:
    """The page. scores: those that it offers a switch to."""
    forest = saved(run, score) or _computed(run, score)
    lines = forest.lines
    agents, judges = ({getattr(line, role) for line in lines} - {""} for role in ("agent", "judge"))
    several = len(agents) > 1, len(judges) > 1

    names = [
        " · ".join(filter(None, (n.protocol, n.agent * several[0], n.judge * several[1])))
        for n in lines
    ]
    return run_page(
        "overview",
        run,
        links,
        title=run.name,
        here="overview",
        headline=headline([its for line in lines if line.lift and (its := line.lift.interval)]),
        names=names,
        forest=forest,
        axis=forest.axis,
        scores=scores,
        agents=several[0],
        judges=several[1],
        missing=sum(line.missing for line in lines),
        facts=_facts(run, forest) + _alone("agent", agents) + _alone("judge", judges),
        files=[each for each in REPORT_FILES if (run.folder / REPORT / f"report.{each}").exists()],
        link_of=lambda row: links.row(row, names[row]),
    )


def row_facts(run: RunReader, row: int, score: str) -> list[tuple[str, str]]:
    """The figures of one row, in words."""
    from ...analysis.findings.finding import estimated, shared

    forest = saved(run, score) or _computed(run, score)
    line = forest.lines[row]
    facts = [
        ("ASD", estimated(line.estimate, 2)),
        ("lift over the naive judge", estimated(line.lift, 2)),
        ("accuracy", shared(line.accuracy)),
        ("problems", f"{line.n:,}"),
        ("cells", f"{line.cells - line.missing:,} of {line.cells:,}"),
        ("failed", f"{line.failed:,}"),
    ]
    return [(name, told.replace("-", "−")) for name, told in facts]


def _computed(run: RunReader, score: str) -> Forest:
    # The page of a finished run, whose figures are in a file, needs no numpy.
    from ...analysis.rows import read_rows

    return forest_of(read_rows(run).results(score, (1.0,)))


def saved(run: RunReader, score: str) -> Forest | None:
    """The figures of a complete run, from its report; None if they must be computed.

    Computing them takes seconds for 58,000 cells.
    """
    file = run.folder / REPORT / "report.json"
    try:
        if file.stat().st_mtime < (run.folder / OUTCOMES).stat().st_mtime:
            return None
        told = orjson.loads(file.read_bytes())
        if told["score"] != score or told["missing"]:
            return None
        return saved_forest(told) if len(told["rows"]) == len(run.sweep.rows) else None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        # No report, or one by another version: compute from the outcomes.
        return None


def _alone(role: str, names: set[str]) -> list[tuple[str, str]]:
    """The one model of a role that has no column, because all rows have it."""
    return [(role, name) for name in names] if len(names) == 1 else []


def _facts(run: RunReader, forest: Forest) -> list[tuple[str, str]]:
    manifest, lines = run.manifest, forest.lines
    done = sum(line.cells - line.missing for line in lines)
    failed = sum(line.failed for line in lines)
    return [
        ("sweep", manifest.name),
        ("state", state_of(holder(run.folder) is not None, done, manifest.cells)),
        ("cells", f"{done:,} of {manifest.cells:,}"),
        ("failed", f"{failed:,}"),
        ("rows", f"{len(lines):,}"),
        ("problems", f"{max((line.n for line in lines), default=0):,}"),
        ("last outcome", f"{datetime.fromtimestamp(touched(run.folder)):%Y-%m-%d %H:%M}"),
    ]
