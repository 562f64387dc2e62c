"""Runs in batches against a server of this machine, in this process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oversight.cache.cache import CacheStatistics
from oversight.engine.errors import Halt
from oversight.engine.extensions.batches.batches import Batches
from oversight.engine.extensions.batches.endpoints import ENDPOINTS
from oversight.engine.extensions.batches.journal import FOLDER
from oversight.engine.extensions.mock import MockServer, Profile
from oversight.engine.extensions.mock.process import actors, staged
from oversight.engine.extensions.mock.profile import BatchProfile
from oversight.engine.models.accounting.ledger import UsageTotals, sum_usage
from oversight.engine.models.accounting.ledger_file import read_ledger
from oversight.engine.run.events import read_events
from oversight.engine.run.execution import Execution
from oversight.engine.run.loaded_sweep import LoadedSweep
from oversight.engine.run.observer import Observer
from oversight.engine.run.outcome import OutcomeRecord
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.record.values import CallCost
from oversight.engine.run.run import Run
from oversight.engine.run.settings import RunSettings
from oversight.engine.sweep.sweepfile import SweepFile
from oversight.protocols.question import Problem
from tests.engine.sweep_files import sweep_file
from tests.run_folders import outcomes
from tests.world import shipments

MODELS = {
    "openai": ("openai/gpt-4o", "openai/gpt-4o-mini"),
    "anthropic": ("anthropic/claude-sonnet-4-6", "anthropic/claude-haiku-4-5"),
}
SWEEP = """\
name: batches
agents: {{model: {0}}}
judges: {{kind: stated, model: {1}}}
protocols:
  naive_judge:
  debate: {{rounds: 1, simultaneous: [true, false]}}
providers:
  openai: {{identity: the vendor}}
  anthropic: {{identity: the other vendor}}
"""
DEPTH = 3
"""Waves of this sweep: two speeches one after the other, and the verdict."""


@dataclass(frozen=True)
class RunEnd:
    """How a sitting ended."""

    halt: Halt | None
    execution: Execution
    folder: Path

    @cached_property
    def bytes(self) -> bytes:
        return (self.folder / "outcomes.jsonl").read_bytes()

    @cached_property
    def records(self) -> list[OutcomeRecord]:
        return outcomes(self.folder)

    @cached_property
    def account(self) -> UsageTotals:
        return sum_usage(read_ledger(self.folder).values())

    @property
    def calls(self) -> CacheStatistics:
        assert self.execution.session is not None
        return self.execution.session.statistics

    @cached_property
    def costs(self) -> dict[str, CallCost]:
        """The recorded cost of each call, by address."""
        with RunTables.open(self.folder) as tables:
            return {call.address: call.cost for cell in tables.cells() for call in cell.calls}

    def marks(self, step: str) -> list[dict[str, Any]]:
        """The lines of the journal that tell of this step."""
        events = read_events(self.folder, FOLDER, msgspec.json.Decoder(dict[str, Any]))
        return [event for event in events if step in event]


@dataclass
class BatchBench:
    """A working folder with one sweep. Its runs share no store unless their names are equal."""

    folder: Path
    vendor: str = "openai"
    text: str = ""
    problems: int = 3
    first: int = 0
    flags: tuple[str, ...] = ()
    given_problems: list[Problem] | None = None
    """Problems instead of shipments."""

    @property
    def file(self) -> SweepFile:
        text = self.text or SWEEP.format(*MODELS[self.vendor])
        problems = self.given_problems or shipments(self.first + self.problems)[self.first :]
        return sweep_file(text, *self.flags, problems=problems)

    def server(self, profile: Profile = Profile(), **batch: Any) -> MockServer:  # noqa: B008
        """One whose models say in each what they said in any other."""
        profile = replace(profile, batch=BatchProfile(**batch))
        return MockServer(profile, actors(self.loaded("http://127.0.0.1:1")))

    def loaded(self, url: str) -> LoadedSweep:
        return staged(self.file, url)

    async def run(
        self,
        server: MockServer,
        name: str = "run",
        loaded: LoadedSweep | None = None,
        store: str = "",
        batch: bool = True,
        lines: int | None = None,
        ends: bool = False,
        observers: Sequence[Observer] = (),
        **options: Any,
    ) -> RunEnd:
        """Start a run, or go on with it. store: its URL; empty for a folder of the run's own.
        lines: calls that the vendor takes in one batch."""
        loaded = loaded or self.loaded(server.url)
        folder = self.folder / name
        store = store or str(self.folder / f"{name}-store")
        settings = RunSettings(store=store, folder=folder, batch=batch, **options)
        with pytest.MonkeyPatch.context() as patch, Run.open(loaded, settings) as run:
            for vendor in ENDPOINTS.values() if lines else ():
                patch.setattr(vendor, "most_lines", lines)
            execution = Execution(run)
            return RunEnd(await execution.execute(*observers, ends=ends), execution, folder)

    async def whole(self, server: MockServer, **options: Any) -> RunEnd:
        """Resume a run to its end: its results equal a live run's, and no line was sent twice."""
        live, went = await self.live(), await self.run(server, **options)
        assert (went.halt, went.bytes) == (None, live.bytes) and server.counts()["lines_twice"] == 0
        return went

    async def live(self) -> RunEnd:
        """The whole of it asked live, as it is compared with; asked once for all equal benches."""
        kind = (self.vendor, self.text, self.problems, self.first, self.flags)
        if kind not in _LIVE:
            async with self.server() as server:
                went = _LIVE[kind] = await self.run(server, "live", batch=False)
            # Its folder goes with the test that asked first.
            assert went.bytes and went.records and went.account
        return _LIVE[kind]


_LIVE: dict[tuple[object, ...], RunEnd] = {}


def end_batches(server: MockServer, then: BatchProfile | None = None) -> None:
    """Have all batches that are out end now. then: how the server serves later ones."""
    server.desk.profile = then or server.desk.profile
    for batch in server.desk.batches:
        batch.ends = batch.made


def passes(went: RunEnd) -> int:
    assert went.execution.session is not None
    added = went.execution.session.added
    assert isinstance(added, Batches)
    return added.passes
