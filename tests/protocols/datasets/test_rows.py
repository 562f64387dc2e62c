"""Outside bytes: whatever is wrong with them is named, with its line."""

import os
import stat

import pytest
from pydantic import BaseModel, ConfigDict, FiniteFloat

from oversight.protocols.datasets.rows import json_rows, members, read_bytes, regular
from oversight.protocols.errors import DatasetError
from tests.protocols.datasets.reading import refused


class Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: str
    size: FiniteFloat = 0.0


def lines(data):
    return list(json_rows("d.jsonl", data, Line))


def test_json_lines_and_a_json_array_give_the_same_rows_each_with_its_line():
    as_lines = b'{"name": "a"}\n\n  \r\n{"name": "b"}\r\n'
    as_array = b'[\n{"name": "a"},\n\n\n  {"name":\n "b"}]\n'
    assert [(n, row.name) for n, row in lines(as_lines)] == [(1, "a"), (4, "b")]
    assert [(n, row.name) for n, row in lines(as_array)] == [(2, "a"), (5, "b")]


def test_a_byte_order_mark_and_line_separators_inside_a_text_do_no_harm():
    data = b"\xef\xbb\xbf" + '{"name": "a\u2028b\u0085c"}\n'.encode()
    assert [row.name for _, row in lines(data)] == ["a\u2028b\u0085c"]


def test_rows_are_read_as_they_are_asked_for():
    first = next(iter(json_rows("d.jsonl", b'{"name": "a"}\nnot json\n', Line)))
    assert first[1].name == "a"


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", 0, "has no rows"),
        (b" \n\n", 0, "has no rows"),
        (b"[]", 0, "has no rows"),
        (b'{"name": "a"}\n{"name": "b"\n', 2, "one whole JSON object"),
        (b'{"name": "a"} {"name": "b"}', 1, "one object a line"),
        (b'{"name": "a"}\n["b"]', 2, "not a JSON object"),
        (b'[{"name": "a"},\n{"name": "b"}', 2, "the JSON array breaks off"),
        (b'[{"name": "a"} {"name": "b"}]', 1, "the JSON array breaks off"),
        (b'[{"name": "a"},\n]', 2, "not valid JSON"),
        (b'[{"name": "a"}]\nmore', 2, "after the end of the array"),
        (b'{"name": "a"}\n{"name": "b", "name": "c"}', 2, "'name' stands twice"),
        (b'{"name": "a", "size": NaN}', 1, "NaN is not JSON"),
        (b'{"name": "a", "size": -Infinity}', 1, "-Infinity is not JSON"),
        (b'{"name": "a", "size": 1e999}', 1, "size: inf is not a finite number"),
        (b'{"name": "a", "size": ' + b"9" * 400 + b"}", 1, "size: 9999"),
        (b'{"name": "a", "size": ' + b"9" * 9000 + b"}", 1, "thousands of digits"),
        (b'{"name": "a", "size": true}', 1, "size: True is not a finite number"),
        (b'{"name": "a", "size": "1"}', 1, "size: '1' is not a finite number"),
        (b'{"name": 7}', 1, "name: 7 is not text; put it in quotes"),
        (b'{"size": 7}', 1, "name: missing"),
        (b'{"name": "a", "seize": 7}', 1, "seize: no such field"),
        (b'\n{"name": "a\\ud800b"}', 2, "name: half a surrogate pair, '\\ud800', at character 1"),
        (b'{"name": "a", "\\uDFFF": 1}', 1, "half a surrogate pair"),
        (b'{"name": "a"}\n{"name": "\xff"}', 2, "0xff is not UTF-8"),
        (b'\xff\xfe{\x00"\x00', 1, "save the file as UTF-8"),
        (b'{"name": ' + b"[" * 100_000 + b"}", 1, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(data, line, words):
    fault = refused(lines, data)
    assert (fault.file, fault.line) == ("d.jsonl", line)
    assert words in str(fault)
    assert len(str(fault)) < 300


def test_a_whole_surrogate_pair_is_one_character():
    assert lines(b'{"name": "\\ud83d\\ude00"}')[0][1].name == "\U0001f600"


def test_a_file_that_cannot_be_read_is_a_dataset_error(tmp_path):
    with pytest.raises(DatasetError, match="no such file"):
        read_bytes(tmp_path / "none.jsonl")


def test_what_is_no_file_is_refused_by_its_kind_and_never_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    kinds = {"/dev/zero": "a device", "pipe": "a pipe", "socket": "a socket", ".": "a folder"}
    for name, kind in kinds.items():
        for read in (read_bytes, regular):
            with pytest.raises(DatasetError, match=f"is {kind}; name a file with the rows"):
                read(tmp_path / name)


def test_an_object_of_rows_gives_each_with_its_line():
    data = b'\xef\xbb\xbf{\n"x": {"name": "a"},\n\n"y":\n {"name":\n "b"} }\n'
    assert [(n, row.name) for n, row in members("d.json", data, Line)] == [(2, "a"), (4, "b")]


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"{}", 0, "has no rows"),
        (b'{"x": {"name": "a"},\n"x": {"name": "b"}}', 2, "the key 'x' stands twice"),
        (b'{"x": {"name": "a"}\n"y": {"name": "b"}}', 2, "the JSON object breaks off"),
        (b'{"x": {"name": "a"},\n"y" {"name": "b"}}', 2, "'y' names no row"),
        (b'{"x": {"name": "a"},\n7: {"name": "b"}}', 2, "7 names no row"),
        (b'{"x": {"name": "a"},\n"y": 7}', 2, "7 is not a JSON object"),
        (b'{"x": {"name": 7}}', 1, "name: 7 is not text"),
        (b'{"x": {"name": "a"}}\nmore', 2, "after the end of the object"),
        (b'{"x": {"name": "a"},', 1, "not valid JSON"),
    ],
)
def test_what_is_wrong_in_an_object_of_rows_is_named_with_its_line(data, line, words):
    fault = refused(lambda: list(members("d.json", data, Line)))
    assert fault.line == line and words in str(fault)
