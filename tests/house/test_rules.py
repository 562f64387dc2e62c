"""The rules of the house: one name for one thing, no pattern over what models write, rings, and a
weight that only falls."""

import ast
import re
import socket
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RINGS
from tests.house.weight import ROOMS, ROOT, bounds, weights

CONVENTIONS = {"log", "command", "main"}
"""A module's logger, a command line's one command, a program's start: one a module by design."""
COMMANDS = "commands"
"""Folder whose functions are called only by the command line."""

# Formatted code has one shape, which patterns read ten times faster than a parser.
_LONG_STRING = re.compile(r'"{3}.*?"{3}', re.DOTALL)
_FUNCTION_OR_CLASS = re.compile(r"^(?:class|def|async def) ([A-Za-z]\w*)", re.MULTILINE)
_VARIABLE = re.compile(r"^([A-Za-z]\w*)(?: = |: (?=\S))", re.MULTILINE)
_IMPORT = re.compile(r"^ *from (\.+)(\S*) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


def defined(file: Path, code: str) -> set[str]:
    """Return the public names that a module defines, without its imports."""
    called = set() if file.parent.name == COMMANDS else set(_FUNCTION_OR_CLASS.findall(code))
    return called | set(_VARIABLE.findall(code))


def imports(file: Path, code: str) -> Iterator[tuple[str, str]]:
    """(file, name) of each name that a module imports from one of ours."""
    for dots, module, several, one in _IMPORT.findall(code):
        home = file.parents[len(dots) - 1].relative_to(ROOT).joinpath(*module.split("."))
        for name in re.sub(r"#.*| as \w+", "", several or one).split(","):
            yield f"{home}.py", name.strip()


def test_a_public_name_is_defined_once_in_its_package():
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    codes = {file: _LONG_STRING.sub("", file.read_text()) for file in files}
    imported = {pair for file, code in codes.items() for pair in imports(file, code)}
    homes = defaultdict(set)
    for file, code in codes.items():
        home = str(file.relative_to(ROOT))
        for name in defined(file, code):
            # A constant that no other module reads is a module's own, with or without underscore.
            if not name.isupper() or (home, name) in imported:
                homes[str(file.parent), name].add(home)
    assert len(homes) > 1000, "the rooms are not where this test looks"
    several = {key: sorted(files) for key, files in homes.items() if len(files) > 1}
    assert {key: files for key, files in several.items() if key[1] not in CONVENTIONS} == {}


EXTENSION_WORDS = re.compile(r"batch|people|person|human", re.IGNORECASE)
ABOUT_EXTENSIONS = {
    "engine/models/accounting/prices.py": 9, "engine/models/directory.py": 3,
    "engine/providers/vendors.py": 2, "engine/run/later.py": 4, "engine/run/record/capture.py": 3,
    "engine/run/record/values.py": 2, "engine/run/settings.py": 3, "engine/run/reader.py": 2,
}  # fmt: skip
"""Lines of the core about batches and people: prices, settings and origins of replies."""


def test_core_knows_no_extension():
    assert sum(ABOUT_EXTENSIONS.values()) <= 30
    lines = {
        str(file.relative_to(ROOT)): sum(
            bool(EXTENSION_WORDS.search(line)) for line in file.read_text().splitlines()
        )
        for file in (ROOT / "engine").rglob("*.py")
        if file.relative_to(ROOT).parts[1] not in ("analysis", "extensions", "views")
    }
    assert {name: count for name, count in lines.items() if count} == ABOUT_EXTENSIONS


READ_MODELS = (
    "cache", "protocols", "engine/run", "engine/views/pages", "engine/analysis/reports",
    "engine/extensions/datasets", "engine/extensions/inspect", "engine/extensions/people",
    "engine/extensions/simulation",
)  # fmt: skip

MAY = {
    "a pattern one character long": ("protocols/quotes.py", "engine/views/pages/marked_text.py"),
    "nothing in the pattern is repeated": ("protocols/judges/exchange.py",),
    "the text is short: it was cut before": (
        "protocols/agents/querying.py",
        "protocols/datasets/solution.py",
        "engine/analysis/reports/health.py",
        "engine/run/schedule.py",
        "engine/views/pages/searched.py",
    ),
    "what is repeated begins where nothing else does": (
        "engine/extensions/simulation/simulated_call.py",
        "engine/extensions/simulation/speech.py",
        "engine/run/lookup.py",
    ),
    "our own marks, which no model can write": (
        "protocols/prompts/render.py",
        "engine/extensions/people/task.py",
    ),
    "no model wrote it": (
        "cache/portable.py", "protocols/protocol.py", "protocols/question.py",
        "protocols/datasets/columns.py", "protocols/datasets/gsm8k.py",
        "protocols/datasets/jsonl.py", "protocols/datasets/leak.py", "protocols/datasets/forms.py",
        "protocols/datasets/rows.py", "protocols/datasets/study.py",
        "protocols/prompts/prompt_set.py", "engine/extensions/inspect/logs.py",
        "engine/run/folders.py", "engine/run/loaded_sweep.py", "engine/run/settings.py",
        "engine/run/settings.py", "engine/extensions/people/rating.py",
    ),
}  # fmt: skip
"""Modules that may use `re`, by reason."""


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.wire
def test_model_output_is_read_without_patterns():
    files = (file for folder in READ_MODELS for file in (ROOT / folder).rglob("*.py"))
    importers = {str(file.relative_to(ROOT)) for file in files if "re" in imported(file)}
    assert importers == {file for files in MAY.values() for file in files}


def test_a_unit_test_that_leaves_its_process_fails():
    text = "a test that leaves its process is marked `wire`"
    with pytest.raises(AssertionError, match=text), socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))


def test_every_marker_is_a_ring():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = {line.partition(":")[0] for line in options["markers"]}
    assert markers - {"known_truth", "nightly", "skipped_before"} == set(RINGS)


def test_promises_know_no_module():
    """Promises hold for any implementation, and use only the command line."""
    files = list((ROOT / "tests" / "promises").glob("*.py"))
    knows = re.compile(r"^\s*(?:from|import) oversight", re.MULTILINE)
    assert files and [file.name for file in files if knows.search(file.read_text())] == []


@pytest.mark.wire
def test_source_and_tests_stay_within_their_bounds():
    most, rows = bounds(), weights()
    assert set(most) == {"source", "tests", "kernel"}
    assert {row: (rows[row], most[row]) for row in most if rows[row] > most[row]} == {}
