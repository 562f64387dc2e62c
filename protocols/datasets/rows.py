"""Reader of data files: bytes become rows with line numbers, whatever the form of the file.

JSON Lines, JSON, CSV, TSV, Parquet and Arrow, each also as `.gz`. Any fault in a file becomes a
DatasetError: file, line, the value at fault, the fix."""

import csv
import io
import json
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from ..errors import DatasetError

T = TypeVar("T")
RowModel = TypeVar("RowModel", bound=BaseModel)
Row: TypeAlias = dict[str, Any]

MAX_FIELD = 10_000_000
"""Maximum length of a CSV field in characters; the standard reader's default is 131,072."""
MAX_BYTES = 2**31
"""Maximum size of a decompressed file."""
DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET, ARROW = ".parquet", (".arrow", ".feather")
TABLES = (*DELIMITERS, PARQUET, *ARROW)
"""Endings of files whose columns have names and one kind of value each."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError(f"{text!r} has no text in it; write one, or leave the row out")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
"""Text with something to read in it."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LINES = "each line is one whole JSON object; name a table .csv or .tsv"
_ONE = "the file is one JSON array or object of objects"
_BLANK = " \t\r\n"
_WIDE = ("\ufeff".encode("utf-16-le"), "\ufeff".encode("utf-16-be"))
_GZIP = b"\x1f\x8b"
_FOREIGN = {
    b"PK\x03\x04": "a zip file or an Excel workbook; unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"BZh": "compressed by bzip2; decompress it, or use gzip",
    b"\xfd7zXZ": "compressed by xz; decompress it, or use gzip",
    b"(\xb5/\xfd": "compressed by zstd; decompress it, or use gzip",
    b"SQLite format 3": "a database; export the table as CSV",
    b"PAR1": "Parquet; name it .parquet",
    b"ARROW1": "Arrow; name it .arrow",
    b"version https://git-lfs": "a pointer of Git LFS; fetch its data with git lfs pull",
    **dict.fromkeys((b"<!", b"<html", b"<?xml"), "a web page or XML; download the data again"),
}
"""First bytes of files that are not read, and the way to have them read."""


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class DataRow(BaseModel):
    """The fields that a row must hold; others are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


class AnyRow(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Refused(ValueError):
    """JSON that parsers accept, but read differently from one another."""


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, decompressed if they are gzip. DatasetError if it cannot be read."""
    try:
        data = regular(path).read_bytes()
    except FileNotFoundError as exc:
        raise DatasetError(str(path), 0, "file not found") from exc
    except OSError as exc:
        raise DatasetError(str(path), 0, f"cannot be read: {exc.strerror}") from exc
    return _gunzipped(str(path), data) if data.startswith(_GZIP) else data


def _gunzipped(file: str, data: bytes) -> bytes:
    parts, size = [], 0
    try:
        while data:
            # A gzip file may have several members.
            inflater = zlib.decompressobj(wbits=31)
            parts.append(inflater.decompress(data, MAX_BYTES - size + 1))
            size += len(parts[-1])
            if size > MAX_BYTES:
                raise DatasetError(file, 0, f"holds more than {MAX_BYTES:,} bytes; split it")
            if not inflater.eof:
                raise DatasetError(file, 0, "its gzip data are cut off; copy the file again")
            data = inflater.unused_data.lstrip(b"\0")
    except zlib.error as exc:
        raise DatasetError(file, 0, f"its gzip data are damaged: {exc}") from exc
    return b"".join(parts)


def regular(path: Path) -> Path:
    """The path itself, if it is a regular file. DatasetError if it is not: a device has no end, and
    a pipe may never begin. OSError if nothing is there."""
    if kind := _KINDS.get(stat.S_IFMT(path.stat().st_mode)):
        raise DatasetError(str(path), 0, f"is {kind}; name a file with the rows in it")
    return path


