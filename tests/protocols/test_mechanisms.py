import pytest

from oversight.protocols.catalogue import PROTOCOLS
from tests.mechanisms import TABLES, TRUTHS, written


@pytest.mark.parametrize("table", TABLES)
def test_the_document_says_what_every_mechanism_really_is(table: str) -> None:
    assert written(table) == TABLES[table](), "write it anew with: python -m tests.mechanisms"


def test_every_mechanism_has_a_known_truth() -> None:
    assert set(PROTOCOLS) <= set(TRUTHS)
