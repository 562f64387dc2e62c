"""The program does not grow: lines of Python in all, of the core and by folder only fall."""

import pytest

from tests.house.weight import bounds, weights


@pytest.mark.wire
def test_no_row_weighs_more_than_its_bound():
    most, rows = bounds(), weights()
    assert {row: (n, most.get(row)) for row, n in rows.items() if n > most.get(row, 0)} == {}
