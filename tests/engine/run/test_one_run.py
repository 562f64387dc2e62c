"""One way to run a sweep, with two seams: observers and sessions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from examples.metrics import MEASURED, Metrics
from oversight import run as run_from_python
from oversight.cache import writer
from oversight.cache.reply import Reply
from oversight.engine.display.progress import Snapshot
from oversight.engine.errors import BudgetReached, Halt, RunFolderError, UsageError
from oversight.engine.run import run_folder
from oversight.engine.run.execution import RunSession, execute
from oversight.engine.run.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.run.observer import Observer
from oversight.engine.run.reader import RunReader
from oversight.engine.run.record.values import RecordedCell
from oversight.engine.run.run import Run
from oversight.engine.run.settings import RunSettings
from oversight.engine.stop import StopToken
from oversight.protocols import NaiveJudge, StatedJudge
from tests.world import shipments

OPTIONS = RunSettings(store=Path("store"), folder=Path("run"))


@pytest.fixture
def loaded(place: Path) -> LoadedSweep:
    return open_sweep(Path("small.yaml"), ("max_cells=2",))


class Diary(Observer):
    """Notes what it sees of a run, and what is in the run folder by then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.landed_cells: list[RecordedCell] = []
        self.snapshots: list[Snapshot] = []

    @asynccontextmanager
    async def watching(self, snapshot: Callable[[], Snapshot]) -> AsyncIterator[None]:
        self.snapshots.append(snapshot())
        yield
        self.snapshots.append(snapshot())

    def completed(self, cells: Sequence[RecordedCell]) -> None:
        self.landed_cells += cells
        records = RunReader(self.folder).records(cell.place for cell in cells)
        assert sorted(records) == sorted(cell.place for cell in cells)


class EnoughIsEnough(Halt):
    """The rule of the observer below is met."""


class Until(Observer):
    """Stops the run after a number of outcomes."""

    def __init__(self, count: int, stop_token: StopToken) -> None:
        self.left = count
        self.stop_token = stop_token

    def completed(self, cells: Sequence[RecordedCell]) -> None:
        self.left -= len(cells)
        if self.left <= 0:
            self.stop_token.stop(EnoughIsEnough("enough"))


async def test_observers_see_each_cell_once_and_when_it_is_in_the_folder(loaded):
    one, other = Diary(Path("run")), Diary(Path("run"))
    with Run.open(loaded, OPTIONS) as run:
        assert await execute(run, one, other) is None
        cells = len(loaded.sweep)
        assert sorted(cell.place for cell in one.landed_cells) == list(range(cells))
        assert other.landed_cells == one.landed_cells
        before, after = one.snapshots
        assert (before.total, before.finished, before.calls) == (cells, 0, 0)
        assert (after.total, after.finished, after.failed) == (cells, cells, 0) and after.calls > 0
        assert len(list(run.folder.outcomes())) == cells


async def test_observer_stops_the_run_by_its_token_and_the_command_goes_on(loaded, monkeypatch):
    monkeypatch.setattr(run_folder, "MAX_GROUP", 1)
    monkeypatch.setattr(writer, "MAX_HELD", 1)
    with Run.open(loaded, OPTIONS) as run:
        halt = await execute(run, Until(5, loaded.stop_token))
        assert isinstance(halt, EnoughIsEnough) and 5 <= run.folder.finished < len(loaded.sweep)
        finished = run.folder.finished
    again, diary = open_sweep(Path("small.yaml")), Diary(Path("run"))
    with Run.open(again, OPTIONS) as run:
        assert await execute(run, diary) is None
    assert len(diary.landed_cells) == len(again.sweep) - finished


async def test_first_fault_is_reported_if_the_disk_fails_as_well(loaded, monkeypatch):
    async def raises(self: RunSession) -> None:
        raise RuntimeError("first")

    async def full(self: object) -> None:
        raise RunFolderError("no room")

    with Run.open(loaded, OPTIONS) as run:
        monkeypatch.setattr(RunSession, "run", raises)
        monkeypatch.setattr(writer.GroupCommit, "flush", full)
        with pytest.raises(RuntimeError, match="first"):
            await execute(run)


