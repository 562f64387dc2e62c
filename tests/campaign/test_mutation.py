"""The mutants fit the program as it is, and a few of them die as all must.

All of them: make mutants
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.mutants import Mutant
from tests.campaign.mutation import LISTS, broken, table

ROOT = Path(__file__).parents[2]
EVERY = [mutant for those in LISTS.values() for mutant in those]


def test_there_are_mutants_enough_and_no_two_are_the_same() -> None:
    assert min(map(len, LISTS.values())) >= 100
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in EVERY}) == len(EVERY)


@pytest.mark.parametrize("mutant", EVERY, ids=lambda mutant: f"{mutant.file}-{mutant.old}")
def test_a_mutant_changes_what_a_function_does(mutant: Mutant) -> None:
    assert broken(mutant)
    assert all((ROOT / "tests" / name).exists() for name in mutant.tests)


@pytest.mark.parametrize(
    ("old", "reason"),
    [("nowhere to be found", "not stand there once"), ("ENOUGH = 0.85", "no function")],
)
def test_a_mutant_that_changes_nothing_is_told(old: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        broken(Mutant("tests/campaign/mutation.py", old, "ENOUGH = 0.9", ()))


def test_the_table_tells_what_died_by_file() -> None:
    fates = dict(zip(EVERY[:3], ("truth", "other", "alive"), strict=True))
    assert table(fates).splitlines()[-1] == "| all | 3 | 1 | 1 | 1 |"


@pytest.mark.campaign
def test_one_mutant_in_fifty_dies() -> None:
    command = [sys.executable, "-m", "tests.campaign.mutation", "--every", "50", "--workers", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
