"""Reader of data files: JSON Lines, or one JSON array or object, checked row by row, with lines.

Any fault in a file becomes one DatasetError: file, line, the value at fault, the remedy.
"""

import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from ..errors import DatasetError

RowModel = TypeVar("RowModel", bound=BaseModel)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError(f"{text!r} has no text in it; write one, or leave the row out")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
"""Text with something to read in it."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LINES = "each line is one whole JSON object"
_WHOLE = re.compile(r"\s*(?:\[|\{\s*(?:\"[^\"\\]*\"\s*:\s*\{\s*)?$)", re.MULTILINE)
"""Start of a file that is one value: an array, or an object that goes on for lines."""


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class DataRow(BaseModel):
    """What a row must hold; fields that it does not name are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


class AnyRow(BaseModel):
    """A row with any fields."""

    model_config = ConfigDict(extra="allow")


class _Refused(ValueError):
    """JSON that parsers accept, but read differently from one another."""


def read_bytes(path: Path) -> bytes:
    """The bytes of a file. DatasetError if there is none, or if it cannot be read."""
    try:
        return regular(path).read_bytes()
    except FileNotFoundError as exc:
        raise DatasetError(str(path), 0, "no such file") from exc
    except OSError as exc:
        raise DatasetError(str(path), 0, f"cannot be read: {exc.strerror}") from exc


def regular(path: Path) -> Path:
    """The path itself, if it is a regular file. DatasetError if it is not: a device has no end, and
    a pipe may never begin. OSError if nothing is there."""
    if kind := _KINDS.get(stat.S_IFMT(path.stat().st_mode)):
        raise DatasetError(str(path), 0, f"is {kind}; name a file with the rows in it")
    return path


def json_rows(file: str, data: bytes, model: type[RowModel]) -> Iterator[tuple[int, RowModel]]:
    """(line, row) of every row, checked against `model`; lines count from 1.

    data: one JSON object a line, blank lines aside, read lazily; or one JSON array of objects, or
    an object that names them, of which the line is the number of the row. UTF-8, with or without a
    byte order mark. DatasetError at the first row that is wrong, and for a file without rows.
    """
    line, text = 0, decoded(file, data)
    for line, value in _whole(file, text) if _WHOLE.match(text) else _lines(file, text):
        if not isinstance(value, dict):
            raise DatasetError(file, line, f"{_brief(value)} is not a JSON object; one a row")
        yield line, checked_row(file, line, value, model)
    if not line:
        raise DatasetError(file, 0, "has no rows")


def each_row(
    file: str, data: bytes, model: type[RowModel]
) -> Iterator[tuple[int, RowModel | DatasetError]]:
    """As `json_rows`, but a row that does not fit `model` is yielded as its error, and reading goes
    on. DatasetError for a file that is not JSON, or has no rows."""
    for line, value in json_rows(file, data, AnyRow):
        try:
            yield line, checked_row(file, line, value.__pydantic_extra__ or {}, model)
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
    """The text of a file in UTF-8, with or without a byte order mark. first: the number of its
    first line. DatasetError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + first
        raise DatasetError(
            file, line, f"byte {data[exc.start]:#04x} is not UTF-8; save the file as UTF-8"
        ) from exc


def _lines(file: str, text: str) -> Iterator[tuple[int, Any]]:
    # Not splitlines: it also splits at U+2028 and the like, which JSON allows inside a string.
    for line, row in enumerate(text.split("\n"), 1):
        if row.strip(" \t\r"):
            yield line, _value(file, line, row, _LINES)


def _whole(file: str, text: str) -> Iterator[tuple[int, Any]]:
    value = _value(file, 1, text, "the file is one JSON array or object of objects")
    yield from enumerate(value if isinstance(value, list) else value.values(), 1)


def _value(file: str, line: int, text: str, shape: str) -> Any:
    """The JSON value that a text is. line: of its first character; shape: what the file should look
    like, for the error."""
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
        raise _Refused(f"the key {_brief(twice)} stands twice in one object; keep one of them")
    return row


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON; write a finite number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def complaint(exc: ValidationError) -> str:
    """The first validation error, in our words."""
    error = exc.errors(include_url=False)[0]
    value = _brief(error["input"])
    match error["type"]:
        case "value_error":
            said = str(error["ctx"]["error"])
        case "missing":
            said = "missing, and required"
        case "extra_forbidden":
            said = f"no such field; its value is {value}"
        case "string_type":
            said = f"{value} is not text; put it in quotes"
        case "float_type" | "finite_number":
            said = f"{value} is not a finite number; write one such as 1 or -0.5, without quotes"
        case "too_short":
            said = f"{error['ctx']['actual_length']} of them; two or more are needed"
        case "too_long":
            said = f"{error['ctx']['actual_length']} of them; {error['ctx']['max_length']} at most"
        case _:
            said = f"{value}: {error['msg']}"
    place = ""
    for step in error["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    return f"{place.lstrip('.')}: {said}" if place else said


def _brief(value: Any) -> str:
    """A value as an error shows it: one line, not too long."""
    try:
        shown = ascii(value) if isinstance(value, str) and _SURROGATE.search(value) else repr(value)
    except ValueError:
        return "a huge whole number"
    return shown if len(shown) <= 80 else f"{shown[:60]} … ({len(shown)} characters)"
