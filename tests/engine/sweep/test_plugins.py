"""Parts that a sweep file names by module, by file, or as an entry point."""

import asyncio
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from oversight.engine.errors import UsageError
from oversight.engine.providers.simulated import simulation
from oversight.engine.run.execution import execute
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.engine.run.run import Run
from oversight.engine.run.settings import RunSettings
from oversight.engine.sweep.code import row_codes
from oversight.engine.sweep.sweep import Row
from oversight.engine.system.process import package_points, registered
from oversight.protocols.prompts.prompt_set import default_prompts
from tests.command_line import ROOT, calls
from tests.documents import shown
from tests.run_folders import cut, outcomes

DOCS = (ROOT / "docs" / "extending.md").read_text()
FILES = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", DOCS, re.DOTALL))


@pytest.fixture
def examples(place: Path) -> Path:
    """A folder with the files of the page, next to the working folder."""
    folder = place / "shown"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("sweep", [name for name in FILES if name.endswith(".yaml")])
def test_examples_of_the_page_run_and_can_be_shown_replayed_and_resumed(sweep, examples, command):
    ran = command("run", examples / sweep, "--run-folder", "made", "--json")
    assert ran.code == 0, ran.err
    assert all(row["n"] == 3 and row["failed"] == 0 for row in json.loads(ran.out)["rows"])
    replay = f"replay made --sweep {examples / sweep}"
    for words in ("show made", replay, "report made", "cache export made"):
        result = command(*words.split())
        assert result.code == 0, result.err
    cut(Path("made"), len(outcomes(Path("made"))) - 3)
    resumed = command("run", examples / sweep, "--run-folder", "made")
    assert resumed.code == 0, resumed.err
    assert calls(resumed.err).new == 0


def test_the_settings_of_ones_own_protocol_make_axes(examples):
    rows = open_sweep(examples / "steelman.yaml", ["protocols.steelman.py:Steelman.speeches=3"])
    assert [row.kind for row in rows.sweep.rows] == ["naive judge", "steelman speeches 3"]


def test_the_words_and_the_length_of_ones_own_protocol_are_axes(examples):
    settings = ["protocols.steelman.py:Steelman={speeches: 1, horizon: told}"]
    mild = "prompts=[default, {steelman: {judge: Trust no advocate.}}]"
    plain, changed = open_sweep(examples / "steelman.yaml", [*settings, mild]).sweep.rows[-2:]
    assert plain.kind == "steelman speeches 1 horizon told"
    ours, judged = (row.protocol.judging() for row in (plain, changed))
    assert plain.protocol.rules().endswith("The advocate speaks 1 times.")
    assert ours and judged and judged.stance == "Trust no advocate." != ours.stance


def test_words_that_a_protocol_brings_are_its_own_sweeps_alone(examples):
    """The known truth: a sweep without it has the words that it had before, and no block of its."""
    file, ours = examples / "steelman.yaml", default_prompts()
    (row, *_) = open_sweep(file, ["protocols=[steelman.py:Steelman]"]).sweep.rows
    assert "steelman.judge" in row.protocol.words and "steelman.judge" not in ours
    (other, *_) = open_sweep(file, ["protocols=[debate]"]).sweep.rows
    assert other.protocol.words.digest == ours.digest != row.protocol.words.digest
    with pytest.raises(UsageError, match="unknown section of prompts"):
        open_sweep(file, ["protocols=[debate]", "prompts={steelman: {judge: Judge.}}"])


def test_two_protocols_with_words_of_one_name_are_refused(examples):
    copy = FILES["steelman.py"].replace("Decide which answer is right.", "Decide.")
    (examples / "copy.py").write_text(copy)
    both = "protocols=[steelman.py:Steelman, copy.py:Steelman]"
    with pytest.raises(UsageError, match="section 'steelman' already exists; take another"):
        open_sweep(examples / "steelman.yaml", [both])


def test_a_run_folder_and_its_sweep_may_move_together(examples, command):
    assert command("run", examples / "sums.yaml", "--run-folder", "shown/made").code == 0
    examples.rename(examples.with_name("moved"))
    result = command("show", "moved/made")
    assert result.code == 0, result.err


def test_code_that_is_gone_is_named_and_the_run_can_still_be_read(examples, command):
    assert command("run", examples / "steelman.yaml", "--run-folder", "made").code == 0
    (examples / "steelman.py").unlink()
    assert command("show", "made").code == 0
    again = command("replay", "made", "--sweep", examples / "steelman.yaml")
    assert again.code == 2
    assert "the import of steelman.py failed: FileNotFoundError" in again.err


SWEEP = """\
problems: {{bundled: {{name: arithmetic, limit: 1}}}}
judges: sim/judge
agents: sim/strong
protocols: {{"{name}": }}
"""


def row_of(name: str) -> Row:
    """The row of a sweep with the protocol of this name."""
    Path("mine.yaml").write_text(SWEEP.format(name=name))
    (row,) = open_sweep(Path("mine.yaml")).sweep.rows
    return row


Groups = Mapping[str, Mapping[str, str]]


