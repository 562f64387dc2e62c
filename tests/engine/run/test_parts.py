"""A sweep run in parts, as jobs of an array do, and gathered."""

import shutil

import pytest

from oversight.engine.extensions.mock.process import counts
from oversight.engine.models.accounting.ledger_file import read_ledger
from tests.command_line import within
from tests.desk import Desk
from tests.engine.conftest import SWEEP
from tests.run_folders import cut, only_run, written
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def parted_once(tmp_path_factory):
    """The small sweep, run in three parts."""
    place = tmp_path_factory.mktemp("parted")
    (place / "small.yaml").write_text(SWEEP)
    for n in (1, 2, 3):
        words = ("run", "small.yaml", "--part", f"{n}/3", "--run-folder", f"parts/{n}")
        ran = within(*words, cwd=place, OVERSIGHT_STORE=str(place / "store"))
        assert ran.code == 0, ran.err
        assert "oversight cache gather parts " in ran.err
    return place / "parts"


@pytest.fixture
def parted(place, parted_once):
    """The working folder with the three parts in `parts`."""
    shutil.copytree(parted_once, place / "parts")
    return place


@pytest.mark.wire
def test_parts_and_gather_give_the_bytes_of_one_run(command, parted, finished_once):
    gathered = command("cache", "gather", "parts")
    assert gathered.code == 0, gathered.err
    assert gathered.out == finished_once.told.out
    folder = only_run(parted)
    assert written(folder) == written(finished_once.folder)
    # It is the run of the sweep from now on.
    again = command("run", "small.yaml")
    assert (again.code, "already complete" in again.err) == (0, True)
    assert command("cache", "gather", "parts", "--run-folder", folder).code == 0
    assert written(folder) == written(finished_once.folder), "gathering twice changes nothing"


def test_a_part_that_is_missing_unfinished_or_there_twice_is_named(command, parted):
    shutil.move(parted / "parts/2", parted / "away")
    told = command("cache", "gather", "parts")
    assert told.code != 0
    assert "part 2/3 is not there yet" in told.err
    shutil.copytree(parted / "parts/1", parted / "parts/once-more")
    assert "are both part 1/3" in command("cache", "gather", "parts").err
    shutil.rmtree(parted / "parts/once-more")
    shutil.move(parted / "away", parted / "parts/2")
    cut(parted / "parts/2", 9)
    told = command("cache", "gather", "parts", "--run-folder", "all")
    assert "part 2/3 has 9 of 10 outcomes" in told.err


def test_parts_of_several_sweeps_and_a_folder_without_parts_are_refused(command, parted):
    shutil.rmtree(parted / "parts/3")
    other = ("--part", "3/3", "--run-folder", "parts/3", "--set", "judges=sim/weak")
    assert command("run", "small.yaml", *other).code == 0
    assert "is a part of another sweep than" in command("cache", "gather", "parts").err


@pytest.mark.wire
def test_the_ledger_of_a_gathered_run_is_that_of_its_parts(tmp_path):
    desk = Desk(tmp_path, problems=3)
    with desk.server({}) as url:
        for n in (1, 2):
            done = desk.sit("--part", f"{n}/2", "--run-folder", f"parts/{n}")
            assert done.returncode == 0, done.stderr
        seen = counts(url)
        gathered = desk.start_words("cache", "gather", "parts", "--run-folder", "all")
        _, err = gathered.communicate(timeout=PATIENCE)
        assert gathered.returncode == 0, err
        assert desk.sit("--run-folder", "all").returncode == 0
        assert counts(url)["requests"] == seen["requests"]
    assert sum(account.sent for account in read_ledger(tmp_path / "all").values()) == seen["ok"]
