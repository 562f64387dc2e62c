"""The README, the tutorial, the reference and the page about Python keep their promises."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from oversight.engine.analysis.reports.report import finding
from oversight.engine.analysis.reports.results import collect
from oversight.engine.providers.vendors import PROVIDERS
from oversight.engine.run.loaded_sweep import load_sweep
from oversight.engine.run.replay import open_run
from oversight.engine.sweep.document import Document
from oversight.engine.sweep.sweepfile import checked_sweep
from oversight.engine.views.cli.group import headings
from oversight.protocols.catalogue import JUDGES, PROTOCOLS
from oversight.protocols.datasets.catalogue import LOADERS
from tests.command_line import oversight
from tests.documents import ROOT, Block, blocks
from tests.run_folders import outcomes
from tests.world import shipments
from tools.reference import remade

README = (ROOT / "README.md").read_text()


def readme(language: str) -> list[str]:
    return [block.text for block in blocks(ROOT / "README.md", language)]


(PROTOCOL,) = readme("python")
SWEEP, ASKING, *_ = (block.text for block in blocks(ROOT / "docs" / "api.md", "python"))


def ran(code: str, place: Path) -> str:
    """Output of a file with this code, in its own process."""
    (place / "mine.py").write_text(code)
    process = subprocess.run(
        [sys.executable, "mine.py"], cwd=place,
        env={"PYTHONPATH": str(ROOT), "OVERSIGHT_STORE": str(place / "store")}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return process.stdout


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150 and len(PROTOCOL.splitlines()) <= 30


@pytest.mark.wire
def test_the_protocol_of_the_readme_runs(tmp_path: Path) -> None:
    assert re.search(r"^steelman +\d?\.\d\d \[", ran(PROTOCOL, tmp_path), re.MULTILINE)


@pytest.mark.wire
def test_the_sweep_of_the_python_page_runs_and_is_compared(tmp_path: Path) -> None:
    assert oversight("init", "my-sweep.yaml", cwd=tmp_path).code == 0
    *lines, last = SWEEP.splitlines()
    rows = last.replace(".to_pandas()", ".num_rows")  # pandas is none of our dependencies
    output = ran("\n".join([*lines, rows]).replace("debate - ", "propaganda - "), tmp_path)
    assert "differences of ASD (Brier), first - second" in output and int(output.split()[-1]) > 2


@pytest.mark.wire
def test_asking_example_of_the_python_page_runs(tmp_path: Path) -> None:
    *_, probs, asd = ran(ASKING, tmp_path).splitlines()
    assert re.search(r"\(0\.\d+, 0\.\d+\)$", probs) and -3 < float(asd) < 3
    assert ran(ASKING, tmp_path).splitlines()[-1] == asd


@pytest.mark.wire
def test_demo_prints_the_screen_of_the_readme(tmp_path: Path) -> None:
    expected = next(text for text in readme("") if text.startswith("SIMULATED"))
    demo = oversight("demo", cwd=tmp_path)
    (run,) = (tmp_path / "runs").iterdir()
    results = collect(open_run(run).sweep, outcomes(run), score="brier")
    screen = finding(results, short=True).text("text", 80)
    assert len(screen.splitlines()) <= 20 and max(map(len, screen.splitlines())) <= 80
    assert not re.search("CR3|conservative|guard|MDE|label|health|†|‡", screen)
    words = {word for row in results.rows for word in (row.protocol, row.judge)}
    assert all(f"{name} " in screen or f": {name}" in screen for name in words)
    printed = [*demo.err.splitlines(), *demo.out.splitlines()]
    for line in re.sub(r"demo-[0-9a-f]{6}", run.name, expected).splitlines():
        if line.strip(" …"):
            assert line in printed


def test_the_readme_lists_the_commands_as_the_help_does() -> None:
    listed = re.findall(r"^- \*\*([\w ]+)\*\*: (`.*`)$", README, re.MULTILINE)
    names_by_heading = {heading: re.findall(r"`([a-z-]+)`", names) for heading, names in listed}
    assert {heading: {*names} for heading, names in names_by_heading.items()} == {
        heading: {*names} for heading, names in headings().items()
    }


def test_every_vulnerability_that_the_audit_ignores_is_proved_harmless() -> None:
    passed = re.findall(r"--ignore-vuln (\S+)", (ROOT / "Makefile").read_text())
    judged = re.findall(r"^\| (CVE-[\d-]+).*", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    assert passed and passed == judged
    text = (ROOT / "SECURITY.md").read_text()
    for test, file in re.findall(r"Proved by `(\w+)`.*?in `(\S+\.py)`", text):
        assert f"def {test}(" in (ROOT / file).read_text()
    assert text.count("Proved by `") == len(judged)


PAGE = ROOT / "docs" / "tutorial.md"


@pytest.mark.wire
def test_tutorial_makes_a_table_a_figure_and_a_pack(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    claims = (ROOT / "examples" / "claims.csv").read_text()
    (tmp_path / "claims.csv").write_text(claims)
    outputs = ""
    for block in blocks(PAGE, "csv", "text", "python", "yaml", "sh"):
        where = f"{block.page.name}:{block.line}"
        if block.language == "csv":
            assert claims.startswith(block.text) and len(claims.splitlines()) == 25
        if block.language == "text":
            lines = [line.split() for line in block.text.splitlines()]
            printed = [line.split() for line in outputs.splitlines()]
            assert [line for line in printed if line in lines] == lines, where
            assert [line[-2] for line in lines[1:]] == ["better", "better", "worse"]
        if block.name:
            (tmp_path / block.name).write_text(block.text)
        if block.language == "sh":
            for line in block.text.splitlines():
                program, *words = shlex.split(line, comments=True)
                ended = oversight(*words, cwd=tmp_path)
                assert (program, ended.code) == ("oversight", 0), f"{where}: {line}\n{ended.err}"
                assert ended.out + ended.err, f"{where}: {line} printed nothing"
                outputs += ended.out
    (article,) = blocks(PAGE, "tex")
    if latex := which("pdflatex"):
        (tmp_path / "paper.tex").write_text(article.text)
        words = [latex, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
        assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 0
    looked = ran((tmp_path / "look.py").read_text(), tmp_path)
    assert "two objections" in looked and "'asd_low': " in looked
    for file in ("asd.pdf", "asd.csv", "tables/rows.csv", "claims.oversight", "worlds.svg"):
        assert (tmp_path / file).stat().st_size > 0


DOCS = ROOT / "docs"
PAGES = [DOCS / "sweep-file.md", DOCS / "local-models.md"]


def test_reference_pages_match_the_declarations() -> None:
    page, *others = ((DOCS / f"{n}.md").read_text() for n in ("sweep-file", "commands", "tables"))
    assert [page, *others] == [*map(remade, (page, *others))], "run: make docs"
    for name in (*LOADERS, *PROTOCOLS):
        assert f"### {name}\n" in page or f"\n- `{name}`" in page
    assert all(f"### kind: {kind}\n" in page for kind in JUDGES)
    assert all(f"\n- {name}" in page for name in PROVIDERS)
    for setting in ("draws", "base_url", "identity", "concurrency", "best_of", "muddle", "limit"):
        assert f"\n- `{setting}` (" in page


SHOWN = [block for page in (ROOT / "README.md", *PAGES) for block in blocks(page, "yaml")]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"{block.page.stem}-{block.line}")
def test_every_sweep_of_the_pages_can_be_run(block: Block) -> None:
    document = Document.parse(block.text, "shown.yaml")
    # The data of the README's are not there.
    problems = None if block.page in PAGES else tuple(shipments(2))
    assert len(load_sweep(checked_sweep(document, Path("shown.yaml"), problems), {}).sweep) > 0
