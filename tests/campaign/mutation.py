"""Does a fault show? Every mutant of tests/campaign/mutants.py is tried against the tests of its
mechanism, known truths first, in a copy of the program.

    python -m tests.campaign.mutation            all of them
    python -m tests.campaign.mutation --every 10 one in ten
Writes one line a mutant, and fails unless all die, and where all are tried 85 % of them by known
truths alone.
"""

import argparse
import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.campaign.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PARTS = ("oversight", "protocols", "engine", "cache", "tests", "examples", "docs")
ENOUGH = 0.85
"""Of the mutants, how many known truths alone must kill."""

PATIENCE = 240.0
"""Seconds for the tests of one mutant; one that hangs is dead."""


def copied(place: Path) -> Path:
    """The program and its tests, ready to be broken."""
    for part in PARTS:
        shutil.copytree(ROOT / part, place / part, symlinks=True)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, place / file)
    compileall.compile_dir(place, quiet=2)
    return place


def tried(mutant: Mutant, place: Path) -> str:
    """`truth`, `other` or `alive`: which kind of test, if any, fails first."""
    file = place / "protocols" / mutant.file
    whole = file.read_text()
    if mutant.old not in whole:
        raise SystemExit(f"{mutant.file}: {mutant.old!r} does not stand there; mend the mutant")
    try:
        file.write_text(whole.replace(mutant.old, mutant.new, 1))
        for old in file.parent.glob(f"__pycache__/{file.stem}.*"):
            old.unlink()
        for kind, chosen in (("truth", "only"), ("other", "without")):
            if _fails(place, mutant.tests, chosen):
                return kind
        return "alive"
    finally:
        file.write_text(whole)


def _fails(place: Path, tests: tuple[str, ...], chosen: str) -> bool:
    """Whether a test fails; of those that are known truths, or of the others."""
    files = [f"tests/protocols/{name}" for name in tests]
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", f"--known-truths={chosen}"]
    environment = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *options, *files]
    try:
        ended = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return True
    if ended.returncode not in (0, 1, 2, 5):
        raise SystemExit(ended.stdout.decode()[-2000:] + ended.stderr.decode()[-2000:])
    return ended.returncode in (1, 2)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--every", type=int, default=1)
    asked.add_argument("--workers", type=int, default=2)
    settings = asked.parse_args()
    mutants = MUTANTS[:: settings.every]
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(settings.workers):
            copies.put(copied(Path(folder) / str(number)))

        def judged(mutant: Mutant) -> str:
            place = copies.get()
            try:
                fate = tried(mutant, place)
            finally:
                copies.put(place)
            print(f"{fate:6}{mutant.file}: {mutant.old!r} -> {mutant.new!r}", flush=True)
            return fate

        # Nothing may pass for killed that fails as it is.
        whole = copies.get()
        every = tuple(sorted({name for mutant in mutants for name in mutant.tests}))
        for chosen in ("only", "without"):
            if _fails(whole, every, chosen):
                raise SystemExit("the tests fail without any mutant")
        copies.put(whole)
        with ThreadPoolExecutor(settings.workers) as pool:
            fates = Counter(pool.map(judged, mutants))
    share = fates["truth"] / len(mutants)
    print(f"{len(mutants)} mutants: {dict(fates)}, {share:.0%} by known truths alone")
    # A share of a few says nothing.
    if fates["alive"] or (settings.every == 1 and share < ENOUGH):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
