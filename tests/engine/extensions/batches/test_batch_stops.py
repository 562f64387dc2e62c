"""Batches while a run stops, dies, resumes or gives up: none is lost or sent twice. Failing lines
and batches: the cells that fail with them, and the faults that stop the run."""

import asyncio
import time
from contextlib import nullcontext
from typing import Any

import orjson
import pytest

from oversight import Call, Observer, Reply
from oversight.engine import errors
from oversight.engine.extensions.batches import batches, endpoints, results
from oversight.engine.extensions.batches import journal as batch_journal
from oversight.engine.extensions.batches.batches import BatchRefused
from oversight.engine.extensions.batches.endpoints import ENDPOINTS
from oversight.engine.extensions.mock.process import counts
from oversight.engine.extensions.mock.profile import BatchProfile
from tests.batches import DEPTH, MODELS, BatchBench, end_batches
from tests.desk import Desk
from tests.waiting import PATIENCE

pytestmark = pytest.mark.wire


async def test_batches_stay_out_after_a_stop_and_the_same_command_collects_them(bench):
    async with bench.server(delay=3600.0) as server:
        loaded = bench.loaded(server.url)

        async def interrupted(seconds: float) -> None:
            raise errors.Interrupted(2)

        loaded.stop_token.sleep = interrupted
        stopped = await bench.run(server, loaded=loaded)
        assert isinstance(stopped.halt, errors.Interrupted)
        assert stopped.execution.pending == f"2 batches of {server.counts()['lines']} calls"
        assert stopped.account.sent == 0, "batches that are out are not paid yet"
        end_batches(server, BatchProfile())
        assert (await bench.whole(server)).account.sent == server.counts()["lines"]


async def test_no_wait_submits_and_exits(bench):
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        sessions = 0
        while isinstance((went := await bench.run(server, no_wait=True)).halt, errors.Later):
            sessions += 1
            end_batches(server)
        counted = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes) and sessions == DEPTH
    assert (counted["lines_twice"], counted["lines"]) == (0, went.account.sent)


async def test_live_run_collects_batches_that_are_out(bench):
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        out = server.counts()["lines"]
        end_batches(server)
        went = await bench.run(server, batch=False)
        counted = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert counted["lines"] == out == counted["lines_ok"]
    assert counted["ok"] + out == live.account.stored


@pytest.mark.parametrize(
    "fault", [None, errors.Interrupted(2), errors.Overloaded("409: it has ended")]
)
async def test_batches_without_a_waiting_cell_are_cancelled_and_counted(bench, monkeypatch, fault):
    async def refused(endpoint: object, id: str) -> None:
        end_batches(server)
        raise fault

    async with bench.server(delay=600.0) as server:
        await bench.run(server, no_wait=True)
        out = server.counts()["lines"]
        (bench.folder / "other-store").symlink_to(bench.folder / "run-store")
        await bench.run(server, "other", batch=False)
        loaded = bench.loaded(server.url)
        with monkeypatch.context() as patched:
            if fault is not None:
                patched.setattr(ENDPOINTS[bench.vendor], "cancel", refused)
            went = await bench.run(server, loaded=loaded)
        assert (
            isinstance(fault, errors.Interrupted) == bool(went.execution.pending) == bool(went.halt)
        )
        # Every cell has an outcome by now.
        went = await bench.run(server, batch=False)
        counted = server.counts()
    assert went.halt is None and not went.execution.pending
    assert counted["lines"] == out == counted.get("lines_ok", 0) + counted.get("lines_cancelled", 0)
    assert went.account.sent == out and went.account.stored == counted.get("lines_ok", 0)


async def test_batch_with_a_lost_answer_is_found(bench):
    async with bench.server(deaf=1.0, delay=0.1) as server:
        # Other batches of the account have other sizes.
        another = BatchBench(bench.folder / "another", bench.vendor, problems=1, first=5)
        await another.run(server, lines=1)
        await bench.whole(server)


@pytest.mark.parametrize("ahead", [0.0, 7_200.0])
async def test_batch_that_is_listed_late_counts_as_cost_until_it_is_found(bench, ahead):
    """It is neither asked again nor cancelled, even if the vendor's clock is hours ahead."""
    async with bench.server(deaf=1.0, delay=60.0, unlisted=3600.0, ahead=ahead) as server:
        went = await bench.run(server, no_wait=True)
        assert isinstance(went.halt, errors.Later)
        owed = server.counts()["lines"]
        assert went.account.count("unconfirmed") == went.account.sent == owed
        assert went.account.unconfirmed > 0
        again = await bench.run(server, no_wait=True)
        assert isinstance(again.halt, errors.Later) and server.counts()["lines"] == owed
        end_batches(server, BatchProfile(ahead=ahead))
        assert (await bench.whole(server)).account.unconfirmed == 0


