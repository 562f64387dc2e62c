"""CSV on its way in: whatever is wrong with it is named, with the line its record begins at."""

import pytest
from pydantic import BaseModel, ConfigDict

from oversight.protocols.datasets.rows import Text
from oversight.protocols.datasets.tabular import csv_rows
from tests.protocols.datasets.reading import refused


class Record(BaseModel):
    model_config = ConfigDict(strict=True)

    name: Text
    size: str


def read(data, names=()):
    return [(line, row.name, row.size) for line, row in csv_rows("d.csv", data, Record, names)]


def test_fields_in_quotes_hold_commas_quotes_and_line_breaks():
    data = b'name,size\n"a, ""b""\r\nc",1\nd,2\n'
    assert read(data) == [(2, 'a, "b"\r\nc', "1"), (4, "d", "2")]


def test_a_byte_order_mark_blank_lines_and_other_columns_do_no_harm():
    data = b"\xef\xbb\xbfother,size,name\r\n\r\nx,1,a\r\n\r\n"
    assert read(data) == [(3, "a", "1")]


def test_columns_that_the_file_does_not_name_are_named_by_the_caller():
    assert read(b"a,1\nb,2\n", ("name", "size")) == [(1, "a", "1"), (2, "b", "2")]


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", 1, "there is no column 'name'; the first line names the columns: it is empty"),
        (b"name;size\na;1\n", 1, "the first line names the columns: it says 'name;size'"),
        (b"name,size,name\na,1,b\n", 1, "the column 'name' stands twice"),
        (b"name,size\n", 0, "has no records"),
        (b"name,size\na,1\nb,2,3\n", 3, "3 fields under 2 columns, from 'b' on; put a field"),
        (b"name,size\n ,1\n", 2, "name: ' ' has no text in it"),
        (b'name,size\n"a\nb",1\n"c,2\n', 4, "not valid CSV"),
        (b'name,size\n"a"b,1\n', 2, "not valid CSV"),
        (b"name,size\na\xff,1\n", 2, "byte 0xff is not UTF-8; save the file as UTF-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(data, line, words):
    fault = refused(read, data)
    assert (fault.file, fault.line) == ("d.csv", line)
    assert words in str(fault)
