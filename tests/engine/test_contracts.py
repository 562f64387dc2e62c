"""Contracts of every `Ask` and every observer: one line per implementation. Stores, wires and
commands have their own tests."""

import asyncio
import runpy
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest

from oversight.cache.cache import Cache
from oversight.cache.call import Ask, Call, RecordingAsk
from oversight.cache.reply import Reply
from oversight.cache.store import MemoryStore
from oversight.engine.errors import InvalidRequest, QuotaExhausted
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.sender import Accounting, Sender
from oversight.engine.providers.wire import PrefixWarmup
from oversight.engine.run.execution import execute
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.engine.run.observer import Observer, ProgressDisplay
from oversight.engine.run.run import Run
from oversight.engine.run.settings import RunSettings
from oversight.engine.stop import StopToken
from oversight.engine.views.cli.terminal import LeakNote
from tests import virtual
from tests.command_line import ROOT
from tests.documents import shown
from tests.run_folders import written
from tests.server import call_of, sender
from tests.world import shipments, simulated

ONE = Limits(concurrency=1)
"""An `Ask` that holds a slot too long is asked in vain afterwards."""


class Inner:
    """The innermost `Ask`: answers after a second, raises `fault`, or hangs."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.hangs = False
        self.asked: list[Call] = []

    async def __call__(self, call: Call) -> Reply:
        self.asked.append(call)
        await asyncio.sleep(10**9 if self.hangs else 1)
        if self.fault is not None:
            raise self.fault
        return Reply(f"{call.request.model} says {call.draw}", call=call.address)

    async def close(self) -> None:
        """Nothing to close."""


def client(inner: Inner) -> Ask:
    return Sender("sim/m", inner, ONE, StopToken(), Accounting(listed()))


AROUND: dict[str, Callable[[Inner], Ask]] = {
    "cache": lambda inner: Cache(MemoryStore(), inner, identity=lambda call: "lab"),
    "recording": RecordingAsk,
    "limits and retries": lambda inner: sender(inner, ONE),
    "client": client,
    "warm prefixes": lambda inner: PrefixWarmup(inner, lambda call: call.request.model),
}
"""An `Ask` that wraps another `Ask`."""


@pytest.mark.parametrize("name", AROUND)
def test_wrappers_alter_no_call_pass_exceptions_on_and_keep_nothing(name):
    inner, calls = Inner(), [call_of(100, n) for n in range(3)]
    ask = AROUND[name](inner)

    async def main() -> None:
        replies = await asyncio.gather(*map(ask, [*calls, calls[0]]))
        assert [reply.text for reply in replies[:3]] == [f"sim/m says ({n},)" for n in range(3)]
        assert replies[3] == replies[0]
        assert set(inner.asked) == set(calls), "the call is the one that was given"
        for n, fault in enumerate((InvalidRequest("no"), ZeroDivisionError("a bug")), 3):
            inner.fault = fault
            with pytest.raises(type(fault)):
                await ask(call_of(100, n))
        inner.fault, inner.hangs = None, True
        waiting = asyncio.ensure_future(ask(call_of(100, 5)))
        await asyncio.sleep(2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        inner.hangs = False
        assert (await ask(call_of(100, 6))).text == "sim/m says (6,)", "no slot and no lock is held"
        inner.fault = QuotaExhausted("no credit")
        with pytest.raises(QuotaExhausted):
            await ask(call_of(100, 7))

    virtual.run(main())


def test_answering_asks_are_deterministic():
    asks: list[Callable[[Call], Awaitable[Reply]]] = [simulated(shipments(1))]
    asks.append(shown("extending.md", "echo.py")["Echo"]())

    async def main() -> None:
        for ask in asks:
            call = call_of(100, model="sim/quiet")
            first, second = await asyncio.gather(ask(call), ask(call))
            assert first.text and first.text == second.text

    virtual.run(main())


OBSERVERS: dict[str, Callable[[], Observer]] = {
    "nobody": Observer,
    "progress": lambda: ProgressDisplay(StringIO()),
    "leak note": lambda: LeakNote(shipments(4)),
    "docs/extending.md": lambda: shown("extending.md", "diary.py")["Diary"](),
    "examples/metrics.py": lambda: runpy.run_path(str(ROOT / "examples/metrics.py"))["Metrics"](0),
}


class Probe(Observer):
    """Sees that watching is entered once and left once, and may raise at the first outcomes."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.steps: list[str] = []

    @asynccontextmanager
    async def watching(self, snapshot):  # type: ignore[no-untyped-def]
        self.steps.append("in")
        assert snapshot().total == 40
        try:
            yield
        finally:
            self.steps.append("out")

    def completed(self, cells) -> None:  # type: ignore[no-untyped-def]
        assert self.steps == ["in"]
        if self.fault is not None:
            raise self.fault


@pytest.mark.wire
@pytest.mark.parametrize("name", OBSERVERS)
def test_observers_change_no_outcome_and_leave_with_the_run(name, place):
    def sit(folder: str, *observers: Observer) -> None:
        async def run() -> None:
            with Run.open(
                open_sweep(Path("small.yaml")), RunSettings(store="store", folder=Path(folder))
            ) as run:
                before = asyncio.all_tasks()
                try:
                    assert await execute(run, *observers) is None
                finally:
                    assert asyncio.all_tasks() == before, "a task of an observer goes on"

        asyncio.run(run())

    sit("alone")
    bad, good = Probe(ZeroDivisionError("a bug")), Probe()
    with pytest.raises(ZeroDivisionError):
        sit("seen", OBSERVERS[name](), bad)
    sit("seen", OBSERVERS[name](), good)
    assert bad.steps == ["in", "out"] and good.steps in (["in", "out"], [])
    assert written(place / "seen") == written(place / "alone")