def ending(path: Path) -> str:
    """The ending that names the form of a file: `.csv` for `data.CSV.gz`."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def strict(rows: Iterable[tuple[int, T | DatasetError]]) -> Iterator[tuple[int, T]]:
    """The rows; the first wrong one is raised."""
    for line, row in rows:
        if isinstance(row, DatasetError):
            raise row
        yield line, row


def each_record(path: Path) -> Iterator[tuple[int, Row | DatasetError]]:
    """(line, row) of each row of a file; of Parquet and Arrow the number of the row. A wrong row is
    yielded as its error, and reading goes on. The ending names the form: .csv, .tsv, .parquet,
    .arrow or .feather, or one of these and .gz. Any other file is JSON. Values of CSV and TSV are
    text. DatasetError for a file that cannot be read as a whole, or has no rows."""
    kind, file = ending(path), str(path)
    if kind in (PARQUET, *ARROW):
        yield from _counted(file, enumerate(_arrow_rows(path, kind == PARQUET), 1))
    elif kind in DELIMITERS:
        yield from csv_rows(file, read_bytes(path), DELIMITERS[kind])
    else:
        yield from _objects(file, read_bytes(path))


def each_row(
    file: str, data: bytes, model: type[RowModel]
) -> Iterator[tuple[int, RowModel | DatasetError]]:
    """(line, row) of every row, checked against `model`; lines count from 1. A wrong row is yielded
    as its error, and reading goes on. data: one JSON object per line, read lazily, without blank
    lines; or a JSON array of objects, or an object that names them, whose line is the number of the
    row; or a single object as one row. UTF-8, or UTF-16 with a byte order mark. DatasetError for a
    file that cannot be read as a whole, or has no rows."""
    for line, value in _objects(file, data):
        if isinstance(value, DatasetError):
            yield line, value
            continue
        try:
            yield line, checked_row(file, line, value, model)
        except DatasetError as fault:
            yield line, fault


def checked_row(file: str, line: int, value: Mapping[str, Any], model: type[RowModel]) -> RowModel:
    """The row as `model`; DatasetError says what does not fit, and what would."""
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        raise DatasetError(file, line, complaint(exc)) from exc


def json_line(file: str, line: int, data: bytes) -> Any:
    """The JSON value of one line of a file. DatasetError."""
    return _value(file, line, decoded(file, data, line).strip(), _LINES)


def decoded(file: str, data: bytes, first: int = 1) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark. first: the number of its
    first line. DatasetError."""
    if kind := _foreign(data):
        raise DatasetError(file, 0, f"is {kind}")
    try:
        text = data.decode("utf-16" if data.startswith(_WIDE) else "utf-8").lstrip("\ufeff")
        if (at := text.find("\0")) >= 0:
            fault = "a character 0, as in UTF-16 without a mark; save the file as UTF-8"
            raise DatasetError(file, text.count("\n", 0, at) + first, fault)
        return text
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + first
        fault = f"byte {data[exc.start]:#04x} is not UTF-8; save the file as UTF-8"
        raise DatasetError(file, line, fault) from exc


def _foreign(data: bytes, form: str = "no form") -> str:
    """The kind of file that begins so and is not read as a table, except `form`; else empty."""
    kinds = (kind for start, kind in _FOREIGN.items() if data.startswith(start))
    return next((kind for kind in kinds if not kind.startswith(form)), "")


def _counted(
    file: str, rows: Iterable[tuple[int, Row | DatasetError]]
) -> Iterator[tuple[int, Row | DatasetError]]:
    """The rows; DatasetError for a file without any."""
    empty = True
    for row in rows:
        yield row
        empty = False
    if empty:
        raise DatasetError(file, 0, "has no rows")


def _objects(file: str, data: bytes) -> Iterator[tuple[int, Row | DatasetError]]:
    """(line, object) of each row of JSON."""
    values: Iterable[tuple[int, Any]] = _counted(file, _json_values(file, decoded(file, data)))
    for line, value in values:
        if not isinstance(value, dict | DatasetError):
            value = DatasetError(file, line, f"{brief(value)} is not a JSON object; one a row")
        yield line, value


