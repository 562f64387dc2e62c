"""The recipes of docs/sharing.md open a finished run with other tools."""

from collections import defaultdict
from statistics import fmean
from typing import Any

import pytest

from oversight.engine.run.reader import RunReader
from oversight.protocols.transcript import Verdict
from tests.documents import ROOT, blocks
from tests.engine.conftest import Finished

pytestmark = pytest.mark.wire


def recipe(name: str, run: Finished) -> dict[str, Any]:
    """The names that a recipe defines about a run."""
    # The block with pandas, which has no types here, is called `py`: mypy checks the others.
    listed = blocks(ROOT / "docs" / "sharing.md", "python", "py")
    (text,) = (block.text for block in listed if block.name == name)
    assert "runs/demo-800a48" in text
    scope: dict[str, Any] = {}
    exec(text.replace("runs/demo-800a48", str(run.folder)), scope)
    return scope


def beliefs(run: Finished) -> list[tuple[object, ...]]:
    """(protocol, whether the truth is argued, cells, mean belief), by the program's own reader."""
    groups: dict[tuple[str, bool], list[float]] = defaultdict(list)
    with RunReader(run.folder) as reader:
        values = {problem.id: problem.values for problem in reader.problems}
        for record in reader.outcomes():
            if record.probs:
                key = record.protocol, values[record.problem][record.side] > 0
                groups[key].append(record.probs[record.side])
    return [(*key, len(part), pytest.approx(fmean(part))) for key, part in sorted(groups.items())]


def test_sqlite_reads_figures_of_a_run(finished: Finished) -> None:
    assert recipe("belief.py", finished)["belief"] == beliefs(finished)


def test_pandas_reads_the_speeches_of_a_run(finished: Finished) -> None:
    pytest.importorskip("pandas")
    turns = recipe("turns.py", finished)["turns"]
    with RunReader(finished.folder) as reader:
        cells = [cell for cell in reader.tables.cells() if isinstance(cell.outcome, Verdict)]
    spoken = [
        (cell.place, n, turn.speaker, turn.text)
        for cell in cells
        for n, turn in enumerate(cell.outcome.transcript.turns)  # type: ignore[union-attr]
    ]
    assert list(turns[["place", "turn", "speaker", "text"]].itertuples(index=False)) == spoken
    assert turns.model.notna().all() and turns.output_tokens.gt(0).all()


def test_duckdb_reads_figures_of_a_run(finished: Finished) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT installed FROM duckdb_extensions() WHERE extension_name = 'sqlite_scanner'"
    if duckdb.sql(query).fetchall() != [(True,)]:
        pytest.skip("DuckDB's extension for SQLite is not installed, and tests reach no network")
    assert recipe("duck.py", finished)["belief"] == beliefs(finished)
