"""Rendering of a comparison as text, Markdown, LaTeX, CSV or JSON."""

from collections.abc import Callable
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any, TypeAlias

import orjson

from ...protocols.scoring.clustered import FEW_CLUSTERS
from ...protocols.scoring.verdict_measures import Flips
from ..display.columns import Column, as_table, lines_csv, plain_line
from ..display.quantity import signed
from ..display.table import Table, formatted
from ..reports.figure_text import percent, span
from ..reports.tables import SCORE_NAMES
from .comparison import Compared, Comparison

NAMED = 5
"""Most contrasts for which the notes list the questions that differ most."""

WORTH_IT = 1.2
"""Label efficiency from which on a prediction-powered mean is shown."""

POWERED = ("mean", "error", "low", "high", "label_efficiency")
"""What programs are told of a prediction-powered mean."""

_Cell: TypeAlias = Callable[[Compared], str]


def comparison_text(comparison: Comparison, format: str, width: int | None = None) -> str:
    """Render a comparison. format: one of `reports.formats.FORMATS`. width: of the terminal, in
    columns; None for output that is not a terminal."""
    match format:
        case "json":
            return orjson.dumps(comparison_json(comparison), option=orjson.OPT_INDENT_2).decode()
        case "csv":
            return lines_csv(contrast_columns(comparison), comparison.contrasts)
    return formatted(comparison_tables(comparison), format, width)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """`{"contrasts": [{"first", "second", "n", "clusters", "mean", "low", "high", "p", …}]}`."""
    every = contrast_columns(comparison)
    return {
        "name": comparison.name,
        "score": comparison.score,
        "family": comparison.family,
        "equivalence": comparison.equivalence,
        "contrasts": [plain_line(every, line, parts=True) for line in comparison.contrasts],
        "ranks": [{"row": name, **asdict(ranks)} for name, ranks in comparison.ranks],
        "multiplicity": comparison.multiplicity,
        "notes": list(comparison.notes),
    }


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Tables of contrasts, flips, prediction-powered means and ranks, those that have content."""
    shown = [_contrasts_table(comparison), _flips_table(comparison)]
    shown += [_powered_table(comparison), _ranks_table(comparison)]
    return [table for table in shown if table]


def _contrast(
    name: str, cell: _Cell | None = None, *, head: str = "", words: bool = False, spare: int = 0
) -> Column[Compared]:
    """A field of the contrast; without a cell it is for programs alone."""
    value = attrgetter(f"contrast.{name}")
    return Column(head or name, cell, (name,), value, words=words, spare=spare)


def _mean(
    head: str, name: str, value: Callable[[Compared], float], spare: int = 0
) -> Column[Compared]:
    return Column(head, lambda line: signed(value(line), 3), (name,), value, spare=spare)


NAMES = (
    _contrast("first", lambda line: line.contrast.first, words=True),
    _contrast("second", lambda line: line.contrast.second, words=True),
)


def contrast_columns(comparison: Comparison) -> list[Column[Compared]]:
    """Every column of the contrasts: programs are told those with a key, people those with cells
    that have something to say."""
    several = len(comparison.contrasts) > 1
    clustered, doubtful = _any_clustered(comparison), _any_doubtful(comparison)
    called = any(line.equal_calls is not None for line in comparison.contrasts)
    return [
        *NAMES,
        _contrast("n", lambda line: str(line.contrast.n)),
        _contrast("clusters", _clusters if clustered else None, spare=2),
        Column(key=("effective_clusters",), value=attrgetter("contrast.effective")),
        _mean("mean 1st", "mean_first", lambda line: line.contrast.means[0], spare=3),
        _mean("mean 2nd", "mean_second", lambda line: line.contrast.means[1], spare=4),
        _mean("difference", "mean", lambda line: line.contrast.estimate),
        _contrast("error"),
        Column("95%", lambda line: span(line.contrast.interval)),
        Column(key=("low",), value=lambda line: line.contrast.interval[0]),
        Column(key=("high",), value=lambda line: line.contrast.interval[1]),
        _contrast("p", lambda line: _p(line.contrast.p)),
        _contrast("p_family", (lambda line: _p(line.contrast.p_family)) if several else None),
        _contrast("equivalent"),
        _contrast("mde"),
        _contrast("verdict", _verdict),
        Column("win/tie/loss", _wins, spare=5),
        *map(_contrast, ("wins", "ties", "losses", "correlation")),
        Column("bounds", _bounds if doubtful else None),
        _contrast("pairing", lambda line: f"×{line.contrast.pairing:.2f}", spare=6),
        Column(key=("bounds", "low"), value=attrgetter("bounds.low")),
        Column(key=("bounds", "high"), value=attrgetter("bounds.high")),
        Column(
            key=("flips",),
            value=lambda line: line.flips and asdict(line.flips),
            parts=tuple(share.name for share in fields(Flips)),
        ),
        Column(key=("swayed",), value=attrgetter("swayed")),
        Column(
            "equal calls",
            (lambda line: percent(line.equal_calls)) if called else None,
            ("equal_calls",),
            attrgetter("equal_calls"),
            spare=1,
        ),
        Column(key=("powered",), value=_powered, parts=POWERED),
        Column(
            key=("apart",),
            value=lambda line: [{"problem": id, "difference": apart} for id, apart in line.apart],
        ),
    ]


def _clusters(line: Compared) -> str:
    return f"{line.contrast.clusters} (worth {line.contrast.effective:.0f})"


def _verdict(line: Compared) -> str:
    undecided = line.contrast.verdict == "not determined"
    return f"not determined at MDE {line.contrast.mde:.2f}" if undecided else line.contrast.verdict


def _wins(line: Compared) -> str:
    return f"{line.contrast.wins}/{line.contrast.ties}/{line.contrast.losses}"


def _bounds(line: Compared) -> str:
    return span((line.bounds.low, line.bounds.high), 2)


def _powered(line: Compared) -> dict[str, float] | None:
    if line.powered is None:
        return None
    mean, error, ends = line.powered.mean, line.powered.error, line.powered.interval
    return dict(zip(POWERED, (mean, error, *ends, line.powered.label_efficiency), strict=True))


def _any_clustered(comparison: Comparison) -> bool:
    return any(line.contrast.clusters < line.contrast.n for line in comparison.contrasts)


def _any_doubtful(comparison: Comparison) -> bool:
    return any(line.bounds.low < line.bounds.high - 1e-9 for line in comparison.contrasts)


def _contrasts_table(comparison: Comparison) -> Table:
    return as_table(
        f"{comparison.name}: differences of ASD ({SCORE_NAMES[comparison.score]}), first - second",
        contrast_columns(comparison),
        comparison.contrasts,
        (*comparison.notes, *_notes(comparison)),
    )


def _notes(comparison: Comparison) -> list[str]:
    contrasts = [one.contrast for one in comparison.contrasts]
    fewest = min(contrasts, key=lambda one: one.effective)
    notes = [comparison.multiplicity]
    notes.append(
        f"p: sign flips of problems{' or groups of them' if _any_clustered(comparison) else ''}; "
        "95%: CR3 t with pseudo-clusters at the ends of the range."
    )
    if any(one.p_family < 0.05 and one.interval[0] < 0 < one.interval[1] for one in contrasts):
        notes.append(
            "p is small although the interval holds 0: p asks about these problems, the interval "
            "about problems that were not drawn, too."
        )
    notes.append(
        f"equivalent: the 90% interval lies within ±{comparison.equivalence:g}. MDE: what this "
        "many problems find with power .8, by the spread that they show; the interval allows for "
        "more."
    )
    if fewest.effective < FEW_CLUSTERS:
        notes.append(
            f"only {fewest.clusters} problems or groups of them, worth {fewest.effective:.1f} of "
            "one size: intervals are wide, and rough."
        )
    if swayed := [one.contrast for one in comparison.contrasts if one.swayed]:
        where = ", ".join(f"{one.first} - {one.second}" for one in swayed[:NAMED])
        notes.append(f"one problem or group of them alone moves by more than its error: {where}.")
    if _any_doubtful(comparison):
        notes.append("bounds: with every failed or doubtful world at its worst, and at its best.")
    notes.append("pairing: error of the difference over that of separate problems; below 1 it paid")
    if len(contrasts) <= NAMED:
        for one in comparison.contrasts:
            if one.apart:
                apart = ", ".join(f"{id} ({signed(value)})" for id, value in one.apart)
                of = f" of {one.contrast.first} and {one.contrast.second}" * (len(contrasts) > 1)
                notes.append(f"problems that differ most{of}: {apart}")
    return notes


def _flips_table(comparison: Comparison) -> Table | None:
    body = []
    for line in comparison.contrasts:
        if flips := line.flips:
            shares = (flips.right_right, flips.wrong_right, flips.right_wrong, flips.wrong_wrong)
            body.append((line.contrast.first, line.contrast.second, *map(percent, shares)))
    if not body:
        return None
    return Table(
        "flips: worlds that the judge gets right or wrong under the second row, then the first",
        ("first", "second", "right both", "wrong → right", "right → wrong", "wrong both"),
        tuple(body),
        2,
        ("→: from what the judge thinks under the second row to what it thinks under the first.",),
        ("wrong both", "right both"),
    )


def _powered_table(comparison: Comparison) -> Table | None:
    body = [
        (
            one.contrast.first,
            one.contrast.second,
            f"{one.contrast.n}",
            signed(one.contrast.means[0], 3),
            signed(powered.mean, 3),
            span(powered.interval),
            f"×{powered.label_efficiency:.2f}",
        )
        for one in comparison.contrasts
        if (powered := one.powered) and powered.label_efficiency >= WORTH_IT
    ]
    if not body:
        return None
    return Table(
        "prediction-powered: the first row over the problems of the second, which guesses it",
        ("first", "second", "n of 1st", "mean 1st", "powered", "95%", "worth"),
        tuple(body),
        2,
        (
            "holds where the problems of the first row are a random part of those of the second.",
            "worth: as many problems of the first row alone would be as sure.",
        ),
        ("n of 1st",),
    )


def _ranks_table(comparison: Comparison) -> Table | None:
    if not comparison.ranks:
        return None
    ordered = sorted(comparison.ranks, key=lambda each: (each[1].best, each[1].worst, each[0]))
    return Table(
        "ranks: the places that each row may have, all of them right at once (95%)",
        ("row", "best", "worst"),
        tuple((name, str(ranks.best), str(ranks.worst)) for name, ranks in ordered),
        1,
        ("1 is the highest ASD; over the problems that all rows have.",),
    )


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<.001"