@pytest.mark.parametrize(
    ("halt", "paid", "pending"),
    [
        (BudgetReached, 0, ""),
        (BudgetReached, 1, ""),
        (BudgetReached, 0, "b"),
        (EnoughIsEnough, 0, ""),
    ],
)
def test_only_a_budget_that_allows_no_call_leaves_no_folder(
    loaded, monkeypatch, halt, paid, pending
):
    async def stops(self: RunSession) -> Halt:
        for _ in range(paid):
            self.models.accounting.ledger.page("m", None).reply(Reply("x"), 1.0, 0.0)
        return halt("stop")

    monkeypatch.setattr(RunSession, "run", stops)
    monkeypatch.setattr(RunSession, "pending", pending)
    with Run.open(loaded, OPTIONS) as run:
        assert isinstance(asyncio.run(execute(run)), halt)
    assert Path("run").exists() == (halt is not BudgetReached or bool(paid or pending))


def test_prices_are_a_parameter_in_python_too(place):
    problems, protocols = shipments(1), [NaiveJudge(StatedJudge("openai/gpt-unheard-of"))]
    bad = place / "prices.toml"
    bad.write_text("openai = 3\n")
    with pytest.raises(UsageError, match=r"prices\.toml"):
        run_from_python(protocols, problems, prices=bad, max_cost=1.0, quiet=True)
    assert not Path("runs").exists()


MINE = """\
[openai.models]
gpt-4o = {{input = {0}, output = 9}}
"gpt-5.6-sol" = {{input = {0}, output = 9}}
"""


def test_resumed_run_keeps_the_prices_it_started_with(place):
    sweep, mine = Path("s.yaml"), Path("mine.toml")
    models = ["compatible/lab/judge", "openai/gpt-4o", "openai/gpt-5.6-sol"]
    sweep.write_text(
        f"problems: {{bundled: arithmetic}}\nprotocols: naive_judge\njudges: {models}\n"
        "providers: {compatible/lab: {base_url: 'http://127.0.0.1:9/v1'}}\n"
        "models: {compatible/lab/judge: {is: openai/gpt-4o}}\n"
    )

    def prices(file: Path | None = None) -> list[tuple[float, float]]:
        settings = RunSettings(store=Path("store"), folder=Path("run"), prices=file)
        with Run.open(open_sweep(sweep), settings) as run:
            price_list = run.loaded.models.priced(run.prices)
            return [(price_list.need(m).input, price_list.need(m).output) for m in models]

    mine.write_text(MINE.format(3))
    assert prices(mine) == [(3, 9)] * 3
    assert prices() == [(3, 9)] * 3, "the lists say otherwise"
    mine.write_text(MINE.format(4))
    assert prices(mine) == [(4, 9)] * 3, "a file wins over all"


class Asker(Observer):
    """Asks for the metrics of a run over HTTP, before the first cell and after the last."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @asynccontextmanager
    async def watching(self, snapshot: Callable[[], Snapshot]) -> AsyncIterator[None]:
        self.before = await self._answer()
        yield
        self.after = await self._answer()

    async def _answer(self) -> dict[str, float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._metrics.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        assert head.startswith("HTTP/1.1 200 OK") and f"Content-Length: {len(body)}\r\n" in head
        lines = (line.split() for line in body.splitlines() if not line.startswith("#"))
        return {name.removeprefix("oversight_"): float(value) for name, value in lines}


@pytest.mark.wire
async def test_progress_is_shown_during_a_run(place):
    asker = Asker(metrics := Metrics(0))
    with Run.open(open_sweep(place / "small.yaml"), RunSettings(store=place / "store")) as run:
        assert await execute(run, metrics, asker) is None
    before, after = asker.before, asker.after
    assert before.keys() == after.keys() == MEASURED.keys()
    assert (before["cells"], before["cells_finished"], before["calls"]) == (40, 0, 0)
    assert (after["cells_finished"], after["cells_failed"], after["calls_in_flight"]) == (40, 0, 0)
    assert after["calls"] > 40
