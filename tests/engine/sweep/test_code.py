"""The code behind each row: what is written otherwise is the same code, what does otherwise is not,
and a module that a row does not reach does not concern it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from oversight.engine.errors import EngineError
from oversight.engine.run.loaded_sweep import open_sweep, run_folder
from oversight.engine.run.settings import RunSettings
from oversight.engine.sweep.code import module_code, row_codes
from oversight.engine.sweep.sweep import Sweep
from oversight.engine.sweep.sweepfile import read_sweep_file
from tests.command_line import environment
from tests.sessions import sessions

ROOT = Path(__file__).parents[3]

SOURCE = '''
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
'''


def digest(source: str) -> str:
    return module_code(source.encode(), "oversight.protocols")[0]


def edited(text: str) -> list[str]:
    old, _, new = text.partition("\n=>")
    assert old in SOURCE
    same = digest(SOURCE.replace(old, new.removeprefix("\n"))) == digest(SOURCE)
    return ["the same code" if same else "other code"]


@sessions(Path(__file__).with_name("code.md"))
def test_what_does_otherwise_is_other_code_and_what_is_written_otherwise_is_not(session, request):
    session.check(request, edited)


def test_what_is_no_python_counts_by_its_bytes():
    assert digest("a b") == digest("a b") != digest("a  b")


CODES = """
import json, sys
from pathlib import Path
from oversight.engine.sweep.code import row_codes
from oversight.engine.sweep.sweepfile import read_sweep_file
sweep = read_sweep_file(Path("sweep.yaml")).sweep({})
codes = row_codes(sweep.rows)
print(json.dumps({row.kind: codes[row.address].digest for row in sweep.rows}))
"""
SWEEP = """
problems: {bundled: {name: arithmetic, limit: 1}}
agents: sim/strong
judges: sim/judge
protocols: {naive_judge: , debate: , consultancy: }
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code that may be edited."""
    copy = tmp_path_factory.mktemp("house")
    for room in ("oversight", "engine", "protocols", "cache"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, copy / room, symlinks=True, ignore=ignored)
    (copy / "sweep.yaml").write_text(SWEEP)
    return copy


def codes_in(house: Path) -> dict[str, str]:
    """The code of each row, by the code in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", CODES],
        cwd=house,
        env=environment({"PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def changed_by(house: Path, edits: Mapping[str, Callable[[str], str]]) -> set[str]:
    """The rows that are other code after these edits, by file, which are then undone."""
    unedited = codes_in(house)
    before = {house / name: (house / name).read_text() for name in edits}
    try:
        for file, edit in zip(before, edits.values(), strict=True):
            file.write_text(edit(before[file]))
            assert file.read_text() != before[file]
        edited = codes_in(house)
    finally:
        for file, content in before.items():
            file.write_text(content)
    return {row for row in unedited if unedited[row] != edited[row]}


ROWS = {"naive judge", "debate simultaneous 2 rounds", "consultancy client first 2 turns"}


@pytest.mark.wire
def test_a_comment_in_every_module_and_a_formatter_change_no_row(house, tmp_path):
    files = [str(file.relative_to(house)) for file in (house / "protocols").rglob("*.py")]
    shutil.copytree(house / "protocols", tmp_path / "protocols")
    ruff = shutil.which("ruff") or str(Path(sys.executable).with_name("ruff"))
    flags = ("format", "-q", "--line-length", "60", "--config", "format.quote-style='single'")
    subprocess.run([ruff, *flags, str(tmp_path / "protocols")], check=True)
    texts = {name: f"{(tmp_path / name).read_text()}\n# a comment\n" for name in files}
    edits = {name: lambda _, text=text: text for name, text in texts.items()}
    assert sum("'" in text for text in texts.values()) > 0.9 * len(files)
    assert changed_by(house, edits) == set()


@pytest.mark.wire
def test_an_edit_changes_the_rows_that_reach_it(house):
    def acting(text: str) -> str:
        return f"{text}\nglobals()['EDITED'] = True\n"

    def words(text: str) -> str:
        return text.replace("debate:\n", "debate:\n  extra_words: |\n    More.\n", 1)

    debate, seat = "protocols/mechanisms/debate.py", "protocols/seat.py"
    assert changed_by(house, {debate: acting}) == {"debate simultaneous 2 rounds"}
    assert changed_by(house, {seat: acting}) == ROWS
    assert changed_by(house, {"protocols/prompts/default.yaml": words}) == {
        "debate simultaneous 2 rounds"
    }


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
    rows = "own.py:First: , own.py:Second: "
    (place / "sweep.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 1}}\njudges: sim/judge\n"
        f"protocols: {{{rows}}}\n"
    )
    return read_sweep_file(place / "sweep.yaml").sweep({})


def own_codes(place: Path, source: str) -> dict[str, str]:
    sweep = own_sweep(place, source)
    codes = row_codes(sweep.rows)
    return {row.protocol.__class__.__name__: codes[row.address].digest for row in sweep.rows}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("return transcript", "return transcript  # at all", False),
        ("return transcript", "return transcript.copy()", True),
        ('    tone: str = "one"', "    # Its words.\n    tone: str = 'one'", False),
    ],
)
def test_a_file_of_ones_own_counts_for_every_row_that_has_a_class_of_it(
    tmp_path, old, new, changes
):
    before = own_codes(tmp_path / "before", OWN)
    after = own_codes(tmp_path / "after", OWN.replace(old, new, 1))
    assert {name for name in before if before[name] != after[name]} == (
        {"First", "Second"} if changes else set()
    )


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"Be brief."', '"Be brief, and kind."', False),
        ('f"Once more, ({side.label})."', 'f"Again, ({side.label})."', False),
        ("# none", "# some", True),
    ],
)
def test_what_an_own_protocol_tells_its_seats_is_in_the_digest_of_the_prompts(
    tmp_path, old, new, same
):
    briefs = """\
from oversight.protocols import Brief, Seat, Words

SAYS = Brief("Advocate", Words("Two advocates."), Words("Be brief."))

async def helper(transcript, side, ask):  # none
    again = SAYS.also_told(Words(f"Once more, ({side.label})."))
    return transcript.then(await Seat(None, side, again).speak(transcript, ask))
"""
    source = OWN.replace(OWN[OWN.index("def helper") : OWN.index("@dataclass")], briefs)
    source = source.replace("helper(transcript)\n", "await helper(transcript, side, ask)\n")
    before = own_sweep(tmp_path / "before", source).prompts
    assert (own_sweep(tmp_path / "after", source.replace(old, new)).prompts == before) is same


