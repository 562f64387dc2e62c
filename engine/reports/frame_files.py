"""The tables of a run in files: Parquet, CSV, JSON Lines; or in memory, as Arrow tables.

pyarrow is in the extra `frames`; CSV and JSON Lines need nothing.
"""

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from oversight.cache.store import Reader
from oversight.engine.errors import UsageError
from oversight.engine.reports.frame_tables import FROM_OUTCOMES, TABLES, Columns, Kind
from oversight.engine.reports.frames import FrameSource, frame_lines
from oversight.engine.system.garbage import gc_relaxed

if TYPE_CHECKING:
    import pyarrow as pa

FrameFormat: TypeAlias = Literal["parquet", "csv", "jsonl"]

GROUP = 50_000
"""Lines of a table that are held before they are written, one row group of Parquet."""

HELD = 64
"""Text that is held at most, in MiB, however few lines that are."""


class FrameFile(ABC):
    """One table that is being written."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.lines = 0

    @abstractmethod
    def extend(self, lines: Sequence[tuple[Any, ...]]) -> None:
        """More lines. Text may come as the UTF-8 that it is."""

    @abstractmethod
    def close(self) -> None:
        """Write what is held."""


class JsonLinesFile(FrameFile):
    """One JSON object a line; columns of JSON are objects in it."""

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self._file = path.open("wb")
        self._nested = [kind == "json" for kind in columns.values()]

    def extend(self, lines: Sequence[tuple[Any, ...]]) -> None:
        self.lines += len(lines)
        for values in lines:
            told = {
                name: orjson.Fragment(value) if nested and value is not None else value
                for name, value, nested in zip(self.columns, values, self._nested, strict=True)
            }
            self._file.write(orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        self._file.close()


class CsvFile(FrameFile):
    """Comma-separated, with lists and objects as JSON; texts that a spreadsheet would run as a
    formula begin with an apostrophe."""

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(columns)

    def extend(self, lines: Sequence[tuple[Any, ...]]) -> None:
        self.lines += len(lines)
        self._writer.writerows([_plain(value) for value in values] for values in lines)

    def close(self) -> None:
        self._file.close()


class ArrowTable(FrameFile):
    """Columns of lines, handed on in groups of bounded size."""

    def __init__(
        self, columns: Columns, take: "Callable[[pa.RecordBatch], None]", about: Mapping[str, str]
    ) -> None:
        super().__init__(columns)
        arrow = _arrow()
        self._pa = arrow
        self.schema = arrow.schema(
            [(name, _type(arrow, kind)) for name, kind in columns.items()], metadata=dict(about)
        )
        self._take = take
        self._held: list[tuple[Any, ...]] = []
        kinds = enumerate(columns.values())
        self._long = [place for place, kind in kinds if kind in ("text", "json")]
        self._size = 0

    def extend(self, lines: Sequence[tuple[Any, ...]]) -> None:
        self.lines += len(lines)
        self._held += lines
        for values in lines:
            for place in self._long:
                self._size += len(values[place] or ())
        if len(self._held) >= GROUP or self._size >= HELD * 2**20:
            self._flush()

    def close(self) -> None:
        if self._held or not self.lines:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._held, strict=True) if self._held else [()] * len(self.schema)
        arrays = [
            self._pa.array(column, type=field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        self._take(self._pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        self._held, self._size = [], 0


async def write_frames(
    source: FrameSource, store: Reader | None, folder: Path, format: FrameFormat
) -> dict[str, int]:
    """Write every table into a folder, `cells.parquet` and so on; how many lines each has.

    store: None for rows and cells alone. folder: must be there.
    UsageError where pyarrow is needed and not installed.
    """
    about = _about(source)
    with gc_relaxed(), ExitStack() as stack:
        files = {}
        for name in TABLES:
            if _wanted(name, store):
                files[name] = _file(folder, name, format, about)
                stack.callback(files[name].close)
        async for lines in frame_lines(source, store):
            for name, some in lines.items():
                if name in files:
                    files[name].extend(some)
    return {name: file.lines for name, file in files.items()}


async def arrow_frames(source: FrameSource, store: Reader | None) -> "dict[str, pa.Table]":
    """Every table as an Arrow table, by name. UsageError without pyarrow."""
    arrow = _arrow()
    about = _about(source)
    batches: dict[str, list[pa.RecordBatch]] = {n: [] for n in TABLES if _wanted(n, store)}
    with gc_relaxed(), ExitStack() as stack:
        files = {n: ArrowTable(TABLES[n], held.append, about) for n, held in batches.items()}
        for file in files.values():
            stack.callback(file.close)
        async for lines in frame_lines(source, store):
            for name, some in lines.items():
                if name in files:
                    files[name].extend(some)
    return {name: arrow.Table.from_batches(held) for name, held in batches.items()}


def _wanted(table: str, store: Reader | None) -> bool:
    return store is not None or table in FROM_OUTCOMES


def _file(folder: Path, table: str, format: FrameFormat, about: Mapping[str, str]) -> FrameFile:
    path, columns = folder / f"{table}.{format}", TABLES[table]
    if format == "jsonl":
        return JsonLinesFile(path, columns)
    if format == "csv":
        return CsvFile(path, columns)
    return _ParquetFile(path, columns, about)


class _ParquetFile(ArrowTable):
    """Row groups of Parquet, compressed with zstd."""

    def __init__(self, path: Path, columns: Columns, about: Mapping[str, str]) -> None:
        super().__init__(columns, lambda batch: self._parquet.write_batch(batch), about)
        from pyarrow.parquet import ParquetWriter

        self._parquet = ParquetWriter(path, self.schema, compression="zstd")

    def close(self) -> None:
        super().close()
        self._parquet.close()


def _about(source: FrameSource) -> dict[str, str]:
    """What a file says of where it is from."""
    sweep = source.opened.sweep
    return {"sweep": sweep.name, "identity": sweep.identity, "code": sweep.code}


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as exc:
        raise UsageError(
            "Parquet and Arrow tables need pyarrow: pip install 'oversight-bench[frames]'; CSV and "
            "JSON Lines need nothing"
        ) from exc
    return pyarrow


def _type(arrow: Any, kind: Kind) -> Any:
    return {
        "text": arrow.large_string(),
        "json": arrow.large_string(),
        "word": arrow.dictionary(arrow.int32(), arrow.string()),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "flag": arrow.bool_(),
        "floats": arrow.list_(arrow.float64()),
        "time": arrow.timestamp("s", tz="UTC"),
    }[kind]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return orjson.dumps(value).decode() if isinstance(value, tuple) else value