A_DAY_LATER = BatchProfile(ahead=24 * 3600.0 + 300.0)
"""The vendor's clock, which decides, is a day ahead."""


async def test_unlisted_batch_is_freed_after_its_window(bench, monkeypatch):
    async def lost(*args: object) -> str:
        raise errors.OutcomeUnknown("the connection was reset")

    async with bench.server() as server:
        with monkeypatch.context() as patched:
            patched.setattr(ENDPOINTS[bench.vendor], "create", lost)
            await bench.run(server, no_wait=True)
        out = await bench.run(server, no_wait=True)
        assert isinstance(out.halt, errors.Later) and "lines" not in server.counts()
        server.desk.profile = A_DAY_LATER
        went = await bench.whole(server)
        assert (went.account.sent, went.account.unconfirmed) == (server.counts()["lines"], 0)


@pytest.mark.parametrize("fault", [errors.Overloaded, errors.OutcomeUnknown])
async def test_batch_of_another_user_is_neither_adopted_nor_cancelled(bench, monkeypatch, fault):
    """A batch of the same age and size as ours, whose submission failed."""
    live = await bench.live()
    team = BatchBench(bench.folder / "team", bench.vendor, problems=3, first=9)

    async def failed(*args: object) -> str:
        raise fault("500")

    async with bench.server(delay=60.0) as server:
        await team.run(server, no_wait=True)
        theirs = server.desk.batches
        with monkeypatch.context() as patched:
            patched.setattr(ENDPOINTS[bench.vendor], "create", failed)
            await bench.run(server, no_wait=True)
            await bench.run(server, ends=True)
        assert not any(batch.cancelled for batch in theirs)
        end_batches(server, A_DAY_LATER)
        went, theirs_again = await bench.run(server), await team.run(server)
        counted = server.counts()
    assert (went.halt, went.bytes, theirs_again.halt) == (None, live.bytes, None)
    assert counted["lines_twice"] == counted.get("lines_cancelled", 0) == 0
    assert went.account.sent == live.account.stored


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"id": 7}, "an answer cannot be read: the id of a batch is missing: 7"),
        ({"id": "batch_of_others"}, "the vendor answered about 'batch_of_others'"),
        ({"request_counts": None}, "0 done there"),
    ],
    ids=["garbled id", "another id", "null counts"],
)
async def test_progress_line_names_the_cause_of_a_wait(bench, monkeypatch, answer, says):
    class Lines(Observer):
        def watching(self, snapshot):
            self.snapshot = snapshot
            return nullcontext()

    observer, counted = Lines(), []
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        status, loaded = server.desk._shown, bench.loaded(server.url)
        sleep = loaded.stop_token.sleep

        async def looked(seconds: float) -> None:
            counted.append(observer.snapshot().models)
            if len(counted) == 3:
                monkeypatch.setattr(server.desk, "_shown", status)
                end_batches(server, BatchProfile())
            await sleep(seconds)

        monkeypatch.setattr(loaded.stop_token, "sleep", looked)
        monkeypatch.setattr(server.desk, "_shown", lambda *args: status(*args) | answer)
        went = await bench.run(server, loaded=loaded, observers=[observer])
        assert server.counts()["lines_twice"] == 0
    assert went.halt is None
    assert any(says in line for line in counted[1]), counted
    assert not any("waiting" in line for line in observer.snapshot().models)


async def test_incomplete_results_stop_the_run_and_ask_nothing_again(bench, monkeypatch):
    monkeypatch.setattr(batches, "NOT_FOUND_SECONDS", 0.0)
    async with bench.server(missing=0.4) as server:
        went = await bench.run(server)
        counted = server.counts()
    assert "Downloading again brought no more" in str(went.halt)
    assert counted["lines_missing"] > 0 == counted["lines_twice"]


