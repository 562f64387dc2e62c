"""The first live run, as `make first-live` has it, against the rehearsal server."""

import re
import shlex
from pathlib import Path

import pytest

from oversight.engine.extensions.mock.process import serving
from tests.command_line import within

pytestmark = pytest.mark.wire

ROOT = Path(__file__).parents[4]
SWEEP = ROOT / "examples" / "first-live.yaml"


def steps() -> list[list[str]]:
    """What the Makefile runs."""
    (recipe,) = re.findall(r"^first-live:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    found = [line.removeprefix("\t$(BIN)/oversight ") for line in recipe.splitlines()]
    return [shlex.split(line.replace("$(LIVE)", "")) for line in found]


def test_it_needs_nothing_but_a_key_and_writes_a_report_pages_and_a_pack(tmp_path, monkeypatch):
    for place in (tmp_path, tmp_path / "keyless"):
        (place / "examples").mkdir(parents=True)
        (place / "examples" / SWEEP.name).write_text(SWEEP.read_text())
    first, *rest = steps()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    own = {"OVERSIGHT_STORE": str(tmp_path / "store")}
    keyless = within(*first, cwd=tmp_path / "keyless", **own)
    assert keyless.code == 2
    assert "OPENAI_API_KEY is not set; needed by" in keyless.err
    with serving(["--sweep", str(SWEEP)]) as url:
        own |= {"OPENAI_API_KEY": "sk-rehearsed-51c07", "OPENAI_BASE_URL": f"{url}/v1"}
        run = within(*first, cwd=tmp_path, **own)
        assert run.code == 0, run.err
        assert re.search(r"\$0\.\d+ of \$5\.00", run.err), run.err
        for words in rest:
            done = within(*words, cwd=tmp_path, **own)
            assert done.code == 0, done.err
    assert "consultancy" in run.out and "debate" in run.out
    assert (tmp_path / "runs/first-live-pages/index.html").exists()
    assert (tmp_path / "runs/first-live.pack").stat().st_size > 1000
