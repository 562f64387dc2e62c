"""The code behind each row changes only with the behaviour of modules that the row reaches."""

import ast
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oversight.engine.run.loaded_sweep import open_sweep, run_folder
from oversight.engine.run.settings import RunSettings
from oversight.engine.sweep import code
from oversight.engine.sweep.code import SOURCE, RowCode, combined, module_code, row_codes
from oversight.engine.sweep.sweep import Sweep
from oversight.engine.sweep.sweepfile import read_sweep_file
from tests.engine.sweep_files import sweep
from tests.sessions import sessions

TEXT = '''
import os.path
from .seat import Seat
from dataclasses import dataclass

LIMIT = 3
NAMES = ("first", "second")


def helper(transcript, limit=LIMIT):
    """What it does."""
    for name in NAMES:
        if len(name) > limit and os.path.exists(f"{name}: {limit!r:>4}"):
            return Seat(transcript, "text", name=name)
    return None


@dataclass
class Protocol:
    rounds: int = 2
    other: str

    def run(self):
        return helper(self.rounds - 1)

    async def ask(self):
        return self.rounds
'''


def digest(source: str) -> str:
    return module_code(source.encode(), "oversight.protocols")[0]


def edited(text: str) -> list[str]:
    old, _, new = text.partition("\n=>")
    assert old in TEXT
    same = digest(TEXT.replace(old, new.removeprefix("\n"))) == digest(TEXT)
    return ["the same code" if same else "other code"]


@sessions(Path(__file__).with_name("code.md"))
def test_only_changes_of_behaviour_are_other_code(session, request):
    session.check(request, edited)


def test_every_import_is_found_wherever_it_stands_and_whatever_it_is_called():
    source = b"""
import a.b, c as d
from ..x import y as z
from e import *
if TYPE_CHECKING:
    import never
def f():
    from .g import h, i
"""
    full = {"a.b.*", "c.*", "p.x.y", "e.*", "p.q.g.h", "p.q.g.i"}
    assert {*module_code(source, "p.q")[1]} == full
    assert {*module_code(source, "")[1]} == {"a.b.*", "c.*", "e.*"}
    assert module_code(b"from ... import x", "p")[1] == ()


def test_file_that_is_not_python_counts_by_its_bytes():
    assert digest("a b") == digest("a b") != digest("a  b")


SWEEP = "agents: sim/strong\njudges: sim/judge\nprotocols: [naive_judge, debate, consultancy]\n"
DEBATE = "debate simultaneous 2 rounds"
ONE_PROBLEM = "problems: {bundled: {name: arithmetic, limit: 1}}\njudges: sim/judge\n"


def codes(*flags: str) -> dict[str, str]:
    """The code of each row."""
    rows = sweep(SWEEP, *flags).rows
    return {row.kind: row_codes(rows)[row.address].digest for row in rows}


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[str], str]], None]:
    """Has a module of ours read as it would be after an edit."""

    def edited(name: str, change: Callable[[str], str]) -> None:
        module = sys.modules[f"oversight.protocols.{name}"]
        after = change(Path(module.__file__ or "").read_text())
        monkeypatch.setattr(module, SOURCE, after.encode(), raising=False)

    return edited


@pytest.mark.wire
def test_a_comment_in_every_module_and_another_layout_change_no_row(edit):
    before, ours = codes(), "oversight.protocols."
    for name in [name.removeprefix(ours) for name in sys.modules if name.startswith(ours)]:
        edit(name, lambda text: f"# a comment\n{ast.unparse(ast.parse(text))}")
    assert codes() == before


@pytest.mark.parametrize(
    ("module", "rows"),
    [
        ("mechanisms.debate", {DEBATE}),
        ("seat", {"naive judge", DEBATE, "consultancy client first 2 turns"}),
    ],
)
def test_an_edit_changes_the_rows_that_reach_it(module, rows, edit):
    before = codes()
    edit(module, lambda text: f"{text}\nglobals()['EDITED'] = True\n")
    assert {row for row, _ in before.items() ^ codes().items()} == rows


def test_the_code_of_a_sweep_does_not_depend_on_the_order_of_its_rows():
    every = row_codes(sweep(SWEEP).rows)
    assert combined(every) == combined(dict(reversed(every.items())))
    first, *others = every
    assert combined(every) != combined({row: every[row] for row in others})
    assert combined(every) != combined(every | {first: RowCode("0" * 16, {})})


