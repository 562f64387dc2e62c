"""Logs for the machines of a team: JSON objects with numbers."""

import json
import logging

import pytest

from oversight.engine.display.progress import log_as_json
from tests.command_line import oversight


def lines(err: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in err.splitlines()]


@pytest.fixture
def kept_logging():
    """Handlers as they were, after a command that set its own."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


def test_every_line_of_the_log_is_an_object_and_results_stay_as_they_are(
    command, finished_once, kept_logging
):
    result = command("run", "small.yaml", OVERSIGHT_LOG="json")
    assert result.out == finished_once.ran.out
    logged = lines(result.err)
    assert logged and all({"time", "level", "message"} <= line.keys() for line in logged)
    assert {line["level"] for line in logged} == {"info"}
    for wrong in (("report", "none-such"), ("run", "--none-such")):
        result = command(*wrong, OVERSIGHT_LOG="json")
        assert result.code == 2
        (line,) = lines(result.err)
        assert line["level"] == "error" and "none-such" in str(line["message"])


@pytest.mark.wire
def test_progress_is_an_object_with_its_figures(place):
    result = oversight("run", "small.yaml", "--log-json", cwd=place)
    (figures,) = [line for line in lines(result.err) if "finished" in line]
    assert (figures["finished"], figures["total"], figures["failed"]) == (40, 40, 0)


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
