"""Every marker but that of known truths is a ring: none lets a test fall into the unit ring."""

import tomllib

from tests.conftest import RINGS
from tests.house.test_names import ROOT


def test_every_marker_is_a_ring() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = {line.partition(":")[0] for line in options["markers"]}
    assert markers - {"known_truth"} == set(RINGS)
