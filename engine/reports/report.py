"""The report of a run: agent score differences by protocol, agent and judge, in five formats."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import orjson

from oversight.engine.display.table import Table, as_csv, as_latex, as_markdown, as_text
from oversight.engine.errors import RunFolderError
from oversight.engine.reports.results import ByChoice, Mean, Results, RowResult
from oversight.engine.reports.tables import tables
from oversight.engine.runs.run_folder import REPORT
from oversight.engine.system.files import replace_file
from oversight.protocols.scoring.bounds import Bounds
from oversight.protocols.scoring.statistics import Estimate
from oversight.protocols.scoring.worlds import beta_name


def report(
    results: Results, format: str, width: int | None = None, *, measures: bool = False
) -> str:
    """The whole report. format: one of FORMATS. width: columns of a terminal, if for one.

    measures: with a table of what was measured beside the scores, which JSON and CSV always have.
    """
    if format == "json":
        return _json(results)
    if format == "csv":
        return _csv(results)
    shown = tables(results, measures=measures)
    if format == "text":
        return "\n\n".join(as_text(table, width) for table in shown)
    return "\n\n".join(LAYOUTS[format](table) for table in shown)


def save_report(results: Results, folder: Path) -> None:
    """Write the report into a run folder, once in each format. RunFolderError if it takes none."""
    place = folder / REPORT
    try:
        place.mkdir(exist_ok=True)
    except OSError as exc:
        raise RunFolderError(f"{place} cannot be written: {exc.strerror}") from exc
    for format, ending in ENDINGS.items():
        # Nothing is lost with it: it can be written again from the outcomes.
        content = [report(results, format).encode(), b"\n"]
        replace_file(place / f"report.{ending}", content, durable=False)


def is_saved(folder: Path) -> bool:
    """Whether the report of a run folder is there in every format."""
    return all((folder / REPORT / f"report.{ending}").exists() for ending in ENDINGS.values())


def _json(results: Results) -> str:
    told = {
        "sweep": results.name,
        "score": results.score,
        "prompts": results.prompts,
        "rows": [_row(row, results.betas, named=False) for row in results.rows],
        "failed": results.failed,
        "missing": results.missing,
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()


def _csv(results: Results) -> str:
    flat = [_flat(_row(row, results.betas, named=True)) for row in results.rows]
    head = list(dict.fromkeys(name for row in flat for name in row))
    return as_csv(head, [[row.get(name, "") for name in head] for row in flat])


def _row(row: RowResult, betas: Iterable[float], *, named: bool) -> dict[str, Any]:
    """named: what a row has no figure for is there by name all the same, each part without a value,
    so that a column is where programs look for it; else it is None."""

    def figure(one: Estimate | None) -> Mapping[str, float | str | None] | None:
        return _figure(one) if one else no_figure

    def by_beta(measure: Mapping[float, Estimate]) -> dict[str, Any]:
        return {beta_name(beta): figure(measure.get(beta)) for beta in betas}

    def by_world(mean: Mean | None) -> dict[str, Any]:
        return {
            "truth": figure(mean.truth if mean else None),
            "lie": figure(mean.lie if mean else None),
        }

    def by_name(means: Mapping[str, Mean]) -> dict[str, Any]:
        return {name: by_world(mean) for name, mean in means.items()}

    choice = row.by_choice or ByChoice(None, None)
    no_figure, no_bounds = (NO_FIGURE, NO_BOUNDS) if named else (None, None)
    return {
        "protocol": row.kind,
        "agent": row.agent,
        "judge": row.judge,
        "n": row.n,
        "cells": row.cells,
        "failed": row.failed,
        "missing": row.missing,
        "asd": figure(row.asd),
        "lift": figure(row.lift),
        "jse": by_beta(row.jse),
        "eas": by_beta(row.eas),
        "bounds": asdict(row.bounds) if row.bounds else no_bounds,
        "chose_right": row.chose_right,
        "by_choice": {
            "judge_right_given_agent_right": figure(choice.judge_right),
            "judge_wrong_given_agent_wrong": figure(choice.judge_wrong),
        },
        "failures": row.failures,
        "counts": row.counts,
        "measures": by_name(row.measures),
        "counts_a_world": by_name(row.counts_a_world),
        "captured": by_world(row.captured),
    }


def _figure(figure: Estimate) -> Mapping[str, float | str | None]:
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


def _flat(told: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = "" if value is None else value
    return flat


NO_FIGURE = dict.fromkeys(
    (
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
)

NO_BOUNDS = dict.fromkeys(field.name for field in fields(Bounds))

ENDINGS = {"text": "txt", "markdown": "md", "json": "json", "latex": "tex", "csv": "csv"}

LAYOUTS: Mapping[str, Callable[[Table], str]] = {"markdown": as_markdown, "latex": as_latex}

FORMATS = tuple(ENDINGS)
