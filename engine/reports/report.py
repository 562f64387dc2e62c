"""The report of a run: agent score differences by protocol, agent and judge, in five formats."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from ..display.columns import lines_csv, plain_line
from ..display.table import Table, formatted
from ..errors import RunFolderError
from ..runs.run_folder import REPORT
from ..system.files import replace_file
from .formats import ENDINGS
from .results import Results
from .row_columns import columns
from .tables import tables


@dataclass(frozen=True, slots=True)
class Section:
    """An analysis that a report may have beside its scores."""

    key: str
    """Of its value in JSON."""
    value: Any
    tables: Sequence[Table]


def report(
    results: Results,
    format: str,
    width: int | None = None,
    *,
    measures: bool = False,
    sections: Sequence[Section] = (),
) -> str:
    """The whole report. format: one of FORMATS. width: columns of a terminal, if for one.

    measures: with a table of what was measured beside the scores, which JSON and CSV always have.
    sections: to go at the end; CSV is of rows alone.
    """
    if format == "json":
        return _json(results, sections)
    if format == "csv":
        return lines_csv(columns(results), results.rows)
    shown = [
        *tables(results, measures=measures),
        *(table for section in sections for table in section.tables),
    ]
    health = results.health.lines() if results.health else []
    told = formatted(shown, format, width)
    if health and format == "latex":
        return "\n".join(f"% {line}" for line in health) + f"\n\n{told}"
    if health:
        return ("\n" if format == "text" else "  \n").join(health) + f"\n\n{told}"
    return told


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


def _json(results: Results, sections: Sequence[Section]) -> str:
    every = columns(results)
    plain = {
        "sweep": results.name,
        "score": results.score,
        "health": asdict(results.health) if results.health else None,
        "prompts": results.prompts,
        "rows": [plain_line(every, row) for row in results.rows],
        "failed": results.failed,
        "missing": results.missing,
        **{section.key: section.value for section in sections},
    }
    return orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode()
