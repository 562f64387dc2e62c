"""Batches as double entry: whatever a vendor, a network or a clock does, nothing is paid twice in
silence, nobody else's batch is touched, and the books say what is owed."""

import asyncio
import resource
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from oversight.engine.accounting.ledger import sum_usage
from oversight.engine.accounting.ledger_file import read_entries, read_ledger
from oversight.engine.batches import retrying
from oversight.engine.batches.anthropic_endpoint import AnthropicEndpoint
from oversight.engine.batches.journal import BatchJournal
from oversight.engine.batches.openai_endpoint import OpenAIEndpoint
from oversight.engine.batches.reconciliation import reconcile
from oversight.engine.batches.rounds import batch_visit
from oversight.engine.batches.vendor_http import MAX_PAGES
from oversight.engine.errors import BatchesOut, BatchRefused, OutcomeUnknown, Overloaded
from oversight.engine.mock import MockServer
from oversight.engine.mock.profile import BatchProfile
from oversight.engine.runs.stores import open_for_reading
from oversight.engine.stop import StopToken
from tests.batches import BATCHED, NO_WAIT, WAIT, BatchBench, RunEnd, end_batches

pytestmark = pytest.mark.wire

SPOILED = ("cut", "empty", "html", "error", "no_file", "bomb")


async def books(bench: BatchBench, server: MockServer, went: RunEnd) -> Any:
    """What the books of a run say of each other."""
    models = bench.loaded(server.url).models
    with closing(open_for_reading(str(bench.folder / "run-store"))) as store:
        entries = read_entries(went.folder)
        journal = BatchJournal(went.folder, reads_only=True)
        return await reconcile(journal, models, entries, store, StopToken())


@pytest.mark.parametrize("spoiled", SPOILED)
async def test_results_are_downloaded_again_until_they_are_as_many_as_counted(
    bench: BatchBench, spoiled: Any
) -> None:
    live = await bench.live()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with bench.server(spoiled=spoiled, downloads=2) as server:
        went = await bench.run(server)
        seen = server.counts()
        found = await books(bench, server, went)
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert (seen["lines_twice"], seen["lines"]) == (0, live.account.stored)
    assert went.account.sent == went.account.stored == seen["lines"]
    assert not found.differences
    assert {book.calls for book in found.books.values()} == {seen["lines"]}
    if spoiled == "bomb":
        # The mock server itself makes the bomb, once, in this process.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 900 * 1024