LAB = {
    "__init__.py": "",
    "first.py": OWN.replace("return transcript", "from .more.late import LATE\n    return LATE"),
    "more/__init__.py": "raise RuntimeError('nobody named this')",
    "more/late.py": "from oversight.protocols import Debate\nLATE = 1\n",
    "other.py": "OTHER = 1\n",
}


@pytest.mark.parametrize(
    ("file", "changes"),
    [("first.py", True), ("more/__init__.py", True), ("more/late.py", True), ("other.py", False)],
)
def test_a_package_of_ones_own_counts_as_far_as_it_is_imported_and_nothing_imports_the_rest(
    file, changes, tmp_path, monkeypatch
):
    lab = tmp_path / "lab_of_ones_own"
    for name, text in LAB.items():
        (lab / name).parent.mkdir(parents=True, exist_ok=True)
        (lab / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sweep.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 1}}\njudges: sim/judge\n"
        "protocols: lab_of_ones_own.first:First\n"
    )
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
    # Taken from a package that imports it when it is first used.
    assert "protocols/mechanisms/debate.py" in before.parts
    assert imported == []


def test_a_run_of_other_code_names_rows_and_files_and_goes_on_where_that_is_adopted(place, command):
    words = ("run", place / "own" / "sweep.yaml", "--run-folder", "made", "--store", "store")
    own_sweep(place / "own", OWN)
    made = command(*words)
    assert made.code == 0, made.err
    own_sweep(place / "own", OWN.replace("return transcript", "return transcript  # at all"))
    assert command(*words).code == 0
    said = OWN.replace("return transcript", "return transcript.then(Turn('Own', 'Hm.'))")
    own_sweep(place / "own", said.replace("import Conv", "import Turn, Conv"))
    refused = command(*words)
    assert refused.code == 2
    assert "was run with other code than there is now, in 2 of 2 rows" in refused.err
    assert "first tone one · sim/judge stated: own.py\n" in refused.err
    replayed = command("replay", "made", "--sweep", words[1])
    assert replayed.code == 5
    assert "code changed: first tone one · sim/judge stated: own.py\n" in replayed.err
    anew = run_folder(
        open_sweep(words[1]), RunSettings(folder=Path("made"), adopt_code="anew"), "store"
    )
    assert anew.path == Path("made-2")
    adopted = command(*words, "--adopt-code")
    assert adopted.code == 0, adopted.err
    assert command(*words).code == 0


def descendants(kind: type[EngineError]) -> list[type[EngineError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in descendants(child))]


def test_every_error_of_ours_has_a_slug_of_its_own():
    ours = [kind for kind in descendants(EngineError) if kind.__module__ == EngineError.__module__]
    slugs = [vars(kind).get("slug") for kind in ours]
    assert None not in slugs
    assert len(set(slugs)) == len(slugs)
    # Outcomes and ledgers of every earlier version have these.
    assert {"RateLimited", "Overloaded", "Ambiguous", "TooLong", "BadCall"} <= set(slugs)
