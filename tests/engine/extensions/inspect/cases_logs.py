"""Runs as logs of Inspect, read by its own readers."""

import asyncio
from typing import Any

import orjson
import pytest

from oversight.engine.extensions.inspect.logs import OUTCOMES
from oversight.engine.extensions.mock import load_profile
from oversight.engine.extensions.mock.profile import THOUGHT
from oversight.engine.run.reader import RunReader
from tests.engine.extensions.mock.test_thinking import MODELS, bench
from tests.engine.extensions.mock.test_thinking import run as run_thinking
from tests.engine.kept_runs import muddled

pytestmark = [pytest.mark.wire, pytest.mark.filterwarnings("ignore")]


async def count_transcripts(transcripts: Any) -> int:
    """How many transcripts Scout reads."""
    async with transcripts.reader() as reader:
        return len([summary async for summary in reader.index()])


def test_every_world_is_a_sample_for_four_readers_and_scout(runs, command, place):
    """40 cells, some of which failed: 10 rows of 2 problems in 2 worlds."""
    from inspect_ai.analysis import evals_df, messages_df, samples_df
    from inspect_ai.log import list_eval_logs, read_eval_log
    from inspect_scout import transcripts_from

    run = runs(muddled(0.3))
    written = command("export", "inspect", run, "-o", "logs", "--requests")
    assert written.code == 0, written.err
    read = RunReader(run)
    cells = {cell.id: cell for cell in read.cells(range(len(read.sweep))).values()}
    report = orjson.loads(command("report", run, "--json").out)

    logs = [read_eval_log(info) for info in list_eval_logs(str(place / "logs"))]
    assert len(logs) == len(read.sweep.rows)
    samples = {s.metadata["cell"]: (log, s) for log in logs for s in log.samples or ()}
    assert samples.keys() == cells.keys()
    for id, (log, sample) in samples.items():
        cell = cells[id]
        assert log.status == "success"
        models = [event for event in sample.events if event.event == "model"]
        assert [e.metadata["address"] for e in models] == [c.address for c in cell.calls]
        assert [e.output.completion for e in models] == [c.text for c in cell.calls]
        assert [e.output.stop_reason for e in models] == [OUTCOMES[c.outcome] for c in cell.calls]
        assert all(event.input for event in models), "requests come from the store"
        if hasattr(cell.outcome, "kind"):
            assert cell.outcome.kind in sample.error.message and not sample.scores
        else:
            assert [m.text for m in sample.messages[1:]] == [
                f"{t.speaker}: {t.text}" for t in cell.outcome.transcript.turns
            ]
            assert sample.error is None
        tokens = {c.address: c.cost.input_tokens + c.cost.output_tokens for c in cell.calls}
        assert sum(u.total_tokens for u in sample.model_usage.values()) == sum(tokens.values())
        times = [call.cost.at for call in cell.calls if call.cost.at is not None]
        assert sample.total_time == (max(times) - min(times) if times else 0)
        for score in (sample.scores or {}).values():
            assert score.value == round(score.value, 6)
    assert all(log.stats.model_usage for log in logs if any(s.model_usage for s in log.samples))
    assert len({sample.uuid for _, sample in samples.values()}) == len(cells)

    frame = samples_df(str(place / "logs"))
    assert len(frame) == len(cells) and set(frame["metadata_cell"]) == set(cells)
    assert frame["score_agent_score"].notna().sum() == sum(
        not hasattr(cell.outcome, "kind") for cell in cells.values()
    )
    assert len(evals_df(str(place / "logs"))) == len(logs)
    assert len(messages_df(str(place / "logs"))) >= len(cells)
    assert asyncio.run(count_transcripts(transcripts_from(str(place / "logs")))) == len(cells)
    figures = {(log.eval.metadata["row"]): log.results.scores[0].metrics for log in logs}
    for row, line in zip(read.sweep.rows, report["rows"], strict=True):
        if line["asd"] is None:
            assert "asd" not in figures[row.address]
        else:
            assert figures[row.address]["asd"].value == pytest.approx(line["asd"]["value"])


def test_two_exports_are_equal_to_the_byte(runs, command, place):
    run = runs(muddled(0.3))
    for folder in ("one", "two"):
        assert command("export", "inspect", run, "-o", folder, "--protocol", "debate").code == 0
    one, two = ({f.name: f.read_bytes() for f in (place / d).iterdir()} for d in ("one", "two"))
    assert one == two and one
    assert not any("_" in name.split("_", 1)[1].rsplit("_", 1)[0] for name in one)


def test_reasoning_is_exported_as_reasoning(place, command):
    from inspect_ai.log import list_eval_logs, read_eval_log
    from inspect_ai.model import ContentReasoning

    asyncio.run(run_thinking(bench(place, MODELS["chat"]), load_profile("thinking")))
    assert command("export", "inspect", "run", "-o", "logs", "--protocol", "debate").code == 0
    logs = list_eval_logs(str(place / "logs"))
    logs = [read_eval_log(info, resolve_attachments=True) for info in logs]
    events = [event for log in logs for sample in log.samples or () for event in sample.events]
    outputs = [event.output for event in events if event.event == "model"]
    assert outputs
    for output in outputs:
        thought, answer = output.message.content
        assert isinstance(thought, ContentReasoning) and thought.reasoning.startswith(THOUGHT)
        assert answer.text == output.completion and THOUGHT not in output.completion