async def test_results_that_stay_short_stop_the_run_and_are_given_up_by_name_alone(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(missing=0.4) as server:
        stopped = await bench.run(server, terms=WAIT)
        assert isinstance(stopped.halt, BatchRefused)
        assert "6 downloads brought no more; nothing is asked again" in str(stopped.halt)
        assert server.counts()["lines_twice"] == 0
        while isinstance(stopped.halt, BatchRefused):
            name = str(stopped.halt).rpartition("--give-up ")[2]
            give_up = partial(batch_visit, names=[name])
            assert (await bench.run(server, executor=give_up)).halt is None
            stopped = await bench.run(server, terms=WAIT)
        found = await books(bench, server, stopped)
        seen = server.counts()
    assert (stopped.halt, stopped.bytes) == (None, live.bytes)
    account = stopped.account
    assert account.count("ambiguous") == seen["lines_missing"] > 0
    assert account.sent == seen["lines"]
    assert sum(each.calls for each in found.differences) == seen["lines_missing"]
    assert sum(each.dollars for each in found.differences) == pytest.approx(account.doubtful)


@pytest.mark.parametrize("trouble", [{"stale": 3}, {"denied": 3}])
async def test_a_stale_answer_and_a_404_are_waited_for(
    bench: BatchBench, trouble: dict[str, int]
) -> None:
    live = await bench.live()
    async with bench.server(delay=0.05, **trouble) as server:
        went = await bench.run(server, terms=replace(BATCHED, max_lines=4))
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert (seen["lines_twice"], went.account.sent) == (0, seen["lines"])


@pytest.mark.parametrize("ahead", [0.0, 7_200.0, -7_200.0])
async def test_a_batch_that_is_listed_late_is_a_liability_until_it_is_found(
    bench: BatchBench, ahead: float
) -> None:
    live = await bench.live()
    async with bench.server(deaf=1.0, delay=60.0, unlisted=3600.0, ahead=ahead) as server:
        went = await bench.run(server, terms=NO_WAIT)
        assert isinstance(went.halt, BatchesOut)
        assert "without an answer" in str(went.halt)
        owed = server.counts()["lines"]
        noted = sum_usage(read_ledger(went.folder).values())
        assert noted.count("ambiguous") == noted.sent == owed
        batches = BatchJournal(went.folder, reads_only=True).liabilities.values()
        assert noted.doubtful == pytest.approx(sum(batch.worst for batch in batches))
        assert noted.doubtful > 0
        found = await books(bench, server, went)
        assert sum(each.calls for each in found.differences) == owed
        # It may live: it is neither dropped, nor asked again, nor cancelled.
        again = await bench.run(server, terms=replace(NO_WAIT, patience=0.0))
        assert isinstance(again.halt, BatchesOut)
        assert server.counts()["lines"] == owed
        server.desk.profile = BatchProfile(ahead=ahead)
        end_batches(server)
        went = await bench.run(server)
        seen = server.counts()
        found = await books(bench, server, went)
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines_twice"] == 0
    assert went.account.sent == went.account.stored == seen["lines"]
    assert went.account.doubtful == 0
    assert not found.differences


async def test_what_the_vendor_never_lists_is_free_again_once_its_window_has_passed(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = await bench.live()
    endpoint = AnthropicEndpoint if bench.vendor == "anthropic" else OpenAIEndpoint
    create = endpoint.create

    async def lost(self: Any, *given: Any) -> str:
        raise OutcomeUnknown("the connection was reset")

    monkeypatch.setattr(endpoint, "create", lost)
    async with bench.server() as server:
        out = await bench.run(server, terms=NO_WAIT)
        assert isinstance(out.halt, BatchesOut)
        monkeypatch.setattr(endpoint, "create", create)
        assert isinstance((await bench.run(server, terms=NO_WAIT)).halt, BatchesOut)
        assert "lines" not in server.counts()
        # A day later by the vendor's clock; ours has not moved.
        server.desk.profile = BatchProfile(ahead=24 * 3600.0 + 300.0)
        went = await bench.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert went.account.sent == seen["lines"] == live.account.stored
    assert went.account.doubtful == 0


@pytest.mark.parametrize("fault", [Overloaded, OutcomeUnknown])
async def test_another_teams_batch_is_neither_adopted_nor_cancelled(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch, fault: type[Exception]
) -> None:
    live = await bench.live()
    endpoint = AnthropicEndpoint if bench.vendor == "anthropic" else OpenAIEndpoint
    create = endpoint.create
    team = BatchBench(bench.folder / "team", bench.vendor, problems=3, first=9)

    async def failed(self: Any, *given: Any) -> str:
        raise fault("500")

    async with bench.server(delay=60.0) as server:
        # As old and as large as ours.
        await team.run(server, terms=NO_WAIT)
        theirs = server.desk.batches
        monkeypatch.setattr(endpoint, "create", failed)
        await bench.run(server, terms=NO_WAIT)
        await bench.run(server, executor=batch_visit)
        await bench.run(server, terms=replace(NO_WAIT, patience=0.0))
        assert not any(batch.cancelled for batch in theirs)
        monkeypatch.setattr(endpoint, "create", create)
        end_batches(server)
        server.desk.profile = BatchProfile(ahead=24 * 3600.0 + 300.0)
        went = await bench.run(server)
        theirs_again = await team.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert theirs_again.halt is None
    assert (seen["lines_twice"], seen.get("lines_cancelled", 0)) == (0, 0)
    assert went.account.sent == live.account.stored


async def test_a_list_that_never_ends_is_read_to_a_bound_and_not_at_once_again(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "MAX_WAIT", 60.0)
    async with bench.server(deaf=1.0, delay=60.0) as server:
        out = await bench.run(server, terms=NO_WAIT)
        assert isinstance(out.halt, BatchesOut)
        server.desk.profile = BatchProfile(delay=60.0, endless=True)
        before = server.counts()["desk_requests"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await bench.run(server)
        # Two models, each tried three times at most within 3 s.
        assert server.counts()["desk_requests"] - before < 8 * MAX_PAGES
