"""The report of a run: agent score differences by protocol, agent and judge, in five formats."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from engine.errors import RunFolderError
from engine.files import replace_file
from engine.reports.results import Results, RowResult, RowSamples
from engine.reports.table import Table, as_csv, as_latex, as_markdown, as_text
from engine.runs.runfolder import REPORT
from protocols.statistics import Estimate
from protocols.trend import Configuration, NoSlope, Slope, split_half_trend, trend
from protocols.worlds import BETAS, beta_name

SCORE_NAMES = {"brier": "Brier", "log": "log", "logodds": "log odds", "accuracy": "accuracy"}


def report(results: Results, format: str, width: int | None = None) -> str:
    """The whole report. format: a key of FORMATS. width: columns of a terminal, if for one."""
    if format == "text":
        return "\n\n".join(as_text(table, width) for table in _tables(results))
    return FORMATS[format](results)


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


def main_table(results: Results) -> Table:
    """One line a row: ASD and what stands beside it."""
    several = {column for column in ("agent", "judge") if _varies(results.rows, column)}
    words = ["protocol", *(column for column in ("agent", "judge") if column in several)]
    chose = any(row.chose_right is not None for row in results.rows)
    lift = any(row.lift is not None for row in results.rows)
    head = [*words, "n", "ASD", *(["lift"] * lift)]
    betas = (1.0,) if results.betas == BETAS else results.betas
    head += [f"{measure} β={beta_name(beta)}" for measure in ("JSE", "EAS") for beta in betas]
    head += ["chose right"] * chose + ["failed"]
    body = []
    for row in results.rows:
        cells = [row.kind, *(getattr(row, column) or "–" for column in words[1:]), str(row.n)]
        cells.append(_pm(row.asd))
        cells += [_signed(row.lift)] * lift
        cells += [_signed(measure.get(beta)) for measure in (row.jse, row.eas) for beta in betas]
        if chose:
            cells.append("–" if row.chose_right is None else f"{row.chose_right:.0%}")
        cells.append(str(row.failed))
        body.append(tuple(cells))
    title = (
        f"{results.name}: agent score difference ({SCORE_NAMES[results.score]}), "
        "higher is better for the truth"
    )
    measures = head[len(words) + 2 : -1]
    spare = [head for head in reversed(measures) if head != "lift"]
    spare += ["lift", *(["failed"] if not results.failed else [])]
    notes = tuple(_notes(results, several))
    return Table(title, tuple(head), tuple(body), len(words), notes, tuple(spare))


def _notes(results: Results, several: set[str]) -> Iterable[str]:
    for column in ("agent", "judge"):
        names = {getattr(row, column) for row in results.rows} - {""}
        if column not in several and names:
            yield f"{column}: {', '.join(sorted(names))}"
    yield "± 95 %, bootstrap over problems. n: problems with a verdict in every world."
    if any(row.lift is not None for row in results.rows):
        yield "lift = ASD - naive judge's, same problems and judge."
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for row in results.rows:
        counts.update(row.counts)
        failures.update(row.failures)
    if failures:
        yield "failed cells: " + _listed(failures)
    if counts:
        yield "in the transcripts: " + _listed(counts)
    if results.missing:
        yield f"{results.missing:,} cells have not been run yet: these figures will change."


def trend_table(results: Results) -> Table | None:
    """The slope of ASD on EAS over agents, per protocol and judge; None if no row can have one."""
    beta = 1.0 if 1.0 in results.betas else results.betas[0]
    place = results.betas.index(beta)
    lines: dict[tuple[str, str], list[Configuration]] = {}
    for row, samples in zip(results.rows, results.samples, strict=True):
        if row.agent and isinstance(samples, RowSamples):
            line = lines.setdefault((row.kind, row.judge), [])
            line.append(Configuration(row.agent, samples.eas[place], samples.asd))
    body = []
    for (kind, judge), configurations in lines.items():
        whole = trend(configurations, same_elicitations=True)
        if isinstance(whole, Slope):
            half = split_half_trend(configurations)
            body.append((kind, judge, str(whole.n), _slope(whole), _slope(half)))
    if not body:
        return None
    return Table(
        f"trend: slope of ASD on EAS (β={beta_name(beta)}) over agents",
        ("protocol", "judge", "agents", "slope ± s.e. *", "split-half"),
        tuple(body),
        2,
        ("* both axes come from the same verdicts: a slope there is no evidence by itself.",),
    )


def _text(results: Results) -> str:
    return "\n\n".join(as_text(table) for table in _tables(results))


def _markdown(results: Results) -> str:
    return "\n\n".join(as_markdown(table) for table in _tables(results))


def _latex(results: Results) -> str:
    return "\n\n".join(as_latex(table) for table in _tables(results))


def _tables(results: Results) -> list[Table]:
    slopes = trend_table(results)
    return [main_table(results), *([slopes] if slopes else [])]


def _json(results: Results) -> str:
    told = {
        "sweep": results.name,
        "score": results.score,
        "rows": [_row(row, results.betas, None) for row in results.rows],
        "failed": results.failed,
        "missing": results.missing,
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()


def _csv(results: Results) -> str:
    # A figure that nobody has is a column all the same: programs look for it by name.
    flat = [_flat(_row(row, results.betas, NO_FIGURE)) for row in results.rows]
    head = list(dict.fromkeys(name for row in flat for name in row))
    return as_csv(head, [[row.get(name, "") for name in head] for row in flat])


def _row(
    row: RowResult, betas: Iterable[float], absent: Mapping[str, None] | None
) -> dict[str, Any]:
    """absent: what stands for a figure that there is none of."""

    def by_beta(measure: Mapping[float, Estimate]) -> dict[str, Any]:
        return {beta_name(beta): _figure(measure.get(beta), absent) for beta in betas}

    return {
        "protocol": row.kind,
        "agent": row.agent,
        "judge": row.judge,
        "n": row.n,
        "cells": row.cells,
        "failed": row.failed,
        "missing": row.missing,
        "asd": _figure(row.asd, absent),
        "lift": _figure(row.lift, absent),
        "jse": by_beta(row.jse),
        "eas": by_beta(row.eas),
        "chose_right": row.chose_right,
        "failures": row.failures,
        "counts": row.counts,
    }


def _figure(
    figure: Estimate | None, absent: Mapping[str, None] | None
) -> Mapping[str, float | None] | None:
    if figure is None:
        return absent
    low, high = figure.interval or (None, None)
    return {
        "mean": figure.mean,
        "low": low,
        "high": high,
        "std": figure.std,
        "sample_std": figure.sample_std,
        "n": figure.n,
        "clusters": figure.clusters,
    }


def _flat(told: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = "" if value is None else value
    return flat


def _varies(rows: Iterable[RowResult], column: str) -> bool:
    return len({getattr(row, column) for row in rows} - {""}) > 1


def _pm(figure: Estimate | None) -> str:
    if figure is None:
        return "–"
    if figure.half_width is None:
        return _signed(figure)
    return f"{_number(figure.mean)} ± {figure.half_width:.2f}"


def _signed(figure: Estimate | None) -> str:
    return "–" if figure is None else _number(figure.mean)


def _number(value: float) -> str:
    text = f"{value:+.2f}"
    # What rounds to nothing has no sign.
    return text[1:] if float(text) == 0 else text


def _slope(line: Slope | NoSlope) -> str:
    return f"{line.slope:+.2f} ± {line.error:.2f}" if isinstance(line, Slope) else "–"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


NO_FIGURE = dict.fromkeys(("mean", "low", "high", "std", "sample_std", "n", "clusters"))

ENDINGS = {"text": "txt", "markdown": "md", "json": "json", "latex": "tex", "csv": "csv"}

FORMATS: Mapping[str, Callable[[Results], str]] = {
    "text": _text,
    "markdown": _markdown,
    "json": _json,
    "latex": _latex,
    "csv": _csv,
}
