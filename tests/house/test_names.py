"""A public name stands for one thing in the whole house: a search finds one definition."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("cache", "protocols", "engine")
CONVENTIONS = {"log", "command", "main"}
"""A module's logger, a command line's one command, a program's start: one a module by design."""
COMMANDS = ROOT / "engine" / "cli" / "commands"
"""Functions there are called by what the user types, and by nobody else."""


def defined(file: Path, tree: ast.Module) -> Iterator[str]:
    """The public names that a module defines itself; what it imports is not counted."""
    for node in tree.body:
        targets: list[ast.expr] = []
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if not node.name.startswith("_") and file.parent != COMMANDS:
                    yield node.name
            case ast.Assign():
                targets = node.targets
            case ast.AnnAssign():
                targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                yield target.id


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(file, name) of each name that a module imports from one of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("oversight."):
            home = (node.module or "").removeprefix("oversight.").replace(".", "/")
            yield from ((f"{home}.py", alias.name) for alias in node.names)


def test_a_public_name_is_defined_in_one_module() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    trees = {file: ast.parse(file.read_text()) for file in files}
    imported = {pair for tree in trees.values() for pair in imports(tree)}
    homes = defaultdict(set)
    for file, tree in trees.items():
        home = str(file.relative_to(ROOT))
        for name in defined(file, tree):
            # A constant that no other module reads is a module's own, with or without underscore.
            if not name.isupper() or (home, name) in imported:
                homes[name].add(home)
    assert len(homes) > 1000, "the rooms are not where this test looks"
    several = {name: sorted(files) for name, files in homes.items() if len(files) > 1}
    assert {name: several[name] for name in several.keys() - CONVENTIONS} == {}
