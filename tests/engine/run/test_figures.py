"""Figures of a run that follow from plain values: settings, names, forecasts, budgets, origins."""

from pathlib import Path
from types import SimpleNamespace

from oversight.cache.errors import StoreGone
from oversight.cache.store import MemoryStore
from oversight.engine.errors import RunFolderError
from oversight.engine.run.observer import store_watermark
from oversight.engine.stop import StopToken
from tests.sessions import sessions
from tests.tables import expressions


async def watched(
    added: int, put: int, *, exact: bool = True, id: str = "", gone: bool = False, full: str = ""
) -> tuple[object, ...]:
    """The notes on a store of 3 replies, and the halt, after a session that counts `added` replies
    and has put some."""
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


@sessions(Path(__file__).with_name("figures.md"))
def test_figures_follow_from_plain_values(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = globals() | {"monkeypatch": monkeypatch}
    session.check(request, expressions(names), names)
