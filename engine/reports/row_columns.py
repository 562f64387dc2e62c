"""The columns of a report: what each is called, where it is shown, and what is in it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

from ...protocols.scoring.bounds import Bounds
from ...protocols.scoring.statistics import Estimate
from ...protocols.scoring.worlds import BETAS, beta_name
from ..display.columns import Column
from ..display.quantity import signed
from ..sweeps.axes import Axes
from .figure_text import estimated, percent
from .results import ByChoice, Mean, Results, RowResult

PARTS = (
    "mean",
    "low",
    "high",
    "std",
    "sample_std",
    "n",
    "clusters",
    "effective_clusters",
    "method",
)
"""What programs are told of a figure."""


def columns(results: Results) -> list[Column[RowResult]]:
    """Every column of the report: JSON and CSV have all of them, the main table those with cells.

    The rank of a spare column is its place among the figures: a narrow terminal drops the last
    ones first, then the lift, then a `failed` of zeros.
    """
    rows, betas = results.rows, results.betas
    in_table = (1.0,) if betas == BETAS else betas
    lift = any(row.lift is not None for row in rows)
    chose = any(row.chose_right is not None for row in rows)
    by_beta = list(product(("jse", "eas"), betas))
    return [
        *naming_columns(results),
        *(Column(key=(axis.name,), value=attrgetter(f"axes.{axis.name}")) for axis in fields(Axes)),
        Column("n", lambda row: str(row.n), ("n",), lambda row: row.n),
        Column(key=("cells",), value=lambda row: row.cells),
        Column(key=("missing",), value=lambda row: row.missing),
        _figure("ASD", ("asd",), lambda row: row.asd, estimated),
        _figure("lift", ("lift",), lambda row: row.lift, _lift if lift else None, spare=2),
        Column(key=("mde",), value=lambda row: row.mde),
        *(
            _figure(
                f"{measure.upper()} β={beta_name(beta)}",
                (measure, beta_name(beta)),
                partial(_at, measure, beta),
                _signed if beta in in_table else None,
                spare=rank,
            )
            for rank, (measure, beta) in enumerate(by_beta, start=3)
        ),
        Column(
            key=("bounds",),
            value=lambda row: asdict(row.bounds) if row.bounds else None,
            parts=tuple(part.name for part in fields(Bounds)),
        ),
        Column(
            "chose right",
            (lambda row: percent(row.chose_right)) if chose else None,
            ("chose_right",),
            lambda row: row.chose_right,
            spare=3 + len(by_beta),
        ),
        *(replace(column, cell=None) for column in CHOICE_COLUMNS),
        Column(
            "failed",
            lambda row: str(row.failed),
            ("failed",),
            lambda row: row.failed,
            spare=0 if results.failed else 1,
        ),
        Column(key=("failures",), value=lambda row: row.failures),
        Column(key=("counts",), value=lambda row: row.counts),
        Column(key=("measures",), value=lambda row: _by_name(row.measures), parts=PARTS),
        Column(
            key=("counts_a_world",), value=lambda row: _by_name(row.counts_a_world), parts=PARTS
        ),
        *(
            _figure("", ("captured", world), partial(_captured, world))
            for world in ("truth", "lie")
        ),
    ]


def naming_columns(results: Results) -> list[Column[RowResult]]:
    """What tells rows apart; agents and judges are shown where there are several."""
    words = naming_words(results)
    return [
        Column("protocol", lambda row: row.kind, ("protocol",), lambda row: row.kind, words=True),
        *(
            Column(
                role,
                partial(_called_in, role) if role in words else None,
                (role,),
                attrgetter(role),
                words=True,
            )
            for role in ("agent", "judge")
        ),
    ]


def _figure(
    head: str,
    key: tuple[str, ...],
    of: Callable[[RowResult], Estimate | None],
    cell: Callable[[Estimate | None], str] | None = None,
    spare: int = 0,
) -> Column[RowResult]:
    """The column of an estimate, which programs are told in its parts."""
    shown = (lambda row: cell(of(row))) if cell else None
    return Column(head, shown, key, lambda row: _parts(of(row)), PARTS, spare=spare)


def _share(figure: Estimate | None) -> str:
    if figure is None:
        return "–"
    if figure.interval is None:
        return percent(figure.mean)
    low, high = figure.interval
    return f"{figure.mean:.0%} [{low:.0%}, {high:.0%}]"


CHOICE_COLUMNS: tuple[Column[RowResult], ...] = (
    Column("agent right", lambda row: n_text(_choice(row).judge_right), spare=1),
    _figure(
        "judge right too",
        ("by_choice", "judge_right_given_agent_right"),
        lambda row: _choice(row).judge_right,
        _share,
        spare=2,
    ),
    Column("agent wrong", lambda row: n_text(_choice(row).judge_wrong)),
    _figure(
        "judge wrong too",
        ("by_choice", "judge_wrong_given_agent_wrong"),
        lambda row: _choice(row).judge_wrong,
        _share,
    ),
)


def _choice(row: RowResult) -> ByChoice:
    return row.by_choice or ByChoice(None, None)


def naming_words(results: Results) -> tuple[str, ...]:
    """The columns that say which row a line is of: agents and judges where there are several."""
    return (
        "protocol",
        *(
            column
            for column in ("agent", "judge")
            if len({getattr(row, column) for row in results.rows} - {""}) > 1
        ),
    )


def _parts(figure: Estimate | None) -> Mapping[str, float | str | None] | None:
    if figure is None:
        return None
    low, high = figure.interval or (None, None)
    return {
        "mean": figure.mean,
        "low": low,
        "high": high,
        "std": figure.std,
        "sample_std": figure.sample_std,
        "n": figure.n,
        "clusters": figure.clusters,
        "effective_clusters": figure.effective or None,
        "method": figure.method or None,
    }


def _by_name(means: Mapping[str, Mean]) -> dict[str, Any]:
    return {
        name: {"truth": _parts(mean.truth), "lie": _parts(mean.lie)} for name, mean in means.items()
    }


def _called_in(role: str, row: RowResult) -> str:
    name: str = getattr(row, role)
    return name or "–"


def _at(measure: str, beta: float, row: RowResult) -> Estimate | None:
    by_beta: Mapping[float, Estimate] = getattr(row, measure)
    return by_beta.get(beta)


def _captured(world: str, row: RowResult) -> Estimate | None:
    return getattr(row.captured, world) if row.captured else None


def _lift(figure: Estimate | None) -> str:
    """The naive judge's own is nothing by definition, and needs no interval."""
    own = figure is not None and figure.mean == 0 and not figure.half_width
    return _signed(figure) if own else estimated(figure)


def n_text(figure: Estimate | None) -> str:
    return str(figure.n) if figure else "0"


def _signed(figure: Estimate | None) -> str:
    return signed(figure.mean if figure else None)
