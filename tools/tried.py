"""Every mechanism tried from end to end, where real models differ from simulated ones.

Over HTTP with models that think in their text, with parameters of their own, four answers and a
passage that the judge does not read; and on the small real model, which argues badly, by a judge
that is held to a form. The second takes half an hour and is written down in tried.json by
python -m tools.tried; the first is made anew wherever the table is.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import orjson

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.extensions.mock import MockServer, load_profile
from oversight.engine.extensions.mock.rehearsed import actors, staged
from oversight.engine.run.execution import execute
from oversight.engine.run.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.run import Run
from oversight.engine.run.settings import RunSettings
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.transcript import Failure
from tests.world import plain

RECORDED = Path(__file__).with_name("tried.json")
HEAD = "| mechanism | answers | cells | read | calls | cells, real model | read | calls |"
MECHANISMS = tuple(name for name in PROTOCOLS if name != "recorded")
"""All that ask an agent."""
OF_TWO = {name for name in MECHANISMS if plain(PROTOCOLS[name]).opposes_answers}
"""Those that have no place for a third answer."""

SWEEP = """\
name: tried
problems: {{file: problem.jsonl}}
agents: {{model: {model}, {agent}}}
judges: {{model: {model}, {judge}}}
protocols: [{protocols}]
providers: {{{providers}}}
"""
_PARAMETERS = 'reasoning_tokens: 99, top_p: 0.9, seed: 7, stop: ["END"]'
THINKING = {
    "model": "compatible/lab/m",
    "agent": f"words: 30, {_PARAMETERS}",
    "judge": f"kind: stated, {_PARAMETERS}",
    "providers": "compatible/lab: {base_url: 'http://127.0.0.1:9'}",
}
REAL = {
    "model": "local/smollm2",
    "agent": "words: 20, max_tokens: 160, top_p: 0.9, seed: 7",
    "judge": "kind: distribution, max_tokens: 64, turn_tokens: 96, top_p: 0.9, seed: 7",
    "providers": "",
}


class Tried(msgspec.Struct, frozen=True):
    """How one mechanism ended."""

    cells: int = 0
    read: int = 0
    """Cells with a verdict."""
    calls: int = 0
    """Those that were asked: what cells share counts once."""


def sweep(
    folder: Path, answers: int, settings: Mapping[str, str], protocols: Iterable[str]
) -> Path:
    """A sweep file, beside the first of the bundled passages with wrong answers added to it."""
    data = Path(__file__).parents[1] / "protocols" / "data" / "passages.jsonl"
    problem = orjson.loads(data.read_bytes().splitlines()[0])
    wrong = {"C": "The boatmen took five of the drums.", "D": "One of the drums had leaked."}
    added = [{"label": label, "text": text, "value": -1.0} for label, text in wrong.items()]
    problem["answers"] = [*problem["answers"], *added][:answers]
    (folder / "problem.jsonl").write_bytes(orjson.dumps(problem))
    file = folder / "tried.yaml"
    file.write_text(SWEEP.format(protocols=", ".join(protocols), **settings))
    return file


async def ended(loaded: LoadedSweep, folder: Path) -> dict[str, Tried]:
    """Run a sweep to its end: how each mechanism did."""
    settings = RunSettings(store=folder / "store", folder=folder / "run")
    with Run.open(loaded, settings) as run:
        halt = await execute(run)
    assert halt is None, halt
    names = {kind.__name__: name for name, kind in PROTOCOLS.items()}
    found, calls = dict[str, Tried](), dict[str, set[str]]()
    with RunTables.open(folder / "run") as tables:
        for cell in tables.cells():
            name = names[loaded.sweep.rows[cell.row].lineage[0]]
            so_far = found.get(name, Tried())
            calls.setdefault(name, set()).update(call.address for call in cell.calls)
            read = so_far.read + (not isinstance(cell.outcome, Failure))
            found[name] = Tried(so_far.cells + 1, read, len(calls[name]))
    return found


async def thinking(answers: int, protocols: Iterable[str]) -> dict[str, Tried]:
    """Mechanisms over HTTP, with models that think."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        file = read_sweep_file(sweep(folder, answers, THINKING, protocols))
        plays, without = actors(staged(file, "http://0")), list[Call]()

        def answer(call: Call) -> Reply:
            if (call.top_p, call.stop) != (0.9, ("END",)):
                without.append(call)
            return plays(call)

        async with MockServer(load_profile("thinking"), answer) as server:
            found = await ended(staged(file, server.url), folder)
    assert not without, f"a seat lost its parameters: {without[0]}"
    return found


def tried() -> str:
    """Both trials, as Markdown."""
    of_more = [name for name in MECHANISMS if name not in OF_TWO]
    over_http = asyncio.run(thinking(4, of_more)) | asyncio.run(thinking(2, OF_TWO))
    real = msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, Tried])
    lines = [HEAD, f"|---|{'---:|' * 7}"]
    for name in MECHANISMS:
        cells = (
            f"{its.cells} | {its.read / its.cells:.0%} | {its.calls}" if its else "– | – | –"
            for its in (over_http[name], real.get(name))
        )
        lines.append(f"| `{name}` | {2 if name in OF_TWO else 4} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Try all mechanisms on the real model, and write down how they did."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        file = sweep(folder, 2, REAL, MECHANISMS)
        found = asyncio.run(ended(open_sweep(file), folder))
    lines = (f'"{name}": {msgspec.json.encode(found[name]).decode()}' for name in MECHANISMS)
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
