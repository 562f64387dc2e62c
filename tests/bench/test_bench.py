"""Every bench, as small as it gets: it runs, and tells what it is there to tell. No figure of time
is looked at; how coroutines take turns depends on the load, and some counts on that: only the
nightly ring, with nothing else running, looks at those."""

import py_compile
import re

import pytest
from click import UsageError
from click.testing import CliRunner

from bench import BENCHES, main
from oversight.engine.display.table import Table
from tools.bench import report
from tools.bench.clients.asked import Job
from tools.bench.counts import COUNT, MOST, WORKLOADS, Counted, Counts, counted
from tools.bench.document import BEGIN, END
from tools.bench.measured import Measured, at_least, at_most
from tools.bench.options import Options
from tools.bench.server import Server
from tools.bench.start import require_compiled

SMALL = Options(rounds=1, size=0.0)
GRID = """\
name: grid
problems: {bundled: arithmetic}
agents: sim/strong
judges: sim/judge
protocols: {naive_judge: , debate: {rounds: [1, 2]}, consultancy: }
"""
DOCS = f"# How fast\n\n{BEGIN}\n\n{END}\n\nThe end.\n"


@pytest.fixture
def smaller(tmp_path, monkeypatch) -> None:
    """The benches without a size: fewer problems in virtual time, a grid of four rows, and counts
    as they might be; the real counts are tested below."""
    counts = Counts(200.0, 100.0, 1.0)
    monkeypatch.setattr("tools.bench.counts.counted", lambda *_, **__: Counted(counts, counts, {}))
    monkeypatch.setattr("tools.bench.slots.PROBLEMS", 10)
    monkeypatch.setattr("tools.bench.start.require_compiled", lambda: None)
    (tmp_path / "grid.yaml").write_text(GRID)
    monkeypatch.setattr("tools.bench.twin.EXAMPLE", tmp_path / "grid.yaml")


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_tells_its_figures_and_goals(name, smaller):
    measured = BENCHES[name](SMALL)
    assert measured.name == name
    assert measured.table.body
    assert {len(row) for row in measured.table.body} == {len(measured.table.head)}
    assert measured.goals
    assert all(any(map(str.isdigit, goal.measured)) for goal in measured.goals)


def test_start_refuses_to_measure_sources_that_are_not_compiled(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    module = tmp_path / "cache" / "module.py"
    module.parent.mkdir()
    module.write_text("x = 1\n")
    with pytest.raises(UsageError, match="is not compiled"):
        require_compiled(tmp_path)
    py_compile.compile(str(module))
    require_compiled(tmp_path)
    module.write_text("x = 12\n")
    with pytest.raises(UsageError, match="is not compiled"):
        require_compiled(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with pytest.raises(UsageError, match="unset PYTHONDONTWRITEBYTECODE"):
        require_compiled(tmp_path)


def test_unknown_bench_is_refused_with_the_known_names():
    result = CliRunner().invoke(main, ["cals"])
    assert result.exit_code == 2
    assert "unknown bench 'cals'" in result.output
    assert "calls" in result.output


def test_goals_hold_at_their_limits():
    assert at_most("wall", 2.0, 2, " s").met
    assert not at_most("wall", 2.001, 2, " s").met
    assert at_least("hits", 20_000, 20_000).met
    assert not at_least("hits", 19_999, 20_000).met


def test_a_bench_replaces_its_own_figures_in_the_document(tmp_path):
    docs = tmp_path / "performance.md"
    docs.write_text(DOCS)
    for name, seconds in (("calls", 1.25), ("start", 0.5), ("calls", 3.75)):
        report.written([_measured(name, seconds)], "docs", docs)
    text = docs.read_text()
    assert text.startswith("# How fast\n\n<!--")
    assert text.endswith("-->\n\nThe end.\n")
    assert "1.25" not in text
    rows = [row for row in text.splitlines() if " at most " in row]
    assert rows == [
        "| calls | wall | at most 2 s | 3.75 s | no |",
        "| start | wall | at most 2 s | 0.50 s | yes |",
    ]
    assert text.index("calls: a table") < text.index("start: a table")


def test_a_document_without_a_place_for_figures_is_left_alone(tmp_path):
    docs = tmp_path / "performance.md"
    docs.write_text("# How fast\n")
    with pytest.raises(ValueError, match="has no place for figures"):
        report.written([_measured("calls", 1.0)], "docs", docs)
    assert docs.read_text() == "# How fast\n"


def test_the_document_of_the_project_has_its_place_and_says_what_each_bench_measures():
    text = report.DOCS.read_text()
    assert text.index(BEGIN) < text.index(END)
    assert set(re.findall(r"^- `(\w+)`: ", text, re.MULTILINE)) == {*BENCHES}


def _measured(name: str, seconds: float) -> Measured:
    table = Table(f"{name}: a table", ("what", "s"), (("this", f"{seconds}"),), 1)
    return Measured(name, table, (at_most("wall", seconds, 2, " s"),))


@pytest.mark.nightly
@pytest.mark.parametrize("workload_name", MOST)
def test_one_more_takes_no_more_function_calls_than_has_been_reached(workload_name):
    client, workload = WORKLOADS[workload_name]
    with Server() as server:
        counts = counted(client, workload, Job(server.url, COUNT, 50, ""))
    places = sorted(counts.places.items(), key=lambda place: -place[1])[:20]
    more, once = MOST[workload_name]
    assert counts.more.python <= more, places
    assert counts.once.python <= once
