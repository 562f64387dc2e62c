"""A self-hosted server that moves keeps its replies, also replies stored under its address."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oversight.engine.extensions.mock.process import counts, serving
from tests.command_line import ROOT

pytestmark = pytest.mark.wire
SWEEP = """\
name: lab
problems: {bundled: {name: arithmetic, limit: 2}}
judges: compatible/lab/m
protocols: naive_judge
providers: {compatible/lab: {base_url: URL}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that knows the problems of the sweep."""
    sweep = tmp_path_factory.mktemp("server") / "lab.yaml"
    sweep.write_text(SWEEP.replace("URL", "http://127.0.0.1:9/v1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        with serving(["--sweep", str(sweep)]) as url:
            yield url


@pytest.fixture
def lab(place: Path, server: str) -> str:
    """The URL of the server that `lab.yaml` asks."""
    (place / "lab.yaml").write_text(SWEEP.replace("URL", f"{server}/v1"))
    return server


def test_a_server_that_moves_is_not_paid_again(place, command, lab):
    first = command("run", "lab.yaml")
    requests = counts(lab)["requests"]
    assert first.code == 0 and requests > 0
    elsewhere = lab.replace("127.0.0.1", "localhost")
    (place / "lab.yaml").write_text(SWEEP.replace("URL", f"{elsewhere}/v1"))
    again = command("run", "lab.yaml", "--run-folder", "again")
    assert again.code == 0 and again.out == first.out and counts(lab)["requests"] == requests


def test_a_complete_run_does_not_call_another_store_the_place_of_its_replies(place, command, lab):
    text = f"replies     {place / 'store'}   (keep them"
    assert f"{text})" in command("run", "lab.yaml").err
    requests = counts(lab)["requests"]
    again = command("run", "lab.yaml", "--store", place / "empty")
    assert again.code == 0 and f"{text}; they are not in {place / 'empty'})" in again.err
    assert counts(lab)["requests"] == requests