def test_a_block_of_prompts_changes_the_rows_that_read_it():
    before, words = codes(), "prompts=[default, {debate: {judge: Judge.}}, {debate: {judge: Hm.}}]"
    changed = dict(codes(words).items() - before.items())
    assert len({*changed.values()} - {*before.values()}) == 2
    assert all(row.startswith(DEBATE) for row in changed)


OWN = """
from dataclasses import dataclass
from oversight.protocols import Conversation, NaiveJudge

def helper(transcript):
    return transcript

@dataclass(frozen=True)
class First(NaiveJudge):
    tone: str = "one"

    async def converse(self, transcript, side, ask):
        return helper(transcript)

@dataclass(frozen=True)
class Second(NaiveJudge):
    tone: str = "two"
"""


def own_sweep(place: Path, source: str) -> Sweep:
    """A sweep of two protocols in a file of the user's."""
    place.mkdir(exist_ok=True)
    (place / "own.py").write_text(source)
    (place / "sweep.yaml").write_text(f"{ONE_PROBLEM}protocols: [own.py:First, own.py:Second]\n")
    return read_sweep_file(place / "sweep.yaml").sweep({})


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"Be brief."', '"Be brief, and kind."', False),
        ('f"Once more, ({side.label})."', 'f"Again, ({side.label})."', False),
        ("# none", "# some", True),
    ],
)
def test_prompts_in_user_code_are_in_the_digest_of_the_prompts(tmp_path, old, new, same):
    briefs = """\
from oversight.protocols import RolePrompt, Seat, Words

SAYS = RolePrompt("Advocate", Words("Two advocates."), Words("Be brief."))

async def helper(transcript, side, ask):  # none
    again = SAYS.also_told(Words(f"Once more, ({side.label})."))
    return transcript.then(await Seat(None, side, again).speak(transcript, ask))
"""
    source = OWN.replace(OWN[OWN.index("def helper") : OWN.index("@dataclass")], briefs)
    source = source.replace("helper(transcript)\n", "await helper(transcript, side, ask)\n")
    before = own_sweep(tmp_path / "before", source).prompts
    assert (own_sweep(tmp_path / "after", source.replace(old, new)).prompts == before) is same


def test_rows_of_own_code_read_the_prompts_of_their_set(tmp_path):
    own_sweep(tmp_path, OWN)
    with (tmp_path / "sweep.yaml").open("a") as file:
        file.write("prompts: [default, {name: other, judge: {role: You decide.}}]\n")
    rows = read_sweep_file(tmp_path / "sweep.yaml").sweep({}).rows
    # Both protocols read the same code and, of one set, the same prompts.
    assert len(rows) == 4 and len({row.reads for row in rows}) == 2


JUDGE = """
from dataclasses import dataclass
from oversight.protocols import StatedJudge

@dataclass(frozen=True)
class Own(StatedJudge):
    pass
"""


def test_two_files_of_one_name_both_count(tmp_path):
    sweep_text = f"{ONE_PROBLEM.replace('sim/judge', '{kind: b/own.py:Own, model: sim/judge}')}"
    (tmp_path / "sweep.yaml").write_text(f"{sweep_text}protocols: a/own.py:First\n")

    def digest_of(protocol: str, judge: str) -> str:
        for folder, text in (("a", protocol), ("b", judge)):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "own.py").write_text(text)
        (code,) = row_codes(read_sweep_file(tmp_path / "sweep.yaml").sweep({}).rows).values()
        assert "own.py" in code.parts
        return code.digest

    edits = [(OWN, JUDGE), (f"{OWN}\nX = 1\n", JUDGE), (OWN, f"{JUDGE}\nX = 1\n")]
    assert len({digest_of(*texts) for texts in edits}) == 3
    assert digest_of(OWN, JUDGE) == digest_of(f"{OWN}# A note.\n", JUDGE)


LAB = {
    "__init__.py": "",
    "first.py": "from lab_of_ones_own import settings\n"
    + OWN.replace("return transcript", "from .more import late\n    return late"),
    "more/__init__.py": "raise RuntimeError('nobody named this')",
    "more/late.py": "from oversight import Debate\nfrom oversight.protocols import Jury\n",
    "settings.py": "CAUTION = 3\n",
    "other.py": "OTHER = 1\n",
}


