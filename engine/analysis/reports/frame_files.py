"""The tables of a run in files: Parquet, CSV, JSON Lines; or in memory, as Arrow tables.

pyarrow is in the extra `frames`; CSV and JSON Lines need nothing.
"""

import csv
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from ....cache.extras import install_command
from ...display.table import inert
from ...errors import UsageError
from ...system.files import unwritable
from ...system.process import gc_relaxed
from .frames import TABLES, Columns, FrameReader, FrameSource, Kind, TableLines

if TYPE_CHECKING:
    import pyarrow as pa

FrameFormat: TypeAlias = Literal["parquet", "csv", "jsonl"]

CHUNK = 500
"""Cells read at a time, rounded up to whole problems."""

GROUP = 50_000
"""Lines of a table that are held before they are written, one row group of Parquet."""

HELD = 32 * 2**20
"""Bytes of a table that are held before they are written, however few lines that are."""


class FrameFile(ABC):
    """One table that is being written."""

    @abstractmethod
    def add(self, lines: TableLines) -> None:
        """More lines. Text may come as the UTF-8 that it is."""

    @abstractmethod
    def close(self) -> None:
        """Write what is held."""


class JsonLinesFile(FrameFile):
    """One JSON object a line; columns of JSON are objects in it."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._file = path.open("wb")
        self._columns = [(name, kind == "json") for name, kind in columns.items()]

    def add(self, lines: TableLines) -> None:
        for values in lines:
            told = {
                name: orjson.Fragment(value) if nested and value is not None else value
                for (name, nested), value in zip(self._columns, values, strict=True)
            }
            self._file.write(orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        self._file.close()


class CsvFile(FrameFile):
    """Comma-separated, with lists and objects as JSON; texts that a spreadsheet would run as a
    formula begin with an apostrophe."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._file = path.open("w", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self.add([tuple(columns)])

    def add(self, lines: TableLines) -> None:
        self._writer.writerows([_plain(value) for value in values] for values in lines)

    def close(self) -> None:
        self._file.close()


class ArrowTable(FrameFile):
    """Record batches, handed on as tables of bounded size."""

    def __init__(self, columns: Columns, take: "Callable[[pa.Table], None]") -> None:
        self.schema = _schema(columns)
        self._take = take
        self._held: list[pa.RecordBatch] = []
        self._lines = self._size = 0
        self._empty = True

    def add(self, lines: TableLines) -> None:
        arrow = _arrow()
        values = zip(*lines, strict=True) if lines else [()] * len(self.schema)
        arrays = [
            arrow.array(each, type=field.type)
            for each, field in zip(values, self.schema, strict=True)
        ]
        batch = arrow.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._held.append(batch)
        self._lines += batch.num_rows
        self._size += batch.nbytes
        if self._lines >= GROUP or self._size >= HELD:
            self._flush()

    def close(self) -> None:
        if self._held or self._empty:
            self._flush()

    def _flush(self) -> None:
        table = _arrow().Table.from_batches(self._held, self.schema)
        self._take(table.unify_dictionaries())
        self._held, self._lines, self._size, self._empty = [], 0, 0, False


class ParquetFile(ArrowTable):
    """Row groups of Parquet, compressed with zstd."""

    def __init__(self, path: Path, columns: Columns, about: Mapping[str, str]) -> None:
        super().__init__(columns, lambda table: self._parquet.write_table(table, GROUP * 2))
        from pyarrow.parquet import ParquetWriter

        self._parquet = ParquetWriter(
            path, self.schema.with_metadata(dict(about)), compression="zstd"
        )

    def close(self) -> None:
        super().close()
        self._parquet.close()


def write_frames(source: FrameSource, folder: Path, format: FrameFormat) -> dict[str, int]:
    """Write every table into a folder, `cells.parquet` and so on, all of them or none; how many
    lines each has.

    folder: must be there. UsageError where pyarrow is needed and not installed; RunFolderError for
    a full disk.
    """
    about = _about(source)
    unfinished = {name: folder / f".{name}.{format}.{os.getpid()}" for name in source.tables}
    try:
        with ExitStack() as stack:
            files: dict[str, FrameFile] = {}
            for name, path in unfinished.items():
                columns = TABLES[name]
                if format == "parquet":
                    files[name] = ParquetFile(path, columns, about)
                else:
                    files[name] = {"csv": CsvFile, "jsonl": JsonLinesFile}[format](path, columns)
                stack.callback(files[name].close)
            counts = _fill(source, files)
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
    held: dict[str, list[pa.Table]] = {name: [] for name in source.tables}
    files = {name: ArrowTable(TABLES[name], tables.append) for name, tables in held.items()}
    _fill(source, files)
    for file in files.values():
        file.close()
    return {
        name: arrow.concat_tables(tables).replace_schema_metadata(about)
        for name, tables in held.items()
    }


def _fill(source: FrameSource, files: Mapping[str, FrameFile]) -> dict[str, int]:
    """Add all lines of a run; how many each table has."""
    counts = dict.fromkeys(files, 0)
    seen: set[bytes] = set()
    sweep = source.run.sweep
    count = len(sweep.problems)
    step = max(1, CHUNK * count // len(sweep))
    with gc_relaxed(), FrameReader(source) as reader:
        files["rows"].add(rows := reader.rows())
        counts["rows"] = len(rows)
        for start in range(0, count, step):
            lines = dict(reader.problems(range(start, min(start + step, count))))
            calls = {bytes.fromhex(line[0]): line for line in lines["calls"]}
            lines["calls"] = [line for address, line in calls.items() if address not in seen]
            seen.update(calls)
            for name in files.keys() & lines.keys():
                files[name].add(lines[name])
                counts[name] += len(lines[name])
    return counts


def _about(source: FrameSource) -> dict[str, str]:
    """What a file says of where it is from."""
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
    return arrow.schema([(name, types[kind]) for name, kind in columns.items()])


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return inert(value)
    return orjson.dumps(value).decode() if isinstance(value, tuple) else value
