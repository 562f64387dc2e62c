"""The tables of a run in files: Parquet, CSV, JSON Lines; or in memory, as Arrow tables.

pyarrow is in the extra `frames`; CSV and JSON Lines need nothing.
"""

import csv
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from ...cache.extras import install_command
from ..display.table import inert
from ..errors import UsageError
from ..system.files import unwritable
from .frame_pool import encoded_chunks
from .frame_tables import TABLES, Columns, Kind
from .frames import FrameReader, FrameSource, TableLines

if TYPE_CHECKING:
    import pyarrow as pa

FrameFormat: TypeAlias = Literal["parquet", "csv", "jsonl"]

GROUP = 50_000
"""Lines of a table that are held before they are written, one row group of Parquet."""

HELD = 32 * 2**20
"""Bytes of a table that are held before they are written, however few lines that are."""


class FrameFile(ABC):
    """One table that is being written.

    Lines are encoded first, by any process, and then added in the order of the table.
    """

    @staticmethod
    @abstractmethod
    def encode(columns: Columns, lines: TableLines) -> Any:
        """Lines in the form that `add` takes. Text may come as the UTF-8 that it is."""

    @abstractmethod
    def add(self, encoded: Any, wanted: Sequence[bool] | None = None) -> int:
        """More lines; how many. wanted: which of them; None for all."""

    @abstractmethod
    def close(self) -> None:
        """Write what is held."""


class TextFile(FrameFile):
    """A table with one line of text a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def add(self, encoded: list[bytes], wanted: Sequence[bool] | None = None) -> int:
        lines = encoded if wanted is None else list(compress(encoded, wanted))
        self._file.writelines(lines)
        return len(lines)

    def close(self) -> None:
        self._file.close()


class JsonLinesFile(TextFile):
    """One JSON object a line; columns of JSON are objects in it."""

    @staticmethod
    def encode(columns: Columns, lines: TableLines) -> list[bytes]:
        nested = [kind == "json" for kind in columns.values()]
        encoded = []
        for values in lines:
            told = {
                name: orjson.Fragment(value) if nested and value is not None else value
                for name, value, nested in zip(columns, values, nested, strict=True)
            }
            encoded.append(orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE))
        return encoded


class CsvFile(TextFile):
    """Comma-separated, with lists and objects as JSON; texts that a spreadsheet would run as a
    formula begin with an apostrophe."""

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(path)
        self.add(self.encode(columns, [tuple(columns)]))

    @staticmethod
    def encode(columns: Columns, lines: TableLines) -> list[bytes]:
        encoded = []
        for values in lines:
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerow([_plain(value) for value in values])
            encoded.append(text.getvalue().encode())
        return encoded


class ArrowTable(FrameFile):
    """Record batches, handed on as tables of bounded size."""

    def __init__(self, columns: Columns, take: "Callable[[pa.Table], None]") -> None:
        self.schema = _schema(columns)
        self._take = take
        self._held: list[pa.RecordBatch] = []
        self._lines = self._size = 0
        self._empty = True

    @staticmethod
    def encode(columns: Columns, lines: TableLines) -> "pa.RecordBatch":
        arrow, schema = _arrow(), _schema(columns)
        values = zip(*lines, strict=True) if lines else [()] * len(schema)
        arrays = [
            arrow.array(each, type=field.type) for each, field in zip(values, schema, strict=True)
        ]
        return arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def add(self, encoded: "pa.RecordBatch", wanted: Sequence[bool] | None = None) -> int:
        batch = encoded if wanted is None else encoded.filter(_arrow().array(wanted))
        self._held.append(batch)
        self._lines += batch.num_rows
        self._size += batch.nbytes
        if self._lines >= GROUP or self._size >= HELD:
            self._flush()
        count: int = batch.num_rows
        return count

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


def write_frames(
    source: FrameSource, folder: Path, format: FrameFormat, processes: int = 1
) -> dict[str, int]:
    """Write every table into a folder, `cells.parquet` and so on, all of them or none; how many
    lines each has.

    folder: must be there. processes: that read the run; the files are the same with any number.
    UsageError where pyarrow is needed and not installed; RunFolderError for a full disk.
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
                    files[name] = CsvFile(path, columns) if format == "csv" else JsonLinesFile(path)
                stack.callback(files[name].close)
            counts = _fill(source, files, processes)
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
    _fill(source, files, 1)
    for file in files.values():
        file.close()
    return {
        name: arrow.concat_tables(tables).replace_schema_metadata(about)
        for name, tables in held.items()
    }


def _fill(source: FrameSource, files: Mapping[str, FrameFile], processes: int) -> dict[str, int]:
    """Add all lines of a run; how many each table has."""
    encode = next(iter(files.values())).encode
    seen: set[bytes] = set()
    with encoded_chunks(source, encode, processes) as chunks:
        rows = encode(TABLES["rows"], FrameReader(source).rows())
        counts = {name: file.add(rows) if name == "rows" else 0 for name, file in files.items()}
        for chunk in chunks:
            new = [bytes.fromhex(address) not in seen for address in chunk.calls]
            seen.update(map(bytes.fromhex, chunk.calls))
            for name, encoded in chunk.tables.items():
                wanted = new if name == "calls" and not all(new) else None
                counts[name] += files[name].add(encoded, wanted)
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