def _json_values(file: str, text: str) -> Iterator[tuple[int, Any]]:
    """(line, value or fault) of the rows of an array, of lines, or of objects that go on for
    lines, each begun on a new line."""
    if text.lstrip(_BLANK).startswith("["):
        value = _value(file, 1, text, _ONE)
        yield from enumerate(value, 1)
        return
    # Not splitlines: it also splits at U+2028 and the like, which JSON allows inside a string.
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip(_BLANK)]
    values: Iterator[Any] = (_value_or_fault(file, n, line, _LINES) for n, line in lines)
    first = next(values, None)
    if len(lines) > 1 and isinstance(first, DatasetError) and lines[0][1].lstrip().startswith("{"):
        starts = [0, *(at for at, (_, line) in enumerate(lines) if at and line.startswith("{"))]
        spans = zip(starts, [*starts[1:], len(lines)], strict=True)
        parts = [lines[start:end] for start, end in spans]
        parsed = [(p[0][0], _value_or_fault(file, p[0][0], _joined(p), _ONE)) for p in parts]
        if not isinstance(parsed[0][1], DatasetError):
            yield from _named(*parsed[0]) if len(parsed) == 1 else parsed
            return
        others = list(values)
        if all(isinstance(value, DatasetError) for value in others):
            # No line is a row, so the file was meant as a whole.
            raise parsed[0][1]
        values = iter(others)
    if len(lines) == 1:
        yield from _named(lines[0][0], first)
    elif lines:
        yield from zip((n for n, _ in lines), chain([first], values), strict=True)


def _joined(lines: Sequence[tuple[int, str]]) -> str:
    """Numbered lines as one text, with the blank lines between them."""
    parts, at = [], lines[0][0]
    for number, line in lines:
        parts.append("\n" * (number - at) + line)
        at = number
    return "".join(parts)


def _named(line: int, value: Any) -> Iterator[tuple[int, Any]]:
    """The rows of a file with a single value: those that an object names, or the object itself."""
    rows = list(value.values()) if isinstance(value, dict) else []
    if len(rows) > 1 and all(isinstance(row, dict) for row in rows):
        yield from enumerate(rows, 1)
    else:
        yield line, value


def _value_or_fault(file: str, line: int, text: str, shape: str) -> Any:
    try:
        return _value(file, line, text, shape)
    except DatasetError as fault:
        return fault


def csv_rows(
    file: str, data: bytes, delimiter: str = ","
) -> Iterator[tuple[int, Row | DatasetError]]:
    """(line, row) of each record of a table, keyed by the names of the columns on the first line.
    Fields may hold line breaks. Blank records are skipped, and so are columns without a name, as
    Excel leaves them at the end; a first line such as `sep=;` names the delimiter. A record with
    another number of fields is yielded as its error. DatasetError for a file that cannot be read as
    a whole, or has no records."""
    csv.field_size_limit(MAX_FIELD)
    text, before = decoded(file, data), 0
    head, _, body = text.partition("\n")
    mark, _, sep = head.rstrip("\r").strip('"').replace("\\t", "\t").partition("=")
    if mark.lower() == "sep" and sep and not sep.strip(f'{sep[0]}" '):
        delimiter, text, before = sep[0], body, 1
    if delimiter == "\t" and len({row.count("\t") for row in text.split("\n") if row.strip()}) == 1:
        # Each line is a record, so a bare quote is a quote: many programs write tabs as they are.
        text = "\n".join(map(_tabs, text.split("\n")))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line, empty = 1 + before, True
    try:
        names = [name.strip() for name in next(filter(any, reader), [])]
        if twice := sorted(name for name in names if name and names.count(name) > 1):
            raise DatasetError(file, line, f"the column {twice[0]!r} stands twice; rename one")
        if len(names) == 1 and (other := next((m for m in ";\t|" if m in names[0]), "")):
            raise DatasetError(
                file,
                line,
                f"the first line names one column, {names[0][:80]!r}; save it with "
                f"{delimiter!r} between the columns instead of {other!r}, or begin it with the "
                f"line sep={other}",
            )
        if names and names[0].startswith(("{", "[{")):
            raise DatasetError(file, line, "begins like JSON; name it .jsonl or .json")
        line = reader.line_num + 1 + before
        for fields in reader:
            if any(field.strip() for field in fields):
                yield line, _record(file, line, names, fields, delimiter)
                empty = False
            line = reader.line_num + 1 + before
    except csv.Error as exc:
        raise DatasetError(
            file, line, f'not valid CSV: {exc}; a field with quotes in it doubles them, as in ""'
        ) from exc
    if empty:
        raise DatasetError(file, 0, "has no records")


def _tabs(line: str) -> str:
    """A line of a table of tabs, with its fields in quotes if a quote in them is no CSV."""
    try:
        count = len(next(csv.reader([line], delimiter="\t", strict=True), []))
    except csv.Error:
        count = 0
    fields = line.rstrip("\r").replace('"', '""').split("\t")
    return line if count == len(fields) else "\t".join([f'"{field}"' for field in fields])


