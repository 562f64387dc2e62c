"""A sweep run in parts, as jobs of an array do, and then as a whole."""

from dataclasses import replace

import pytest

from oversight.engine.errors import UsageError
from oversight.engine.run.loaded_sweep import _free, _started_with, loaded, part_of, run_folder
from oversight.engine.run.reader import RunReader
from oversight.engine.run.settings import RunSettings
from oversight.engine.sweep.code import row_codes
from tests.command_line import calls
from tests.engine.sweep_files import sweep_file
from tests.run_folders import only_run, written
from tests.world import shipments

TEXT = "judges: sim/judge\nprotocols: naive_judge\n"


def test_every_problem_is_in_one_part_and_parts_alternate():
    file = sweep_file(TEXT, problems=shipments(5))
    parts = [[one.id for one in part_of(file, f"{n}/3").problems] for n in (1, 2, 3)]
    ids = [one.id for one in file.problems]
    assert parts == [[ids[0], ids[3]], [ids[1], ids[4]], [ids[2]]]
    assert part_of(file, "1/1").problems == file.problems
    for wrong in ("0/3", "4/3", "1/0", "3", "a/b", " 1/3", "1/3/5", "-1/3", "1.5/3", ""):
        with pytest.raises(UsageError, match=f"--part {wrong}: a part is written as 3/16"):
            part_of(file, wrong)
    with pytest.raises(UsageError, match="has 5 problems, so that this part has none; take 5 part"):
        part_of(file, "6/7")
    assert part_of(file, "5/7").problems == file.problems[4:]


def test_the_last_line_of_a_runs_file_says_how_it_was_started_once(tmp_path):
    file = sweep_file(TEXT)
    assert _started_with(file, "") == TEXT.encode()
    written_file = _started_with(replace(sweep_file(TEXT, "seed=1"), limit=3, pins=("a=b",)), "1/2")
    options = b'{"set":["seed=1","a=b"],"limit":3,"part":"1/2"}'
    assert written_file == TEXT.encode() + b"# started with: " + options + b"\n"
    again = sweep_file(written_file.decode())
    assert _started_with(again, "") == TEXT.encode()
    assert _started_with(replace(again, limit=9), "").endswith(
        b'naive_judge\n# started with: {"limit":9}\n'
    )
    folder = tmp_path / "run"
    for free in ("run-2", "run-3", "run-4"):
        assert _free(folder) == tmp_path / free
        (tmp_path / free).mkdir()
    assert _free(tmp_path / "run-2") == tmp_path / "run-2-2"


def test_the_manifest_of_a_new_run_says_all_of_its_start(tmp_path):
    file = replace(sweep_file(TEXT, "seed=1"), data_notes=("a row was skipped",), pins=("a=b",))
    ready = loaded(replace(file, prompts={"p.yaml": {"name": "p"}}), {})
    made = run_folder(ready, RunSettings(folder=tmp_path / "run", part="1/2"), "a store").manifest
    assert (made.identity, made.name, made.cells) == (ready.sweep.identity, "s", len(ready.sweep))
    assert (made.overrides, made.store) == (("seed=1", "a=b"), "a store")
    assert (made.part, made.data, made.store_id) == ("1/2", ("a row was skipped",), "")
    assert (made.prompts, made.prompt_sets) == (ready.sweep.prompts, {"p.yaml": {"name": "p"}})
    assert not made.code.changes(row_codes(ready.sweep.rows), ready.sweep.rows)


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
