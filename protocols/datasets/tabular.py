"""CSV reader: records keyed by the names in the first line, each with the line it begins at."""

import csv
import io
from collections.abc import Iterator, Sequence

from ..errors import DatasetError
from .rows import RowModel, checked_row, decoded

MAX_FIELD = 10_000_000
"""Maximum length of a field in characters; the standard reader's default is 131,072."""


def csv_rows(
    file: str, data: bytes, model: type[RowModel], names: Sequence[str] = ()
) -> Iterator[tuple[int, RowModel]]:
    """(line, record), checked against `model`; columns that it does not name are ignored.

    names: column names; read from the first line unless given. UTF-8, with or without a
    byte order mark; fields may hold line breaks, and blank lines between records are skipped.
    DatasetError at the first record that is wrong, and for a file without records.
    """
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(io.StringIO(decoded(file, data), newline=""), strict=True)
    line, empty = 1, True
    try:
        if not names:
            names = _header(file, next(reader, []), model)
            line = reader.line_num + 1
        for fields in reader:
            if fields:
                yield line, _record(file, line, dict(_paired(file, line, names, fields)), model)
                empty = False
            line = reader.line_num + 1
    except csv.Error as exc:
        raise DatasetError(
            file, line, f'not valid CSV: {exc}; a field with quotes in it doubles them, as in ""'
        ) from exc
    if empty:
        raise DatasetError(file, 0, "has no records")


def _header(file: str, names: Sequence[str], model: type[RowModel]) -> Sequence[str]:
    wanted = _columns(model)
    needed = {info.alias or name for name, info in model.model_fields.items() if info.is_required()}
    if missing := sorted(needed - set(names)):
        has = f"it says {','.join(names)[:80]!r}" if names else "it is empty"
        if len(names) == 1 and (marks := [mark for mark in (";", "\t") if mark in names[0]]):
            has += f"; save it with commas between the columns, in place of {marks[0]!r}"
        raise DatasetError(
            file, 1, f"there is no column {missing[0]!r}; the first line names the columns: {has}"
        )
    if twice := sorted(name for name in wanted if names.count(name) > 1):
        raise DatasetError(file, 1, f"the column {twice[0]!r} stands twice; rename one")
    return names


def _paired(
    file: str, line: int, names: Sequence[str], fields: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if len(fields) != len(names):
        raise DatasetError(
            file,
            line,
            f"{len(fields)} fields under {len(names)} columns, from {fields[0][:40]!r} on; put a "
            "field with commas in quotes",
        )
    return zip(names, fields, strict=True)


def _record(file: str, line: int, fields: dict[str, str], model: type[RowModel]) -> RowModel:
    wanted = _columns(model)
    values = {name: text for name, text in fields.items() if name in wanted}
    return checked_row(file, line, values, model)


def _columns(model: type[RowModel]) -> set[str]:
    return {info.alias or name for name, info in model.model_fields.items()}
