"""What a notebook shows: reports, worlds and comparisons, each in a frame of its own."""

import html
import re
from pathlib import Path

import pytest

from oversight import Report, run_async
from oversight.protocols.agents.agent import Agent
from oversight.protocols.datasets.bundled import bundled
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.mechanisms.debate import Debate


@pytest.fixture
async def report(tmp_path: Path) -> Report:
    judge = StatedJudge("sim/judge")
    protocols = [NaiveJudge(judge), Debate(judge, Agent("sim/strong"))]
    return await run_async(
        protocols,
        bundled("arithmetic")[:3],
        store=tmp_path / "store",
        folder=tmp_path / "run",
        quiet=True,
    )


def inner(shown: str) -> str:
    """The page within the frame."""
    found = re.fullmatch(r'<iframe sandbox="allow-scripts" [^>]*srcdoc="([^"]*)"></iframe>', shown)
    assert found, shown[:200]
    return html.unescape(found[1])


async def test_a_report_shows_its_overview_in_a_frame_without_the_notebooks_origin(
    report: Report,
) -> None:
    page = inner(report._repr_html_())
    assert "debate simultaneous 2" in page
    assert "allow-same-origin" not in report._repr_html_()
    assert not re.findall(r'<a [^>]*href="(?!#)', page)


async def test_worlds_are_a_page_in_a_notebook_and_text_elsewhere(report: Report) -> None:
    problem = report.opened.sweep.problems[0].id
    shown = report.read(problem, protocol="debate")
    assert "Debater A" in inner(shown._repr_html_())
    assert "ASD for the truth" in str(shown)


async def test_a_run_compared_with_itself_differs_in_nothing(report: Report) -> None:
    shown = report.compare(report)
    assert "0.00" in inner(shown._repr_html_())
    assert str(shown).count("p 1.000") == 2