async def test_batch_without_a_noted_id_is_found_and_not_paid_twice(bench, monkeypatch):
    """A kill between the vendor's answer and the journal."""
    add = batch_journal.add_event

    def torn(run, kind, event):
        if "submitted" in event:
            raise errors.RunFolderError("no room")
        add(run, kind, event)

    async with bench.server() as server:
        with monkeypatch.context() as patched:
            patched.setattr(batch_journal, "add_event", torn)
            stopped = await bench.run(server)
        assert isinstance(stopped.halt, errors.StoreFailed)
        assert stopped.execution.pending == "1 submission of 3 calls without an answer"
        assert stopped.account.count("unconfirmed") == server.counts()["lines"] == 3
        went = await bench.whole(server)
        assert (went.account.sent, went.account.unconfirmed) == (server.counts()["lines"], 0)


async def test_collected_batch_is_entered_into_the_ledger_once(bench):
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        end_batches(server)
        half = await bench.run(server, no_wait=True)
        assert isinstance(half.halt, errors.Later)
        before = half.account
        # A kill between the journal and the ledger.
        (half.folder / "ledger").unlink()
        end_batches(server, BatchProfile())
        went = await bench.run(server)
        counted = server.counts()
    assert before.sent > 0 and went.account.sent == counted["lines"]
    assert went.account.accounts_added == counted["batches"]


async def test_stop_does_not_wait_for_a_silent_vendor(openai, monkeypatch):
    def silent(*request: object) -> bool:
        loaded.stop_token.stop(errors.Interrupted(2))
        return True

    async with openai.server(delay=60.0) as server:
        loaded = openai.loaded(server.url)
        out = await openai.run(server, no_wait=True)
        monkeypatch.setattr(server.desk, "serve", silent)
        async with asyncio.timeout(PATIENCE):
            stopped = await openai.run(server, loaded=loaded)
    assert isinstance(stopped.halt, errors.Interrupted)
    assert stopped.execution.pending == out.execution.pending


async def test_unavailable_vendor_is_waited_for_once_for_all_batches(openai, monkeypatch):
    monkeypatch.setattr(batches, "GIVE_UP", 1.0)
    async with openai.server(delay=60.0) as server:
        out = await openai.run(server, lines=1, no_wait=True)
        assert len(out.marks("submitted")) >= 8
        loaded = openai.loaded(server.url)
    waits: list[float] = []
    sleep = loaded.stop_token.sleep

    async def counted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(loaded.stop_token, "sleep", counted)
    down = await openai.run(server, loaded=loaded)
    assert isinstance(down.halt, errors.ProviderDown)
    # It does not sleep past the limit.
    assert sum(waits) <= batches.GIVE_UP and down.execution.pending == out.execution.pending
    with pytest.raises(errors.ProviderDown, match="it asks to wait 2 hours"):
        endpoints.backoff(1, errors.RateLimited("429", 7_200.0))


def test_batches_are_listed_and_cancelled_and_paid_replies_are_kept(tmp_path, monkeypatch):
    desk = Desk(tmp_path, problems=1)
    with desk.server({"batch": {"delay": 3600.0}}) as url:
        assert desk.sit_here("--batch", "--no-wait").code == 3
        lines = counts(url)["lines"]
        listed = orjson.loads(desk.here("cache", "batches", "run", "--json").out)
        assert sum(batch["lines"] for batch in listed) == lines
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: listed[-1]["at"] + 7200.0)
            assert ", sent 2.0 h ago, $" in desk.here("cache", "batches", "run").out
        cancelled = desk.here("cache", "batches", "run", "--cancel")
        assert cancelled.code == 0, cancelled.err
        counted = counts(url)
        assert desk.here("cache", "batches", "run").out == "no batch is in flight\n"
        assert cancelled.out.startswith(f"{len(listed)} batches ended; the run has cost $")
        assert counted["lines_cancelled"] + counted["lines_ok"] == lines
        assert desk.account().sent == lines and desk.account().stored == counted["lines_ok"]
        # The rest can still be asked live, and no call is paid twice.
        assert desk.sit_here().code == 0
        after = counts(url)
    assert after["repeats"] == 0 and after["lines"] == lines


async def test_refused_line_fails_its_cell_as_a_live_call(bench):
    bench.problems = 6
    async with bench.server(errored=0.2) as server:
        went = await bench.run(server)
        counted = server.counts()
        assert went.halt is None
        failed = [record.failure for record in went.records if record.failure]
        assert failed and {failure.kind for failure in failed} == {"UnknownFault"}
        fault = f"{bench.vendor} says: 400"
        assert all(failure.message.startswith(fault) for failure in failed)
        assert counted["lines_twice"] == 0
        assert went.account.count("failed") == counted["lines_errored"] > 0
        assert (await bench.run(server)).bytes == went.bytes
        assert server.counts()["lines"] == counted["lines"], "a fault was asked again"
    live = await bench.live()
    async with bench.server() as server:
        repaired = await bench.run(server, retry_failed=True)
        assert server.counts()["lines"] >= counted["lines_errored"]
    assert repaired.bytes == live.bytes


