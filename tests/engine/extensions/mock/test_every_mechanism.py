"""Every mechanism from end to end where real models differ from simulated ones: over HTTP, with
models that think in their text, with parameters of their own in every seat, as many answers as a
mechanism takes up to four, and a passage that the judge does not read."""

from pathlib import Path

import orjson
import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.extensions.mock import MockServer, load_profile
from oversight.engine.extensions.mock.rehearsed import actors, staged
from oversight.engine.run.execution import execute
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.run import Run
from oversight.engine.run.settings import RunSettings
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.transcript import Failure
from tests.world import plain

pytestmark = pytest.mark.wire

SWEEP = """\
name: tried
problems: {{file: problem.jsonl}}
agents: {{model: compatible/lab/m, words: 30, {parameters}}}
judges: {{model: compatible/lab/m, kind: stated, {parameters}}}
protocols: [{protocols}]
providers: {{compatible/lab: {{base_url: 'http://127.0.0.1:9'}}}}
"""
PARAMETERS = 'reasoning_tokens: 99, top_p: 0.9, seed: 7, stop: ["END"]'
PASSAGES = Path(__file__).parents[4] / "protocols" / "data" / "passages.jsonl"
WRONG = {"C": "The boatmen took five of the drums.", "D": "One of the drums had leaked."}
"""Wrong answers beside those of the first bundled passage."""
MECHANISMS = {name for name in PROTOCOLS if name != "recorded"}
OF_TWO = {name for name in MECHANISMS if plain(PROTOCOLS[name]).opposes_answers}
"""Those that have no place for a third answer."""


def sweep(folder: Path, answers: int, protocols: set[str]) -> Path:
    problem = orjson.loads(PASSAGES.read_bytes().splitlines()[0])
    added = [{"label": label, "text": text, "value": -1.0} for label, text in WRONG.items()]
    problem["answers"] = [*problem["answers"], *added][:answers]
    (folder / "problem.jsonl").write_bytes(orjson.dumps(problem))
    file = folder / "tried.yaml"
    named = ", ".join(sorted(protocols))
    file.write_text(SWEEP.format(parameters=PARAMETERS, protocols=named))
    return file


@pytest.mark.parametrize("answers, protocols", [(4, MECHANISMS - OF_TWO), (2, OF_TWO)])
async def test_every_mechanism_ends_with_a_verdict_of_models_that_think(
    tmp_path, answers, protocols
):
    file = read_sweep_file(sweep(tmp_path, answers, protocols))
    plays, got = actors(staged(file, "http://0")), list[Call]()

    def answer(call: Call) -> Reply:
        got.append(call)
        return plays(call)

    settings = RunSettings(store=tmp_path / "store", folder=tmp_path / "run")
    async with MockServer(load_profile("thinking"), answer) as server:
        with Run.open(staged(file, server.url), settings) as run:
            assert await execute(run) is None
    with RunTables.open(tmp_path / "run") as tables:
        cells = list(tables.cells())
    assert len(cells) == answers * len(protocols)
    assert not [cell.outcome for cell in cells if isinstance(cell.outcome, Failure)]
    assert {(call.top_p, call.stop) for call in got} == {(0.9, ("END",))}
