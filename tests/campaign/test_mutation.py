"""The mutants fit the program as it is, and a few of them die as all must.

All of them: make mutants
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


def test_there_are_mutants_enough_and_no_two_are_the_same() -> None:
    assert len(MUTANTS) >= 100
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}-{mutant.old}")
def test_a_mutant_is_one_edit_that_can_be_run(mutant: Mutant) -> None:
    text = (ROOT / "protocols" / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    assert all((ROOT / "tests" / "protocols" / name).exists() for name in mutant.tests)


@pytest.mark.campaign
def test_one_mutant_in_fifty_dies() -> None:
    command = [sys.executable, "-m", "tests.campaign.mutation", "--every", "50", "--workers", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
