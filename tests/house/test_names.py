"""A public name stands for one thing in the whole house: a search finds one definition."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONVENTIONS = {"log", "command", "main"}
"""A module's logger, a command line's one command, a program's start: one a module by design."""


def defined(file: Path) -> Iterator[str]:
    """The public names that a module defines itself; what it imports is not counted."""
    for node in ast.parse(file.read_text()).body:
        targets: list[ast.expr] = []
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from [] if node.name.startswith("_") else [node.name]
            case ast.Assign():
                targets = node.targets
            case ast.AnnAssign():
                targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                yield target.id


def test_a_public_name_is_defined_in_one_module() -> None:
    homes = defaultdict(set)
    for room in ("cache", "protocols", "engine"):
        for file in (ROOT / room).rglob("*.py"):
            for name in defined(file):
                homes[name].add(str(file.relative_to(ROOT)))
    assert len(homes) > 1000, "the rooms are not where this test looks"
    several = {name: sorted(files) for name, files in homes.items() if len(files) > 1}
    assert {name: several[name] for name in several.keys() - CONVENTIONS} == {}
