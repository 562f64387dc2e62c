"""Reports, raters and contrasts of a few planted values, row by row: `figures.md`."""

from pathlib import Path

from msgspec.structs import replace

from oversight.engine.analysis import frontier, pairs, raters
from oversight.engine.analysis.reports import aggregate, frames, health
from oversight.engine.analysis.reports.results import Results
from oversight.engine.analysis.scoring.judgements import Judgements
from oversight.engine.sweep.grid import GridRow
from oversight.protocols import counts
from oversight.protocols.prompts.prompt_set import default_prompts
from oversight.protocols.transcript import Failure
from tests.engine import verdicts
from tests.engine.analysis import test_raters
from tests.engine.analysis.reports import test_doubts, test_report, test_results
from tests.engine.verdicts import NAIVE, PROPAGANDA, SMALL, records, sweep
from tests.sessions import sessions
from tests.tables import expressions

MODULES = (aggregate, counts, frames, frontier, pairs, raters, verdicts)
TESTS = (test_raters, test_doubts, test_results, test_report)
OTHER_WORDS = default_prompts().changed("other", {"judge.role": "Judge."})


def bounds(measured: Results) -> tuple[object, ...] | None:
    """n, in doubt, drop, keep, worst, best."""
    (only,) = measured.rows
    return only.bounds and test_doubts.figures(only.bounds)


def checked(*rows: int) -> str:
    """The line on a run of two verbal refusals in four; rows: how many a checker read, and all."""
    check = health.HealthCheck()
    for n, record in enumerate(records(sweep(PROPAGANDA), SMALL)):
        check.add(replace(record, counts={"off_side": n % 2}))
    return check.health(rows).lines()[0]


def unread(*causes: str) -> str:
    """The line on a run whose cells failed for these causes."""
    sound, check = next(records(sweep(NAIVE), SMALL)), health.HealthCheck()
    for cause in causes:
        kind = "declined" if cause == "refused" else "unreadable"
        check.add(replace(sound, probs=None, failure=Failure(kind, "no", cause=cause)))
    return check.health().lines()[0]


def rated(**probabilities: list[float]) -> Judgements:
    """Each judge's beliefs in the truth."""
    lines = [
        test_raters.judged(judge, f"q{n}", p)
        for judge, every in probabilities.items()
        for n, p in enumerate(every)
    ]
    return Judgements.of(lines)


def fitting(ours: str, theirs: str) -> dict[int, int]:
    """The rows of two runs that are compared; a row is a protocol, an agent and a judge."""
    one, two = (
        [GridRow(*row.split(), "", {"": row}) for row in rows.split(", ")]
        for rows in (ours, theirs)
    )
    return pairs.matched(one, two)


@sessions(Path(__file__).with_name("figures.md"))
def test_figures_follow_from_planted_values(session, request):
    names = {name: value for module in (*MODULES, *TESTS) for name, value in vars(module).items()}
    names = globals() | names
    session.check(request, expressions(names), names)
