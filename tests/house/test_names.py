"""A public name stands for one thing within its package."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("cache", "protocols", "engine")
CONVENTIONS = {"log", "command", "main"}
"""A module's logger, a command line's one command, a program's start: one a module by design."""
COMMANDS = "commands"
"""Functions in folders of that name are called by what the user types, and by nobody else."""

# Formatted code has one shape, which patterns read ten times faster than a parser.
_LONG_STRING = re.compile(r'"{3}.*?"{3}', re.DOTALL)
_FUNCTION_OR_CLASS = re.compile(r"^(?:class|def|async def) ([A-Za-z]\w*)", re.MULTILINE)
_VARIABLE = re.compile(r"^([A-Za-z]\w*)(?: = |: (?=\S))", re.MULTILINE)
_IMPORT = re.compile(r"^ *from (\.+)(\S*) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


def defined(file: Path, code: str) -> set[str]:
    """The public names that a module defines itself; what it imports is not counted."""
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