@contextmanager
def installed(home: Path, name: str, files: Mapping[str, str], groups: Groups) -> Iterator[Path]:
    """A package of these files that registers these entry points."""
    info = home / f"{name}-1.0.dist-info"
    for folder in (home / name, info):
        folder.mkdir(parents=True)
    for file, text in files.items():
        (home / name / file).write_text(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{point} = {place}" for point, place in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(home)
        for cached in (package_points, registered, simulation):
            cached.cache_clear()
        yield home / name
    for cached in (package_points, registered, simulation):
        cached.cache_clear()
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """An installed package with a protocol, which it registers."""
    files = {"__init__.py": "", "steelman.py": FILES["steelman.py"]}
    ours = "their_package.steelman:Steelman"
    points = {"steelman": ours, "broken": "their_package.gone:Gone", "debate": ours}
    groups = {"oversight.protocols": points}
    with installed(tmp_path / "site", "their_package", files, groups) as inner:
        yield inner


@pytest.mark.parametrize("name", ["steelman", "their_package.steelman:Steelman"])
def test_package_is_named_by_module_or_by_registered_name(name, package, place):
    assert row_of(name).kind == "steelman speeches 2"
    assert type(row_of(name).protocol).__module__ == "their_package.steelman"


def test_our_protocols_cannot_be_replaced_and_faults_are_reported_by_name(package, place):
    assert type(row_of("debate").protocol).__module__ == "oversight.protocols.mechanisms.debate"
    gone = r"their_package registers it as their_package\.gone:Gone.*ModuleNotFoundError"
    with pytest.raises(UsageError, match=gone):
        row_of("broken")
    with pytest.raises(UsageError, match="did you mean 'steelman'"):
        row_of("steelmen")


def test_a_file_that_is_edited_is_read_again_and_is_another_run(examples):
    before = row_codes(open_sweep(examples / "steelman.yaml").sweep.rows)
    file = examples / "steelman.py"
    written = file.stat()
    file.write_text(file.read_text().replace("speeches: int = 2", "speeches: int = 5"))
    # Within the second in which it was written: no clock tells the two apart.
    os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))
    (examples / "steelman.yaml").write_text(
        (examples / "steelman.yaml").read_text().replace(": {speeches: [1, 2]}", ":")
    )
    after = open_sweep(examples / "steelman.yaml").sweep
    assert after.rows[-1].kind == "steelman speeches 5" and row_codes(after.rows) != before


def test_a_provider_may_be_registered(tmp_path):
    source = (
        "from dataclasses import replace\n"
        "from oversight.engine.providers.vendors import PROVIDERS\n"
        "ENTRY = replace(PROVIDERS['compatible'], base_url='http://127.0.0.1:9/v1', own=False,\n"
        "    key_needed=False)\n"
        "WRONG = 3\n"
    )
    points = {"theirs": "their_provider:ENTRY", "wrong": "their_provider:WRONG"}
    groups = {"oversight.providers": points}
    (tmp_path / "mine.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 1}}\n"
        "judges: theirs/small\nprotocols: naive_judge\n"
    )
    with installed(tmp_path / "site", "their_provider", {"__init__.py": source}, groups):
        grid = open_sweep(tmp_path / "mine.yaml").sweep
        assert grid.identities == {"theirs/small": "http://127.0.0.1:9/v1"}
        with pytest.raises(UsageError, match="wrong: 3, which a package registers, is not an Ent"):
            open_sweep(tmp_path / "mine.yaml", ["judges=wrong/small"])
        with pytest.raises(UsageError, match="did you mean 'theirs'"):
            open_sweep(tmp_path / "mine.yaml", ["judges=their/small"])


def test_a_tool_of_ones_own_is_part_of_the_code_of_the_rows_that_have_it(examples):
    rows = open_sweep(examples / "finder.yaml").sweep.rows
    before, file = row_codes(rows), examples / "finder.py"
    file.write_text(file.read_text().replace(".casefold()", ".lower()"))
    after = row_codes(open_sweep(examples / "finder.yaml").sweep.rows)
    assert len(before) == 3 and before.keys() == after.keys()
    assert all(before[row].digest != after[row].digest for row in before)


@pytest.fixture
def their_words(tmp_path: Path) -> Iterator[None]:
    """The package of the page, installed: its files, and the entry points of its pyproject.toml."""
    (toml,) = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    groups = tomllib.loads(toml)["project"]["entry-points"]
    with installed(tmp_path / "site", "their_words", FILES, groups):
        yield


def test_the_package_of_the_page_brings_its_four_extensions(their_words, tmp_path, command):
    Path("mine.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 2}}\n"
        "agents: [echo/agent, sim/sceptic]\njudges: [echo/judge, sim/sceptic]\n"
        "protocols: [naive_judge, steelman]\n"
    )
    store = ("--store", f"plain:{tmp_path}/replies")
    ran = command("run", "mine.yaml", *store, "--run-folder", "made", "--json")
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)["rows"]
    assert len(rows) == 6 and all((row["n"], row["failed"]) == (2, 0) for row in rows)
    result = command("export", "words", "made", "--least", "3")
    assert result.code == 0 and re.match(r" +\d+ [\w-]+\n +\d+ ", result.out), result.err
    replayed = command("replay", "made", "--sweep", "mine.yaml", *store)
    assert replayed.code == 0, replayed.err


def test_the_observer_of_the_page_sees_every_cell(place):
    diary = shown("extending.md", "diary.py")["Diary"]()
    with Run.open(open_sweep(place / "small.yaml"), RunSettings(store=place / "store")) as run:
        assert asyncio.run(execute(run, diary)) is None and diary.failed == run.folder.failed