def _record(
    file: str, line: int, names: Sequence[str], fields: Sequence[str], delimiter: str
) -> Row | DatasetError:
    short = len(fields) < len(names)
    if short or any(field.strip() for field in fields[len(names) :]):
        fix = (
            "write every field, empty ones too"
            if short
            else f"put a field with {delimiter!r} in quotes"
        )
        return DatasetError(
            file,
            line,
            f"{len(fields)} fields under {len(names)} columns, from {fields[0][:40]!r} on; {fix}",
        )
    return {name: field for name, field in zip(names, fields, strict=False) if name}


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
        packed = path.name.lower().endswith(".gz")
        opened = pyarrow.BufferReader(read_bytes(path)) if packed else None
        with opened or pyarrow.OSFile(str(regular(path))) as source:
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
                if twice := [n for n, count in Counter(batch.schema.names).items() if count > 1]:
                    reason = f"the column {twice[0]!r} stands twice; rename one"
                    raise DatasetError(str(path), 0, reason)
                yield from batch.to_pylist(maps_as_pydicts="strict")
    except FileNotFoundError as exc:
        raise DatasetError(str(path), 0, "file not found") from exc
    except (OSError, pyarrow.ArrowException) as exc:
        with path.open("rb") as source:
            if kind := _foreign(source.read(32), form):
                raise DatasetError(str(path), 0, f"is {kind}") from exc
        raise DatasetError(str(path), 0, f"cannot be read as {form}: {exc}") from exc


def _value(file: str, line: int, text: str, shape: str) -> Any:
    """The JSON value of a text. line: of its first character; shape: the expected form of the
    file, for the error."""
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as exc:
        near = text[exc.pos : exc.pos + 30].split("\n")[0]
        where = f"at {near!r}" if near else "at its end"
        at = line + exc.lineno - 1
        raise DatasetError(file, at, f"not valid JSON {where}: {exc.msg}; {shape}") from exc
    except _Refused as exc:
        raise DatasetError(file, line, str(exc)) from exc
    except ValueError as exc:
        raise DatasetError(
            file, line, "a whole number of thousands of digits; shorten it or put it in quotes"
        ) from exc
    except RecursionError as exc:
        raise DatasetError(file, line, "nested too deeply to be a row of a data set") from exc
    if _MAYBE_SURROGATE.search(text):
        written = json.dumps(value, ensure_ascii=False)
        if half := _SURROGATE.search(written):
            near = written[max(0, half.start() - 20) : half.end()]
            raise DatasetError(
                file,
                line,
                f"half a surrogate pair behind {near[:-1]!r}: {half[0]!a}; write the character "
                "itself, or both halves",
            )
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f"the key {brief(twice)} stands twice in one object; keep one of them")
    return row


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON; write a finite number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def complaint(exc: ValidationError) -> str:
    """The first validation error, in our words."""
    error = exc.errors(include_url=False)[0]
    value = brief(error["input"])
    match error["type"]:
        case "value_error":
            message = str(error["ctx"]["error"])
        case "missing":
            message = "missing, and required"
        case "extra_forbidden":
            message = f"no such field; its value is {value}"
        case "string_type":
            message = f"{value} is not text; put it in quotes"
        case "float_type" | "finite_number":
            message = f"{value} is not a finite number; write one such as 1 or -0.5, without quotes"
        case "too_short":
            least = error["ctx"]["min_length"]
            word = {1: "one", 2: "two"}.get(least, least)
            message = f"{error['ctx']['actual_length']} of them; {word} or more are needed"
        case "too_long":
            most = error["ctx"]["max_length"]
            message = f"{error['ctx']['actual_length']} of them; {most} at most"
        case _:
            message = f"{value}: {error['msg']}"
    place = ""
    for step in error["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    return f"{place.lstrip('.')}: {message}" if place else message


def brief(value: Any) -> str:
    """A value as an error shows it: one line, not too long."""
    try:
        text = ascii(value) if isinstance(value, str) and _SURROGATE.search(value) else repr(value)
    except ValueError:
        return "a huge whole number"
    return text if len(text) <= 80 else f"{text[:60]} … ({len(text)} characters)"