@pytest.mark.parametrize(
    ("file", "changes"), [(name, name != "other.py") for name in LAB if name != "__init__.py"]
)
def test_a_users_package_counts_as_far_as_it_is_imported(file, changes, tmp_path, monkeypatch):
    lab = tmp_path / "lab_of_ones_own"
    for name, text in LAB.items():
        (lab / name).parent.mkdir(parents=True, exist_ok=True)
        (lab / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sweep.yaml").write_text(f"{ONE_PROBLEM}protocols: lab_of_ones_own.first:First\n")
    rows = read_sweep_file(tmp_path / "sweep.yaml").sweep({}).rows
    try:
        (before,) = row_codes(rows).values()
        (lab / file).write_text(f"{LAB[file]}\nMORE = 1\n")
        (after,) = row_codes(rows).values()
        imported = [name for name in sys.modules if name.startswith("lab_of_ones_own.more")]
    finally:
        for name in [name for name in sys.modules if name.startswith("lab_of_ones_own")]:
            del sys.modules[name]
    differ = {place for place, _ in before.parts.items() ^ after.parts.items()}
    assert differ == ({f"lab_of_ones_own/{file}"} if changes else set())
    assert (before.digest != after.digest) is changes
    # Both packages import their names on first use.
    for name in ("mechanisms/debate", "judges/jury"):
        assert f"protocols/{name}.py" in before.parts
    assert imported == []


def test_a_run_of_other_code_names_rows_and_files_and_goes_on_where_that_is_adopted(place, command):
    words = ("run", place / "own" / "sweep.yaml", "--run-folder", "made", "--store", "store")
    own_sweep(place / "own", OWN)
    result = command(*words)
    assert result.code == 0, result.err
    own_sweep(place / "own", OWN.replace("return transcript", "return transcript  # at all"))
    assert command(*words).code == 0
    adopting = RunSettings(folder=Path("made"), allow_changed_code="new folder")
    assert run_folder(open_sweep(words[1]), adopting, "store").path == Path("made")
    code = OWN.replace("return transcript", "return transcript.then(Turn('Own', 'Hm.'))")
    own_sweep(place / "own", code.replace("import Conv", "import Turn, Conv"))
    refused = command(*words)
    assert refused.code == 2 and "was run, in 2 of 2 rows" in refused.err
    assert "first tone one · sim/judge stated: own.py\n" in refused.err
    replayed = command("replay", "made", "--sweep", words[1])
    assert replayed.code == 5
    assert "code changed: first tone one · sim/judge stated: own.py\n" in replayed.err
    assert run_folder(open_sweep(words[1]), adopting, "store").path == Path("made-2")
    adopted = command(*words, "--allow-changed-code")
    assert adopted.code == 0, adopted.err
    assert "Rows of several codes (--allow-changed-code): first tone one" in adopted.out
    assert command(*words).code == 0


def test_a_sweep_goes_on_in_the_folder_of_its_present_code(place, command):
    words = ("run", place / "own" / "sweep.yaml", "--store", "store")
    own_sweep(place / "own", OWN)
    assert command(*words).code == 0
    (first,) = Path("runs").iterdir()
    own_sweep(place / "own", OWN.replace('"one"', '"on" + "e"'))
    assert command(*words, "--run-folder", "runs/sweep-later").code == 0
    own_sweep(place / "own", OWN)
    assert run_folder(open_sweep(words[1]), RunSettings(), "store").path == first


def test_code_of_an_unchanged_file_is_parsed_once_for_all_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file, parsed = tmp_path / "mine.py", []
    parse, now = code.module_code, time.time()
    monkeypatch.setattr(
        code, "module_code", lambda *words: parsed.append(words[0]) or parse(*words)
    )

    def read(text: str, age: float, package: str = "lab") -> tuple[int, str]:
        """Parses that a new process needs, and the digest. age: of the file, in seconds."""
        parsed.clear()
        file.write_text(text)
        modified = now - age
        os.utime(file, (modified, modified))
        files = code.CodeFiles()
        digest, imports = files.code(file, package)
        assert (digest, [*imports]) == (parse(text.encode(), package)[0], [f"{package}.x"])
        files.save()
        return len(parsed), digest

    first = read("from . import x\n", 60)
    assert read("from . import x\n", 60) == (0, first[1])
    assert read("from . import x\n", 60, "other")[0] == 1
    assert read("from . import x\n", 50)[0] == 1
    assert read("from . import x  # a\n", 50) == (1, first[1])
    assert [read("from . import x  # a\n", 0)[0] for _ in range(2)] == [1, 1]
    next((tmp_path / "cache").rglob("*/*")).write_bytes(b"\xff")
    assert read("from . import x\n", 60)[0] == 1
