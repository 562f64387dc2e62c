"""Rendering of a comparison as text, Markdown, LaTeX, CSV or JSON."""

from collections.abc import Mapping
from typing import Any

import orjson

from oversight.engine.decisions.comparison import Compared, Comparison
from oversight.engine.display.quantity import signed
from oversight.engine.display.table import Table, as_csv, formatted
from oversight.engine.reports.tables import SCORE_NAMES
from oversight.protocols.scoring.clustered import FEW_CLUSTERS

NAMED = 5
"""Most contrasts for which the notes list the questions that differ most."""

WORTH_IT = 1.2
"""Label efficiency from which on a prediction-powered mean is shown."""


def comparison_text(comparison: Comparison, format: str, width: int | None = None) -> str:
    """Render a comparison. format: one of `reports.report.FORMATS`. width: of the terminal, in
    columns; None for output that is not a terminal."""
    match format:
        case "json":
            return orjson.dumps(comparison_json(comparison), option=orjson.OPT_INDENT_2).decode()
        case "csv":
            rows = [_flat(each) for each in comparison_json(comparison)["contrasts"]]
            head = list(rows[0])
            return as_csv(head, [[row[name] for name in head] for row in rows])
    return formatted(comparison_tables(comparison), format, width)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """`{"contrasts": [{"first", "second", "n", "clusters", "mean", "low", "high", "p", …}]}`."""
    return {
        "name": comparison.name,
        "score": comparison.score,
        "family": comparison.family,
        "equivalence": comparison.equivalence,
        "contrasts": [_plain(each) for each in comparison.contrasts],
        "ranks": [
            {"row": name, "best": ranks.best, "worst": ranks.worst}
            for name, ranks in comparison.ranks
        ],
        "multiplicity": comparison.multiplicity,
        "notes": list(comparison.notes),
    }


def _plain(compared: Compared) -> dict[str, Any]:
    each, flips, powered = compared.contrast, compared.flips, compared.powered
    low, high = each.interval
    return {
        "first": each.first,
        "second": each.second,
        "n": each.n,
        "clusters": each.clusters,
        "effective_clusters": each.effective,
        "mean_first": each.means[0],
        "mean_second": each.means[1],
        "mean": each.estimate,
        "error": each.error,
        "low": low,
        "high": high,
        "p": each.p,
        "p_family": each.p_family,
        "equivalent": each.equivalent,
        "mde": each.mde,
        "verdict": each.verdict,
        "wins": each.wins,
        "ties": each.ties,
        "losses": each.losses,
        "correlation": each.correlation,
        "pairing": each.pairing,
        "bounds": {"low": compared.bounds.low, "high": compared.bounds.high},
        "flips": {
            "right_right": flips.right_right if flips else None,
            "right_wrong": flips.right_wrong if flips else None,
            "wrong_right": flips.wrong_right if flips else None,
            "wrong_wrong": flips.wrong_wrong if flips else None,
        },
        "swayed": compared.swayed,
        "equal_calls": compared.equal_calls,
        "powered": {
            "mean": powered.mean if powered else None,
            "error": powered.error if powered else None,
            "low": powered.interval[0] if powered else None,
            "high": powered.interval[1] if powered else None,
            "label_efficiency": powered.label_efficiency if powered else None,
        },
        "apart": [{"problem": id, "difference": value} for id, value in compared.apart],
    }


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Tables of contrasts, flips, prediction-powered means and ranks, those that have content."""
    shown = [_contrasts_table(comparison), _flips_table(comparison)]
    shown += [_powered_table(comparison), _ranks_table(comparison)]
    return [table for table in shown if table]


def _contrasts_table(comparison: Comparison) -> Table:
    contrasts = [one.contrast for one in comparison.contrasts]
    clustered = any(one.clusters < one.n for one in contrasts)
    doubtful = any(one.bounds.low < one.bounds.high - 1e-9 for one in comparison.contrasts)
    called = any(one.equal_calls is not None for one in comparison.contrasts)
    several = len(contrasts) > 1
    head = ["first", "second", "n", *["clusters"] * clustered, "mean 1st", "mean 2nd"]
    head += ["difference", "95%", "p", *["p_family"] * several, "verdict"]
    head += ["win/tie/loss", *["bounds"] * doubtful, "pairing", *["equal calls"] * called]
    body = []
    for compared in comparison.contrasts:
        one, bounds = compared.contrast, compared.bounds
        cells = [one.first, one.second, str(one.n)]
        cells += [f"{one.clusters} (worth {one.effective:.0f})"] * clustered
        cells += [signed(one.means[0], 3), signed(one.means[1], 3), signed(one.estimate, 3)]
        cells += [f"[{signed(one.interval[0], 3)}, {signed(one.interval[1], 3)}]", _p(one.p)]
        cells += [_p(one.p_family)] * several
        undecided = one.verdict == "not determined"
        cells.append(f"not determined at MDE {one.mde:.2f}" if undecided else one.verdict)
        cells.append(f"{one.wins}/{one.ties}/{one.losses}")
        cells += [f"[{signed(bounds.low)}, {signed(bounds.high)}]"] * doubtful
        cells.append(f"×{one.pairing:.2f}")
        if called:
            cells.append("–" if compared.equal_calls is None else f"{compared.equal_calls:.0%}")
        body.append(tuple(cells))
    return Table(
        f"{comparison.name}: differences of ASD ({SCORE_NAMES[comparison.score]}), first - second",
        tuple(head),
        tuple(body),
        2,
        (*comparison.notes, *_notes(comparison, clustered, doubtful)),
        ("pairing", "win/tie/loss", "mean 2nd", "mean 1st", "clusters", "equal calls"),
    )


def _notes(comparison: Comparison, clustered: bool, doubtful: bool) -> list[str]:
    contrasts = [one.contrast for one in comparison.contrasts]
    fewest = min(contrasts, key=lambda one: one.effective)
    notes = [comparison.multiplicity]
    notes.append(
        f"p: sign flips of problems{' or groups of them' if clustered else ''}; "
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
    if doubtful:
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
    body = [
        (
            one.contrast.first,
            one.contrast.second,
            *(f"{share:.0%}" for share in (flips.right_right, flips.wrong_right)),
            *(f"{share:.0%}" for share in (flips.right_wrong, flips.wrong_wrong)),
        )
        for one in comparison.contrasts
        if (flips := one.flips)
    ]
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
            f"[{signed(powered.interval[0], 3)}, {signed(powered.interval[1], 3)}]",
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


def _flat(nested: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{part}": "" if v is None else v for part, v in value.items()}
        elif not isinstance(value, list):
            flat[name] = "" if value is None else value
    return flat


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<.001"
