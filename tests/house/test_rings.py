"""The rings of tests: markers but `known_truth` and `nightly`; the unit ring is watched."""

import re
import socket
import tomllib
from collections.abc import Iterator

import pytest

from tests.conftest import RINGS
from tests.house.test_names import ROOT


def opened() -> None:
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))


@pytest.fixture
def server() -> Iterator[None]:
    """Stands for the server of other tests, which ends with the last test of a session."""
    yield
    opened()


def test_a_server_of_others_may_end_with_a_unit_test(server):
    pass


def test_a_unit_test_that_leaves_its_process_fails():
    with pytest.raises(AssertionError, match="a test that leaves its process is marked `wire`"):
        opened()


def test_every_marker_is_a_ring():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = {line.partition(":")[0] for line in options["markers"]}
    assert markers - {"known_truth", "nightly"} == set(RINGS)


def test_promises_know_no_module():
    """They hold for whatever carries out a run, and are driven by the command line alone."""
    files = list((ROOT / "tests" / "promises").glob("*.py"))
    knows = re.compile(r"^\s*(?:from|import) oversight", re.MULTILINE)
    assert files and [file.name for file in files if knows.search(file.read_text())] == []
