"""The overview of a run: its facts, and a forest plot that is a table."""

from collections.abc import Sequence
from datetime import datetime

import orjson

from ..pictures.data import Forest, forest_of, saved_forest
from ..runs.listing import state_of, touched
from ..runs.lock import holder
from ..runs.reader import Place, RunReader
from ..runs.run_folder import OUTCOMES, REPORT
from .addresses import Addresses
from .environment import page

REPORT_FILES = ("csv", "tex", "json")


def overview(run: RunReader, links: Addresses, score: str, scores: Sequence[str]) -> str:
    """The page. scores: those that it offers a switch to."""
    forest = saved(run, score)
    if forest is None:
        # A finished run has its figures in a file, and the first page need not load numpy.
        from ..pictures.landed import tallied

        forest = forest_of(tallied(run, score).results)
    lines = forest.lines
    agents, judges = ({getattr(line, role) for line in lines} - {""} for role in ("agent", "judge"))

    # A server has every reading, and need not load the sweep here; a bundle has some of them.
    problems = range(1 if links.live else len(run.sweep.problems))

    def link_of(row: int) -> str:
        """The first reading of a row."""
        return next(filter(None, (links.reading(Place(row, n)) for n in problems)), "")

    return page(
        "overview",
        links,
        title=run.name,
        run_name=run.name,
        here="overview",
        forest=forest,
        axis=forest.axis,
        scores=scores,
        agents=len(agents) > 1,
        judges=len(judges) > 1,
        missing=sum(line.missing for line in lines),
        facts=_facts(run, forest) + _alone("agent", agents) + _alone("judge", judges),
        files=[each for each in REPORT_FILES if (run.folder / REPORT / f"report.{each}").exists()],
        link_of=link_of,
    )


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
        return saved_forest(told)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
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
        ("identity", manifest.identity[:12]),
        ("version", manifest.version),
        ("last outcome", f"{datetime.fromtimestamp(touched(run.folder)):%Y-%m-%d %H:%M}"),
    ]
