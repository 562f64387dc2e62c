"""The documents are right: their code is typed, their links lead somewhere."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import oversight
from oversight import protocols
from oversight.engine.system import process as entry_points
from oversight.engine.views.cli.group import oversight as commands
from oversight.protocols.catalogue import JUDGES, PROTOCOLS
from oversight.protocols.datasets.catalogue import LOADERS
from tests.documents import PAGES, ROOT, blocks
from tests.house.weight import kernel_files


@pytest.mark.wire
@pytest.mark.timeout(3600)  # without a cache, on a machine that does much else
def test_the_python_of_the_documents_passes_mypy_strict(tmp_path):
    """Runs in the folder and with the settings of `make lint`, and shares its cache."""
    written: dict[str, str] = {}
    for page in PAGES:
        for number, block in enumerate(blocks(page, "python")):
            needs = re.findall(r"^(?:from|import) (\w+)", block.text, re.MULTILINE)
            # Blocks that need an extra are checked if it is installed.
            if needs and all(importlib.util.find_spec(name) for name in needs):
                file = tmp_path / f"{page.stem.lower().replace('-', '_')}_{number}.py"
                # Our settings leave out what heavy extras import, and so their decorators' types.
                file.write_text(f'# mypy: disable-error-code="untyped-decorator"\n{block.text}')
                written[str(file)] = f"{page.name}:{block.line}"
    assert len(written) >= 6
    words = ["-m", "mypy", "--strict", *sorted(written)]
    process = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, f"{process.stdout}{process.stderr}{written}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_are_valid(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(((?!https?:)[^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in slugs, f"{page.name}: {link}; there are {sorted(slugs)}"


@pytest.mark.real
def test_the_site_is_built_without_a_broken_link(tmp_path):
    pytest.importorskip("zensical", reason="the extra `docs` is not installed")
    config = (ROOT / "zensical.toml").read_text()
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "zensical.toml").write_text(config.replace('["."]', f'["{ROOT}"]'))
    words = ["-m", "zensical", "build", "--strict"]
    process = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    page = (tmp_path / "build" / "site" / "api" / "index.html").read_text()
    for name in API:
        assert f'id="{name}"' in page, name


API = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
_NAMES = (
    "run run_async open_run asking compare measure plot Sweep Report oversight_task "
    "Ask Call Reply Store ToolSpec Question Problem Answer Loader labelled "
    "Transcript Turn Verdict Judgement Failure Protocol Conversation WithHorizon Seat Role hear "
    "gather_deterministic Debate Agent Speaker RolePrompt Tool ToolResult Judge Case StatedJudge "
    "LogprobJudge Schedule Observer Analysis Finding UsageError Unreadable"
)
PUBLIC = frozenset(_NAMES.split())


def test_public_names_are_pinned_and_each_has_a_place_and_an_example_in_the_reference():
    assert sorted(oversight.__all__) == sorted(PUBLIC)
    assert sorted(API) == sorted(f"oversight.{name}" for name in PUBLIC)
    pages = (ROOT / "docs" / "api.md", ROOT / "docs" / "inspect.md")
    examples = [block.text for page in pages for block in blocks(page, "python")]
    for name in PUBLIC:
        word = re.compile(rf"\b{name}\b")
        imported = re.compile(rf"^from oversight import .*\b{name}\b", re.MULTILINE)
        uses = [len(word.findall(text)) for text in examples if imported.search(text)]
        assert max(uses, default=0) > 1, name


@pytest.mark.parametrize("name", sorted(PUBLIC - {"Ask", "oversight_task"}))
def test_public_name_has_a_docstring(name):
    assert getattr(oversight, name).__doc__


@pytest.mark.real
def test_inspect_task_has_a_docstring():
    pytest.importorskip("inspect_ai", reason="the extra `inspect` is not installed")
    assert oversight.oversight_task.__doc__


def test_classes_that_sweep_files_name_can_be_imported_from_protocols():
    for registry in (PROTOCOLS, JUDGES, LOADERS):
        for entry in registry.values():
            assert getattr(protocols, entry.__name__) is entry


def test_examples_of_the_public_names_can_be_executed():
    for block in blocks(ROOT / "docs" / "api.md", "python")[2:]:
        exec(block.text, {"__name__": "example"})


def test_the_architecture_has_every_folder_in_its_order_and_every_group():
    page = (ROOT / "docs" / "architecture.md").read_text()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    folders = {contract.parent.name for contract in (ROOT / "engine").glob("*/__init__.py")}
    (layers,) = (
        [name for name in re.findall(r"\w+", " ".join(contract["layers"])) if name in folders]
        for contract in contracts["contracts"]
        if contract["name"] == "The folders of engine"
    )
    assert re.findall(rf"^ ({'|'.join(layers)}) {{2,}}", page, re.MULTILINE) == layers
    assert {*layers} == folders
    table = page.partition("| group | registers |")[2].partition("\n\n")[0]
    listed = {f"oversight.{name}" for name in re.findall(r"`(?:oversight)?\.(\w+)`", table)}
    groups = {value for name, value in vars(entry_points).items() if name.endswith("_GROUP")}
    assert listed == groups


def _commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, *path, name)
        elif command is not None:
            yield (*path, name), command


COMMANDS = dict(_commands(commands))
PROSE = re.compile(r"(?:^|`)(?:\$ )?oversight +([a-z][^\n`#]*)", re.MULTILINE)
"""A command line: at the beginning of a line, or of code within a sentence."""


@pytest.mark.parametrize("page", sorted({*PAGES, *ROOT.glob("*.md")}), ids=lambda page: page.name)
def test_the_command_lines_of_a_page_name_commands_and_options_that_are_there(page):
    for line in PROSE.findall(page.read_text().replace("\\\n", " ")):
        words = line.split()
        paths = [path for path in COMMANDS if words[: len(path)] == [*path]]
        # `oversight cache …` is about all commands of a group.
        is_name = words[1:] and not re.fullmatch(r"[a-z-]+[a-z]", words[1])
        groups = {path[0] for path in COMMANDS if len(path) > 1 and (is_name or not words[1:])}
        assert paths or words[0] in groups, f"{page.name}: oversight {line}"
        options = {word for word in words if re.fullmatch(r"--[a-z][a-z-]+", word)}
        valid = {name for path in paths for param in COMMANDS[path].params for name in param.opts}
        assert not paths or options <= valid | {"--help"}, f"{page.name}: oversight {line}"


def test_no_document_holds_marks_of_an_unresolved_merge():
    marked = re.compile(r"^(?:<{7}|>{7}|={7}$)", re.MULTILINE)
    assert [
        page.name for page in (*PAGES, *ROOT.glob("*.md")) if marked.search(page.read_text())
    ] == []


def test_kernel_lists_existing_files_and_imported_modules_say_what_they_do():
    """Readers of the kernel see only the first docstring line of the modules that it imports."""
    files = [ROOT / name for name in kernel_files()]
    assert len(files) == 18
    modules = {module for file in files for module in _imported_modules(file)} - {*files}
    assert len(modules) > 40
    first_lines = {
        str(module.relative_to(ROOT)): (ast.get_docstring(ast.parse(module.read_text())) or "")
        .partition("\n")[0]
        .strip()
        for module in modules
    }
    assert {
        name: line
        for name, line in first_lines.items()
        if not 3 <= len(line.split()) <= 20 or not line.endswith(".")
    } == {}


def _imported_modules(file: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            yield from filter(Path.is_file, [module.with_suffix(".py")])
