"""What a team's machines need: logs as objects, with figures."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from oversight.engine.display.log_lines import log_as_json
from tests.command_line import Command, within
from tests.command_line import environment as clean

SWEEP = """
name: small
problems: {bundled: {name: arithmetic, limit: 4}}
agents: [{model: sim/strong}]
judges: [{model: sim/judge}]
protocols: [naive_judge, debate]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return tmp_path


@pytest.fixture
def run(place: Path) -> Command:
    return lambda *words, **more: within(
        *words, cwd=place, OVERSIGHT_STORE=str(place / "store"), **more
    )


def lines(err: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in err.splitlines()]


@pytest.fixture
def kept_logging():
    """Handlers as they were, after a command that set its own."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


def test_every_line_of_the_log_is_an_object_and_results_stay_as_they_are(run, kept_logging):
    plain = run("run", "sweep.yaml")
    done = run("run", "sweep.yaml", OVERSIGHT_LOG="json")
    assert done.out == plain.out
    logged = lines(done.err)
    assert logged
    assert all({"time", "level", "message"} <= line.keys() for line in logged)
    assert {line["level"] for line in logged} == {"info"}
    for wrong in (("report", "none-such"), ("run", "--none-such")):
        done = run(*wrong, OVERSIGHT_LOG="json")
        assert done.code == 2
        (line,) = lines(done.err)
        assert line["level"] == "error"
        assert "none-such" in str(line["message"])


@pytest.mark.wire
def test_progress_is_an_object_with_its_figures_and_workers_log_alike(place):
    done = subprocess.run(
        [sys.executable, "-m", "oversight.engine", "run", "sweep.yaml", "--log-json"],
        cwd=place,
        env=clean({"OVERSIGHT_STORE": str(place / "store")}),
        capture_output=True,
        text=True,
    )
    (figures,) = [line for line in lines(done.stderr) if "finished" in line]
    assert (figures["finished"], figures["total"], figures["failed"]) == (16, 16, 0)


def test_a_crash_is_logged_with_its_traceback(capfd, monkeypatch, kept_logging):
    monkeypatch.setenv("OVERSIGHT_LOG", "")
    log_as_json()
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        logging.getLogger("x").exception("it crashed")
    (line,) = lines(capfd.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("error", "x", "it crashed")
    assert "ZeroDivisionError" in str(line["exception"])
