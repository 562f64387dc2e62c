"""Batches that are out while a run stops, dies, resumes or gives up: none is lost or sent twice."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.engine.errors import (
    BatchesOut,
    Interrupted,
    ProviderDown,
    RunFolderError,
    StoreFailed,
)
from oversight.engine.extensions.batches import journal as batch_journal
from oversight.engine.extensions.batches import retrying
from oversight.engine.extensions.mock.process import counts
from oversight.engine.extensions.mock.profile import BatchProfile
from oversight.engine.run.batch_terms import BatchTerms
from tests.batches import BATCHED, DEPTH, NO_WAIT, BatchBench, end_batches, stopped_once_out
from tests.desk import Desk

pytestmark = pytest.mark.wire


async def test_a_stop_while_waiting_leaves_batches_there_and_the_same_command_takes_them(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(delay=0.4) as server:
        stopped = await stopped_once_out(bench, server)
        assert isinstance(stopped.halt, Interrupted)
        assert stopped.run.awaited == f"2 batches of {server.counts()['lines']} calls"
        assert stopped.account.sent == 0, "what is out is not paid yet"
        went = await bench.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines_twice"] == 0
    assert went.account.sent == seen["lines"]


async def test_whoever_does_not_wait_hands_in_and_goes_home(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        sittings = 0
        while isinstance((went := await bench.run(server, terms=NO_WAIT)).halt, BatchesOut):
            sittings += 1
            end_batches(server)
        seen = server.counts()
    assert went.halt is None
    assert sittings == DEPTH
    assert went.bytes == live.bytes
    assert seen["lines_twice"] == 0
    assert went.account.sent == seen["lines"]


async def test_a_run_goes_home_with_what_is_out_though_it_is_live_by_now(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        await bench.run(server, terms=NO_WAIT)
        out = server.counts()["lines"]
        end_batches(server)
        went = await bench.run(server, terms=BatchTerms())
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines"] == out == seen["lines_ok"]
    assert seen["ok"] + out == live.account.stored


async def test_what_no_cell_waits_for_any_more_is_cancelled_and_counted(bench: BatchBench) -> None:
    async with bench.server(delay=5.0) as server:
        await bench.run(server, terms=NO_WAIT)
        out = server.counts()["lines"]
        (bench.folder / "other-store").symlink_to(bench.folder / "run-store")
        await bench.run(server, "other", BatchTerms())
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert not went.run.awaited
    assert seen["lines"] == out == seen.get("lines_ok", 0) + seen["lines_cancelled"]
    assert went.account.sent == out
    assert went.account.stored == seen.get("lines_ok", 0)


async def test_when_patience_ends_batches_are_cancelled_before_anything_is_asked_live(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(delay=5.0) as server:
        went = await bench.run(server, terms=replace(BATCHED, patience=1.0))
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    # A fifth, at least, was done when it was cancelled; nothing is paid twice.
    assert 0 < seen["lines_ok"] < seen["lines"]
    assert seen["lines_ok"] + seen["lines_cancelled"] == seen["lines"]
    assert seen["lines_ok"] + seen["ok"] == live.account.stored


async def test_a_batch_that_was_made_though_the_answer_was_lost_is_found(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(deaf=1.0, delay=0.1) as server:
        # Other batches of the account, of other sizes.
        other = replace(BATCHED, max_lines=1)
        another = BatchBench(bench.folder / "another", bench.vendor, problems=1, first=5)
        await another.run(server, terms=other)
        went = await bench.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines_twice"] == 0


async def test_a_batch_whose_id_was_never_noted_is_found_again_and_not_paid_twice(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill leaves it between the vendor's answer and the journal."""
    live, add = await bench.live(), batch_journal.add_event

    def torn(run: Path, kind: str, event: Mapping[str, Any]) -> None:
        if "submitted" in event:
            raise RunFolderError("no room")
        add(run, kind, event)

    async with bench.server() as server:
        with monkeypatch.context() as patched:
            patched.setattr(batch_journal, "add_event", torn)
            stopped = await bench.run(server)
        assert isinstance(stopped.halt, StoreFailed)
        assert stopped.run.awaited == "1 submission of 3 calls without an answer"
        assert stopped.account.count("ambiguous") == server.counts()["lines"] == 3
        went = await bench.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines_twice"] == 0
    assert (went.account.sent, went.account.doubtful) == (seen["lines"], 0)


async def test_what_was_landed_and_not_entered_is_entered_once(bench: BatchBench) -> None:
    async with bench.server(delay=60.0) as server:
        await bench.run(server, terms=NO_WAIT)
        end_batches(server)
        half = await bench.run(server, terms=NO_WAIT)
        assert isinstance(half.halt, BatchesOut)
        known = half.account
        # As a kill leaves it between the book and the ledger.
        (half.folder / "ledger").unlink()
        end_batches(server)
        server.desk.profile = BatchProfile()
        went = await bench.run(server)
        seen = server.counts()
    assert known.sent > 0
    assert went.account.sent == seen["lines"]
    assert went.account.batches == seen["batches"]


async def test_a_stop_does_not_wait_for_a_vendor_that_never_answers(
    openai: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, asked = None, asyncio.Event()

    def silent(*request: object) -> bool:
        asked.set()
        return True

    async with openai.server(delay=60.0) as server:
        loaded = openai.loaded(server.url)
        sitting = asyncio.create_task(openai.run(server, loaded=loaded))
        while server.counts().get("batches", 0) < len(loaded.sweep.models):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        monkeypatch.setattr(server.desk, "serve", silent)
        await asked.wait()
        async with asyncio.timeout(10):
            loaded.stop_token.stop(Interrupted(2))
            stopped = await sitting
    assert isinstance(stopped.halt, Interrupted)
    assert stopped.run.awaited


async def test_a_vendor_that_is_down_is_waited_for_once_and_not_for_each_batch(
    openai: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "GIVE_UP", 1.0)
    async with openai.server(delay=60.0) as server:
        terms = replace(BATCHED, max_lines=1, waits=False)
        out = await openai.run(server, terms=terms)
        assert len(out.marks("submitted")) >= 8
        loaded = openai.loaded(server.url)
    waits: list[float] = []
    sleep = loaded.stop_token.sleep

    async def counted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(loaded.stop_token, "sleep", counted)
    down = await openai.run(server, loaded=loaded)
    assert isinstance(down.halt, ProviderDown)
    # What is one wait too long is not slept any more.
    assert sum(waits) <= retrying.GIVE_UP
    assert down.run.awaited == out.run.awaited


def test_batches_are_listed_and_cancelled_and_what_is_paid_is_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path, problems=1)
    with desk.server({"batch": {"delay": 3600.0}}) as url:
        assert desk.sit_here("--batch", "--no-wait").code == 3
        lines = counts(url)["lines"]
        listed = orjson.loads(desk.here("batches", "list", "run", "--json").out)
        assert sum(each["lines"] for each in listed) == lines
        cancelled = desk.here("batches", "cancel", "run")
        assert cancelled.code == 0, cancelled.err
        seen = counts(url)
        assert desk.here("batches", "list", "run").out == "no batch is out\n"
        assert cancelled.out.startswith(f"{len(listed)} batches ended; the run has cost $")
        assert seen["lines_cancelled"] + seen["lines_ok"] == lines
        assert desk.account().sent == lines
        assert desk.account().stored == seen["lines_ok"]
        # The rest can still be asked live, and what was paid is not paid again.
        assert desk.sit_here().code == 0
        after = counts(url)
    assert after["repeats"] == 0
    assert after["lines"] == lines
