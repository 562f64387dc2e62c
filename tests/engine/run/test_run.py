"""`oversight run`: from a sweep file to its report, and again; how a run is begun and shown."""

import shutil
import sys
from pathlib import Path

import pytest

from oversight.engine.views.api.library import run
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import Propaganda
from tests import starting
from tests.command_line import ROOT, calls, environment, oversight
from tests.run_folders import cut, everything, len_of, only_run, outcomes, written
from tests.world import shipments

# Start to end.


@pytest.mark.wire
def test_a_sweep_runs_from_its_file_to_its_report_and_again_without_asking(place):
    ran = oversight("run", "small.yaml", cwd=place)
    assert ran.code == 0
    title = "small: agent score difference (ASD) and lift · judged by sim/judge stated"
    assert f"\n\n{title}\n" in ran.out
    head, *_, look, again = ran.err.splitlines()
    assert head == (
        "· sweep small · 4 problems × 3 protocols × 2 agents × 1 judge · 40 cells · "
        "models are simulated: no key, no cost"
    )
    folder = only_run(place)
    assert look == f"· transcript  oversight show {folder.relative_to(place)} apples-and-crates"
    assert again == "· rerun       oversight run small.yaml   (cached)"
    assert len(list(outcomes(folder))) == 40 and calls(ran.err).new > 0
    before = everything(folder)
    once_more = oversight("run", "small.yaml", cwd=place)
    assert (once_more.code, once_more.out) == (0, ran.out)
    assert "already complete: 40 cells" in once_more.err
    assert "calls" not in once_more.err, "nothing was asked, of the store or of a model"
    assert everything(folder) == before


def test_another_run_of_the_sweep_is_answered_by_the_store_alone(place, command, finished):
    second = command("run", "small.yaml", "--run-folder", "two")
    assert (second.code, second.out) == (0, finished.ran.out)
    first = calls(finished.ran.err)
    assert 0 < first.new < first.asked and calls(second.err).new == 0
    assert calls(second.err).stored > 0 and written(finished.folder) == written(place / "two")


# Modes of the store.


def test_refresh_asks_for_everything_once_more(place, command, finished):
    again = command("run", "small.yaml", "--cache", "refresh", "--run-folder", "fresh")
    assert calls(again.err).new == calls(finished.ran.err).new
    assert written(place / "fresh") == written(finished.folder)
    result = command("run", "small.yaml", "--cache", "refresh")
    assert "to send every call again, name a new folder with --run-folder" in result.err


def test_without_a_store_nothing_is_kept_and_the_outcomes_are_the_same(place, command, finished):
    off = ("--cache", "off", "--run-folder", "off", "--store", "other")
    command("run", "small.yaml", *off)
    # A cell may find what an earlier one of the same run has stored; none finds more.
    assert calls(finished.ran.err).new == len_of(place / "store") > 0
    assert len_of(place / "other") == 0 and written(place / "off") == written(finished.folder)


def test_a_store_that_lost_replies_is_reported_before_they_are_paid_again(place, command, finished):
    cut(finished.folder, 0)
    shutil.rmtree(place / "store")
    words = ("run", "small.yaml")
    refused = command(*words)
    assert refused.code == 2 and f"{place / 'store'} holds 0 replies, and " in refused.err
    assert len(list(outcomes(finished.folder))) == 0
    old = command(*words, "--accept-empty")
    assert old.code == 2 and "is now called --allow-missing-replies" in old.err
    accepted = command(*words, "--allow-missing-replies")
    assert accepted.code == 0 and calls(accepted.err).new > 0 and command(*words).code == 0


# First steps.


@pytest.mark.wire
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_result_that_cannot_be_written_is_reported_without_a_traceback(place):
    with open("/dev/full", "w") as full:
        process = starting.run(
            [sys.executable, "-m", "oversight.engine", "run", "small.yaml"], cwd=place, stdout=full,
            env=environment({"OVERSIGHT_STORE": str(place / "store")}),
        )  # fmt: skip
    assert process.returncode == 3
    assert "the result could not be written: No space left on device" in process.stderr
    assert "Traceback" not in process.stderr and "Exception" not in process.stderr


def test_a_notebook_is_shown_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = run([Propaganda(StatedJudge("sim/judge"), Agent("sim/strong"))], shipments(3))
    assert report._repr_markdown_() == report.table("markdown") and len(repr(report)) < 200


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")))
def test_every_example_can_be_started_from(place, command, example):
    assert command("init", "mine.yaml", "--example", example.stem).code == 0
    assert (place / "mine.yaml").read_text() == example.read_text()
    assert example.stem in command("init", "--help").out
