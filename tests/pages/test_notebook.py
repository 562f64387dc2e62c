"""Notebooks show reports, worlds and comparisons, each in a separate frame."""

import ast
import asyncio
import html
import re
from inspect import isawaitable
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight import Report, compare, run_async
from oversight.protocols.agents.agent import Agent
from oversight.protocols.datasets.jsonl import bundled
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.mechanisms.debate import Debate


async def finished(agent: str, place: Path) -> Report:
    """A run of three problems, in a store that all of them share."""
    judge = StatedJudge("sim/judge")
    return await run_async(
        [NaiveJudge(judge), Debate(judge, Agent(agent))], bundled("arithmetic")[:3],
        store=place / "store", folder=place / agent, quiet=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def report(place: Path) -> Report:
    return asyncio.run(finished("sim/strong", place))


def inner(frame: str) -> str:
    """The page within the frame."""
    match = re.fullmatch(r'<iframe sandbox="allow-scripts" [^>]*srcdoc="([^"]*)"></iframe>', frame)
    assert match, frame[:200]
    return html.unescape(match[1])


def test_report_shows_its_overview_in_a_sandboxed_frame(report):
    page = inner(report._repr_html_())
    assert "debate: simultaneous, 2 rounds" in page
    assert "allow-same-origin" not in report._repr_html_()
    assert not re.findall(r'<a [^>]*href="(?!#)', page)


def test_transcripts_are_a_page_in_a_notebook_and_text_elsewhere(report: Report) -> None:
    transcripts = report.read(report.reader.problems[0].id, protocol="debate")
    asd = re.search(r"ASD for the truth \(brier\): (\S+)", str(transcripts))
    page = inner(transcripts._repr_html_())
    assert "Debater A" in page and asd and f">{asd[1].replace('-', '−')}</b>" in page


async def test_comparison_of_reports_is_the_first_minus_the_second(report, place):
    other = await finished("sim/deceptive", place)
    ours, theirs = (one.results.rows[1].asd for one in (report, other))
    assert ours and theirs and abs(ours.value - theirs.value) > 0.1
    printed = re.findall(r"^ +debate.* ([+-][\d.]+) \[", str(compare(report, other)), re.MULTILINE)
    assert [*map(float, printed)] == [pytest.approx(ours.value - theirs.value, abs=0.01)]


TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"


@pytest.mark.campaign
async def test_every_cell_of_the_tour_runs_and_shows_its_output(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    cells = orjson.loads(TOUR.read_bytes())["cells"]
    code = {cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}
    names: dict[str, object] = {}
    outputs = {id: await executed(source, id, names) for id, source in code.items()}
    assert "Agent score difference" in inner(outputs["run"]._repr_html_())
    assert "Debater A" in inner(outputs["read"]._repr_html_())
    assert "| debate" in outputs["contrast"]._repr_markdown_()
    assert "run" in outputs["again"].name and "| debate" in outputs["again"]._repr_markdown_()
    assert outputs["plot"]._repr_png_().startswith(b"\x89PNG")
    assert not any(cell.get("outputs") for cell in cells), "outputs are not kept"


async def executed(source: str, name: str, names: dict[str, object]) -> Any:
    """The output of a cell: the value of its last expression, as in a notebook."""
    tree = ast.parse(source, name)
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Assign([ast.Name("_", ast.Store())], tree.body[-1].value)
        tree.body[-1] = ast.fix_missing_locations(ast.copy_location(last, tree.body[-1]))
    result = eval(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if isawaitable(result):
        await result
    return names.get("_")
