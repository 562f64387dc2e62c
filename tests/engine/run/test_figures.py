"""Figures of a run that follow from plain values: settings, names, forecasts, budgets, origins."""

import os
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

from oversight.cache.errors import StoreGone
from oversight.cache.store import MemoryStore
from oversight.engine.errors import RunFolderError
from oversight.engine.run.observer import store_watermark
from oversight.engine.run.record.values import RecordedCall, RecordedCell
from oversight.engine.stop import StopToken
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.transcript import Judgement, Transcript, Turn, Verdict
from tests.engine.run import test_outcome
from tests.sessions import sessions
from tests.tables import expressions
from tests.world import sweep


async def watched(
    added: int, put: int, *, exact: bool = True, id: str = "", gone: bool = False, full: str = ""
) -> tuple[object, ...]:
    """The notes on a store of 3 replies, and the halt, after a session with `added` replies."""
    noted, token, count = list[object](), StopToken(), 0

    class Store(MemoryStore):
        def check(self) -> None:
            if gone:
                raise StoreGone("cache.db was deleted")

    def change(**fields: object) -> None:
        if full:
            raise RunFolderError(full)
        noted[:] = fields.values()

    store = type("Named", (Store,), {"id": id})()
    store.put_many((f"{n}", b"") for n in range(3))
    folder = SimpleNamespace(change=change, manifest=SimpleNamespace(store_id="before"))
    async with store_watermark(folder, lambda: count, store, token, exact=exact):
        store.put_many((f"new {n}", b"") for n in range(put))
        store.delete_many(["0"] * (put < 0))
        count = added
    return (*noted, token.halt)


GRID = sweep(NaiveJudge(StatedJudge("sim/a")), NaiveJudge(StatedJudge("sim/b")), draws=2)
CELLS = [*GRID.cells()]


THOUGHTS = {"red plums": "plums, maybe"}
"""The reasoning before a speech."""


def said(place: int, *speeches: str, judge: str) -> RecordedCell:
    """A cell with these speeches and the words of its judge. Equal texts are one call."""
    cell, turns, calls = CELLS[place], list[Turn](), list[RecordedCall]()
    seats = [*("speak Debater A", "speak Debater B") * 2][: len(speeches)]
    for n, (seat, text) in enumerate(zip([*seats, "judge Judge"], (*speeches, judge), strict=True)):
        role, _, title = seat.partition(" ")
        address, thought = sha256(text.encode()).hexdigest(), THOUGHTS.get(text, "")
        calls.append(RecordedCall(address, "sim/m", role, title, n, text=text, reasoning=thought))
        turns += [Turn(title, text, None, address)] * (role == "speak")
    judgements = (Judgement((0.7, 0.3), calls[-1].address, judge),)
    end = Verdict((0.7, 0.3), Transcript(cell.problem.question, (*turns,)), judgements)
    about = (place, cell.id, GRID.rows.index(cell.row), GRID.problems.index(cell.problem))
    return RecordedCell(*about, cell.side, cell.draw, end, (*calls,))


@sessions(*(Path(__file__).with_name(name) for name in ("figures.md", "lookup.md")))
def test_figures_follow_from_plain_values(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = vars(test_outcome) | globals() | {"monkeypatch": monkeypatch, "os": os}
    session.check(request, expressions(names), names)