async def test_unreadable_line_is_asked_once_more(bench):
    async with bench.server(garbled=0.4) as server:
        went = await bench.run(server)
        counted = server.counts()
        # An unreadable reply may have been billed.
        assert went.account.count("unconfirmed") == counted["lines_garbled"] > 0
        assert went.account.unconfirmed > 0 and max(server.desk._times.values()) == 2
    failed = [record.failure.kind for record in went.records if record.failure]
    assert went.halt is None and set(failed) == {"Malformed"}
    assert "requests" not in counted


@pytest.mark.parametrize("fate", ["expired", "overloaded"])
async def test_unanswered_call_fails_its_cell_after_eight_batches(bench, fate):
    bench.problems = 1
    async with bench.server(**{fate: 1.0}) as server:
        went = await bench.run(server)
        assert went.halt is None and {*server.desk._times.values()} == {results.MAX_BATCHES}
    assert {record.failure.kind for record in went.records} == {"Overloaded"}


STOPS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"garbled": 1.0}, errors.ProviderDown, "cannot be read"),
    ({"errored": 1.0}, errors.AllRefused, "ended so"),
    ({"locked": True}, errors.AuthenticationFailed, "401"),
    ({"fails": "billing_hard_limit_reached"}, errors.QuotaExhausted, "billing_hard_limit_reached"),
    ({"fails": "invalid_json_line"}, BatchRefused, "invalid_json_line"),
]


@pytest.mark.parametrize(
    ("bench", "does", "halt", "says"),
    # Only OpenAI refuses a batch that it has accepted.
    [(at, *stop) for stop in STOPS for at in MODELS if at == "openai" or "fails" not in stop[0]],
    indirect=["bench"],
)
async def test_faults_of_a_vendor_stop_a_run_and_fail_no_cell(bench, monkeypatch, does, halt, says):
    for most in ("MAX_IN_A_ROW", "MAX_ALIKE"):
        monkeypatch.setattr(results, most, bench.problems)
    live = await bench.live()
    async with bench.server(**does) as server:
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, halt) and says in str(stopped.halt)
        assert not stopped.records
        server.desk.profile = BatchProfile()
        went = await bench.run(server)
        if went.halt is not None:
            # Batches of the other model are collected first.
            went = await bench.run(server)
    assert (went.halt, went.bytes) == (None, live.bytes)


@pytest.mark.parametrize(
    ("says", "halt"),
    [
        ("Your credit balance is too low", errors.QuotaExhausted),
        ("The model gpt-0 does not exist", errors.ModelNotFound),
    ],
)
async def test_lines_about_quota_or_model_stop_the_run(bench, says, halt):
    def answer(call: Call) -> Reply:
        raise errors.InvalidRequest(says)

    async with bench.server() as server:
        answers, server._answer = server._answer, answer
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, halt) and not stopped.records
        assert stopped.account.sent == server.counts()["lines_errored"]
        server._answer = answers
        went = await bench.run(server)
    assert went.halt is None and not any(record.failure for record in went.records)


async def test_lost_batch_does_not_prevent_collecting_others(bench, monkeypatch):
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        lost, other = server.desk.batches
        owner, lost.owner = lost.owner, b"of another account"
        monkeypatch.setattr(batches, "NOT_FOUND_SECONDS", 0.0)
        end_batches(server, BatchProfile())
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, BatchRefused)
        message = f"the batch {lost.id} for a while: it was submitted with another key"
        assert message in str(stopped.halt)
        marks = {step["id"]: step["submitted"] for step in stopped.marks("submitted")}
        assert marks[other.id] in [step["collected"] for step in stopped.marks("collected")]
        # Another folder on the same store does not wait for it.
        (bench.folder / "second-store").symlink_to(bench.folder / "run-store")
        second = await bench.run(server, "second")
        assert server.counts()["lines_twice"] == len(lost.lines)
        # With its key again it is collected.
        lost.owner = owner
        went = await bench.run(server)
        assert server.counts()["lines_twice"] == len(lost.lines)
    assert (went.halt, went.bytes) == (second.halt, second.bytes) == (None, live.bytes)
