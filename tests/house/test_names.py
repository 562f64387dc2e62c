"""A public name stands for one thing in the whole house: a search finds one definition."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("cache", "protocols", "engine")
CONVENTIONS = {"log", "command", "main"}
"""A module's logger, a command line's one command, a program's start: one a module by design."""
COMMANDS = ROOT / "engine" / "cli" / "commands"
"""Functions there are called by what the user types, and by nobody else."""

# Formatted code has one shape, which patterns read ten times faster than a parser.
_LONG_STRING = re.compile(r'"{3}.*?"{3}', re.DOTALL)
_FUNCTION_OR_CLASS = re.compile(r"^(?:class|def|async def) ([A-Za-z]\w*)", re.MULTILINE)
_VARIABLE = re.compile(r"^([A-Za-z]\w*)(?: = |: (?=\S))", re.MULTILINE)
_IMPORT = re.compile(r"^ *from oversight\.(\S+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


def defined(file: Path, code: str) -> set[str]:
    """The public names that a module defines itself; what it imports is not counted."""
    called = set() if file.parent == COMMANDS else set(_FUNCTION_OR_CLASS.findall(code))
    return called | set(_VARIABLE.findall(code))


def imports(code: str) -> Iterator[tuple[str, str]]:
    """(file, name) of each name that a module imports from one of ours."""
    for module, several, one in _IMPORT.findall(code):
        for name in re.sub(r"#.*| as \w+", "", several or one).split(","):
            yield f"{module.replace('.', '/')}.py", name.strip()


def test_a_public_name_is_defined_in_one_module() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    codes = {file: _LONG_STRING.sub("", file.read_text()) for file in files}
    imported = {pair for code in codes.values() for pair in imports(code)}
    homes = defaultdict(set)
    for file, code in codes.items():
        home = str(file.relative_to(ROOT))
        for name in defined(file, code):
            # A constant that no other module reads is a module's own, with or without underscore.
            if not name.isupper() or (home, name) in imported:
                homes[name].add(home)
    assert len(homes) > 1000, "the rooms are not where this test looks"
    several = {name: sorted(files) for name, files in homes.items() if len(files) > 1}
    assert {name: several[name] for name in several.keys() - CONVENTIONS} == {}
