"""A sweep run in parts, as jobs of an array do, and then as a whole."""

import pytest

from oversight.engine.run.reader import RunReader
from tests.command_line import calls
from tests.run_folders import only_run, written


@pytest.mark.wire
def test_after_its_parts_a_sweep_asks_nothing_and_equals_one_run(place, command, finished_once):
    problems = [problem.id for problem in RunReader(finished_once.folder).problems]
    for n in (1, 2, 3):
        part = command("run", "small.yaml", "--part", f"{n}/3", "--run-folder", f"parts/{n}")
        assert part.code == 0 and "when all parts are done" in part.err
        about = [problem.id for problem in RunReader(place / f"parts/{n}").problems]
        assert about == problems[n - 1 :: 3]
    result = command("run", "small.yaml")
    assert (result.code, result.out) == (0, finished_once.ran.out) and calls(result.err).new == 0
    assert written(only_run(place)) == written(finished_once.folder)
