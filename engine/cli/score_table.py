"""The tables of `oversight score`."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from oversight.engine.display.table import error_text
from oversight.engine.reports.scored import (
    Scored,
    asd_bounds,
    estimated,
    failed,
    measure_names,
    samples,
)
from oversight.protocols.scores import SCORES, Compat
from oversight.protocols.scoring.bounds import Bounds
from oversight.protocols.scoring.statistics import Estimate

DROPPED = """
  dropped: without the questions that lack a verdict. worst, best: with them, every missing
  verdict being the worst or the best for ASD."""


def print_tables(
    file: str, scored: Sequence[Scored], betas: Sequence[float], compat: Compat
) -> None:
    """Means with intervals and, where a world has no verdict, what that could change."""
    over = {name: samples(scored, name, compat) for name in SCORES}
    lost = len(failed(scored))
    shown: list[Table | str] = [_heading(file, len(scored), lost, compat)]
    if lost < len(scored):
        found = estimated(over)
        most = max((of_score[0] for of_score in found.values()), key=lambda each: each.n)
        shown += [_means(found, measure_names(betas)), _legend(most)]
    if lost:
        shown += [_extremes({name: asd_bounds(scored, name, compat) for name in SCORES}), DROPPED]
    console = Console(highlight=False, markup=False, emoji=False)
    for each in shown:
        console.print(each, soft_wrap=isinstance(each, str))


def _heading(file: str, n: int, lost: int, compat: Compat) -> str:
    without = f", {lost} left out because a world has no verdict" if lost else ""
    ties = ", ties as in SOlib" if compat == "solib" else ""
    return f"{file}: {n} question{'s' * (n != 1)}{without}{ties}\n"


def _legend(most: Estimate) -> str:
    method = most.method or "bootstrap"
    worth = f" (worth {most.effective:.1f} of one size)" if most.clusters < most.n else ""
    return (
        f"\n  ± half the 95 % interval, {method} over {most.clusters} questions or groups of "
        f"them{worth}.\n  std over questions, of the population.\n"
    )


def _means(found: dict[str, tuple[Estimate, ...]], names: Sequence[str]) -> Table:
    table = _table("score", "measure", "n", "mean", "± 95 %", "std")
    for score, of_score in found.items():
        for place, (name, each) in enumerate(zip(names, of_score, strict=True)):
            table.add_row(
                "" if place else score,
                name,
                str(each.n),
                f"{each.mean:+.3f}",
                "–" if each.half_width is None else error_text(each.half_width, 3),
                f"{each.std:.3f}",
            )
    return table


def _extremes(bounds: dict[str, Bounds | None]) -> Table:
    table = _table("score", "measure", "n", "dropped", "worst", "best")
    for name, each in bounds.items():
        if each is None:
            continue
        drop = "–" if each.drop is None else f"{each.drop:+.3f}"
        table.add_row(name, "ASD", str(each.n), drop, f"{each.worst:+.3f}", f"{each.best:+.3f}")
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2))
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < 2 else "right", no_wrap=True)
    return table
