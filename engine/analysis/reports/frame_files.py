"""The tables of a run in files: Parquet, CSV, JSON Lines; or in memory, as Arrow tables.

pyarrow is in the extra `frames`; CSV and JSON Lines need nothing."""

import csv
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from ....cache.errors import install_command
from ...display.table import inert
from ...errors import UsageError
from ...system.files import unwritable
from ...system.process import gc_relaxed
from .frames import TABLES, Columns, FrameReader, FrameSource, Kind, TableLines

if TYPE_CHECKING:
    import pyarrow as pa

FrameFormat: TypeAlias = Literal["parquet", "csv", "jsonl"]

CHUNK = 2_000
"""Cells read at a time, rounded up to whole problems: a row group of Parquet."""

Add: TypeAlias = Callable[[TableLines], object]
"""Takes more lines of one table. Text may come as the UTF-8 that it is."""


def _opened(
    path: Path, columns: Columns, format: FrameFormat, about: Mapping[str, str], stack: ExitStack
) -> Add:
    """A file for one table, which is whole once the stack is closed."""
    if format == "parquet":
        _arrow()
        from pyarrow.parquet import ParquetWriter

        schema = _schema(columns).with_metadata(dict(about))
        parquet = stack.enter_context(ParquetWriter(path, schema, compression="zstd"))
        return lambda lines: parquet.write_table(_table(columns, lines)) if lines else None
    if format == "csv":
        text = stack.enter_context(path.open("w", newline="", encoding="utf-8"))
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        return lambda lines: writer.writerows([_plain(value) for value in line] for line in lines)
    file = stack.enter_context(path.open("wb"))

    def add(lines: TableLines) -> None:
        for line in lines:
            # Columns of JSON are objects in it.
            record = {
                name: orjson.Fragment(value) if c.kind == "json" and value is not None else value
                for (name, c), value in zip(columns.items(), line, strict=True)
            }
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    return add


def write_frames(source: FrameSource, folder: Path, format: FrameFormat) -> dict[str, int]:
    """Write every table into a folder, `cells.parquet` and so on, all of them or none; how many
    lines each has. folder: must be there. UsageError where pyarrow is needed and not installed;
    RunFolderError for a full disk."""
    about = _about(source)
    unfinished = {name: folder / f".{name}.{format}.{os.getpid()}" for name in source.tables}
    try:
        with ExitStack() as stack:
            counts = _fill(
                source,
                {
                    name: _opened(path, TABLES[name], format, about, stack)
                    for name, path in unfinished.items()
                },
            )
        for name, path in unfinished.items():
            path.replace(folder / f"{name}.{format}")
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    finally:
        for path in unfinished.values():
            path.unlink(missing_ok=True)
    return counts


def arrow_frames(source: FrameSource) -> "dict[str, pa.Table]":
    """Every table as an Arrow table, by name. UsageError without pyarrow."""
    arrow, about = _arrow(), _about(source)
    parts = {name: [_table(TABLES[name], ())] for name in source.tables}

    def adding(name: str) -> Add:
        return lambda lines: parts[name].append(_table(TABLES[name], lines))

    _fill(source, {name: adding(name) for name in parts})
    return {
        name: arrow.concat_tables(tables).unify_dictionaries().replace_schema_metadata(about)
        for name, tables in parts.items()
    }


def _fill(source: FrameSource, files: Mapping[str, Add]) -> dict[str, int]:
    """Add all lines of a run; how many each table has."""
    counts = dict.fromkeys(files, 0)
    written: set[bytes] = set()
    sweep = source.run.sweep
    count = len(sweep.problems)
    step = max(1, CHUNK * count // len(sweep))
    with gc_relaxed(), source.requests() if source.requests else nullcontext() as store:
        reader = FrameReader(source, store)
        files["rows"](rows := reader.rows())
        counts["rows"] = len(rows)
        for start in range(0, count, step):
            lines = dict(reader.problems(range(start, min(start + step, count))))
            calls = {bytes.fromhex(line[0]): line for line in lines["calls"]}
            lines["calls"] = [line for address, line in calls.items() if address not in written]
            written.update(calls)
            for name in files.keys() & lines.keys():
                files[name](lines[name])
                counts[name] += len(lines[name])
    return counts


def _about(source: FrameSource) -> dict[str, str]:
    """Provenance stored in a file."""
    sweep = source.run.sweep
    return {"sweep": sweep.name, "identity": source.run.manifest.identity, "code": sweep.code}


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as exc:
        raise UsageError(
            f"Parquet and Arrow tables need pyarrow: {install_command('frames')}; CSV and JSON "
            "Lines need nothing"
        ) from exc
    return pyarrow


def _table(columns: Columns, lines: TableLines) -> "pa.Table":
    arrow, schema = _arrow(), _schema(columns)
    values = zip(*lines, strict=True) if lines else [()] * len(schema)
    arrays = [arrow.array(part, type=f.type) for part, f in zip(values, schema, strict=True)]
    return arrow.Table.from_arrays(arrays, schema=schema)


def _schema(columns: Columns) -> "pa.Schema":
    arrow = _arrow()
    types: dict[Kind, pa.DataType] = {
        "text": arrow.large_string(),
        "json": arrow.large_string(),
        "word": arrow.dictionary(arrow.int32(), arrow.string()),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "flag": arrow.bool_(),
        "floats": arrow.list_(arrow.float64()),
        "time": arrow.timestamp("s", tz="UTC"),
    }
    return arrow.schema(
        [
            arrow.field(name, types[c.kind], metadata={"unit": c.unit, "about": c.sentence})
            for name, c in columns.items()
        ]
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return inert(value)
    return orjson.dumps(value).decode() if isinstance(value, tuple) else value
