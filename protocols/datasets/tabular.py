"""Rows of a file in any form that tables have: CSV, TSV, JSON Lines, JSON, Parquet or Arrow."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import DatasetError
from .rows import AnyRow, decoded, json_rows, read_bytes, regular

MAX_FIELD = 10_000_000
"""Maximum length of a field in characters; the standard reader's default is 131,072."""
DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET, ARROW = ".parquet", (".arrow", ".feather")
TABLES = (*DELIMITERS, PARQUET, *ARROW)
"""Endings of files whose columns have names and one kind of value each."""

Row: TypeAlias = dict[str, Any]


def records(path: Path) -> Iterator[tuple[int, Row]]:
    """(line, row) of each row of a file, read lazily; of Parquet and Arrow the number of the row.

    The ending says which form it has: .csv, .tsv, .parquet, .arrow or .feather; any other is JSON
    Lines, or one JSON array. Values of CSV and TSV are text. DatasetError where it is not so.
    """
    ending, file = path.suffix.lower(), str(path)
    if ending in DELIMITERS:
        yield from csv_records(file, read_bytes(path), DELIMITERS[ending])
    elif ending == PARQUET or ending in ARROW:
        empty = True
        for number, row in enumerate(_arrow_rows(path, ending == PARQUET), 1):
            yield number, row
            empty = False
        if empty:
            raise DatasetError(file, 0, "has no rows")
    else:
        for line, found in json_rows(file, read_bytes(path), AnyRow):
            yield line, found.__pydantic_extra__ or {}


def csv_records(file: str, data: bytes, delimiter: str = ",") -> Iterator[tuple[int, Row]]:
    """(line, record) of each record, keyed by the names of the columns on the first line.

    UTF-8, with or without a byte order mark; fields may hold line breaks, and blank lines between
    records are skipped.
    DatasetError at the first record that is wrong, and for a file without records.
    """
    csv.field_size_limit(MAX_FIELD)
    text = io.StringIO(decoded(file, data), newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    line, empty = 1, True
    try:
        names = next(reader, [])
        if twice := sorted(name for name in names if names.count(name) > 1):
            raise DatasetError(file, 1, f"the column {twice[0]!r} stands twice; rename one")
        if len(names) == 1 and (mark := next((m for m in ";\t|" if m in names[0]), "")):
            raise DatasetError(
                file,
                1,
                f"the first line names one column, {names[0][:80]!r}; save it with "
                f"{delimiter!r} between the columns, in place of {mark!r}",
            )
        line = reader.line_num + 1
        for fields in reader:
            if fields and len(fields) != len(names):
                raise DatasetError(
                    file,
                    line,
                    f"{len(fields)} fields under {len(names)} columns, from {fields[0][:40]!r} on; "
                    f"put a field with {delimiter!r} in quotes",
                )
            if fields:
                yield line, dict(zip(names, fields, strict=True))
                empty = False
            line = reader.line_num + 1
    except csv.Error as exc:
        raise DatasetError(
            file, line, f'not valid CSV: {exc}; a field with quotes in it doubles them, as in ""'
        ) from exc
    if empty:
        raise DatasetError(file, 0, "has no records")


def _arrow_rows(path: Path, parquet: bool) -> Iterator[Row]:
    form = "Parquet" if parquet else "Arrow"
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise DatasetError(
            str(path), 0, f"is {form}, which needs pyarrow: pip install 'oversight-bench[data]'"
        ) from None
    try:
        with pyarrow.OSFile(str(regular(path))) as source:
            if parquet:
                batches = pyarrow.parquet.ParquetFile(source).iter_batches()
            else:
                try:
                    batches = iter(pyarrow.ipc.open_stream(source))
                except pyarrow.ArrowInvalid:
                    source.seek(0)
                    reader = pyarrow.ipc.open_file(source)
                    batches = map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                yield from batch.to_pylist()
    except FileNotFoundError as exc:
        raise DatasetError(str(path), 0, "no such file") from exc
    except (OSError, pyarrow.ArrowException) as exc:
        raise DatasetError(str(path), 0, f"cannot be read as {form}: {exc}") from exc
