"""Every marker is a ring of its own: none of them lets a test fall into the unit ring."""

import tomllib

from tests.conftest import RINGS
from tests.house.test_names import ROOT


def test_every_marker_is_a_ring() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert {line.partition(":")[0] for line in options["markers"]} == set(RINGS)
