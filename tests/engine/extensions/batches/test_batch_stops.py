"""Batches that are out while a run stops, dies, resumes or gives up: none is lost or sent twice;
lines and batches that fail: which cells fail with them, and what stops the run.
"""

import asyncio
import time
from contextlib import nullcontext
from typing import Any

import orjson
import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.errors import (
    AllRefused,
    AuthenticationFailed,
    Interrupted,
    InvalidRequest,
    Later,
    ModelNotFound,
    OutcomeUnknown,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    RunFolderError,
    StoreFailed,
)
from oversight.engine.extensions.batches import batches, endpoints, results
from oversight.engine.extensions.batches import journal as batch_journal
from oversight.engine.extensions.batches.batches import BatchRefused
from oversight.engine.extensions.batches.endpoints import ENDPOINTS
from oversight.engine.extensions.mock.process import counts
from oversight.engine.extensions.mock.profile import BatchProfile
from oversight.engine.run.observer import Observer
from tests.batches import DEPTH, MODELS, BatchBench, end_batches
from tests.desk import Desk
from tests.waiting import PATIENCE

pytestmark = pytest.mark.wire


async def test_a_stop_while_waiting_leaves_batches_there_and_the_same_command_takes_them(bench):
    async with bench.server(delay=3600.0) as server:
        loaded = bench.loaded(server.url)

        async def interrupted(seconds: float) -> None:
            raise Interrupted(2)

        loaded.stop_token.sleep = interrupted
        stopped = await bench.run(server, loaded=loaded)
        assert isinstance(stopped.halt, Interrupted)
        assert stopped.execution.awaited == f"2 batches of {server.counts()['lines']} calls"
        assert stopped.account.sent == 0, "what is out is not paid yet"
        end_batches(server, BatchProfile())
        went = await bench.whole(server)
        assert went.account.sent == server.counts()["lines"]


async def test_whoever_does_not_wait_hands_in_and_goes_home(bench):
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        sittings = 0
        while isinstance((went := await bench.run(server, no_wait=True)).halt, Later):
            sittings += 1
            end_batches(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert sittings == DEPTH
    assert (seen["lines_twice"], seen["lines"]) == (0, went.account.sent)


async def test_a_run_goes_home_with_what_is_out_though_it_is_live_by_now(bench):
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        out = server.counts()["lines"]
        end_batches(server)
        went = await bench.run(server, batch=False)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines"] == out == seen["lines_ok"]
    assert seen["ok"] + out == live.account.stored


@pytest.mark.parametrize("fault", [None, Interrupted(2), Overloaded("409: it has ended")])
async def test_what_no_cell_waits_for_any_more_is_cancelled_and_counted(bench, monkeypatch, fault):
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
        assert isinstance(fault, Interrupted) == bool(went.execution.awaited) == bool(went.halt)
        # Every cell has an outcome by now.
        went = await bench.run(server, batch=False)
        seen = server.counts()
    assert went.halt is None
    assert not went.execution.awaited
    assert seen["lines"] == out == seen.get("lines_ok", 0) + seen.get("lines_cancelled", 0)
    assert went.account.sent == out
    assert went.account.stored == seen.get("lines_ok", 0)


async def test_a_batch_that_was_made_though_the_answer_was_lost_is_found(bench):
    async with bench.server(deaf=1.0, delay=0.1) as server:
        # Other batches of the account, of other sizes.
        another = BatchBench(bench.folder / "another", bench.vendor, problems=1, first=5)
        await another.run(server, lines=1)
        await bench.whole(server)


@pytest.mark.parametrize("ahead", [0.0, 7_200.0])
async def test_a_batch_that_is_listed_late_is_a_liability_until_it_is_found(bench, ahead):
    """By the vendor's clock, which may be hours ahead: it is neither asked again nor cancelled."""
    async with bench.server(deaf=1.0, delay=60.0, unlisted=3600.0, ahead=ahead) as server:
        went = await bench.run(server, no_wait=True)
        assert isinstance(went.halt, Later)
        owed = server.counts()["lines"]
        assert went.account.count("unconfirmed") == went.account.sent == owed
        assert went.account.unconfirmed > 0
        again = await bench.run(server, no_wait=True)
        assert isinstance(again.halt, Later) and server.counts()["lines"] == owed
        end_batches(server, BatchProfile(ahead=ahead))
        assert (await bench.whole(server)).account.unconfirmed == 0


A_DAY_LATER = BatchProfile(ahead=24 * 3600.0 + 300.0)
"""By the vendor's clock, which is what counts."""


async def test_what_the_vendor_never_lists_is_free_again_once_its_window_has_passed(
    bench, monkeypatch
):
    async def lost(*given: object) -> str:
        raise OutcomeUnknown("the connection was reset")

    async with bench.server() as server:
        with monkeypatch.context() as patched:
            patched.setattr(ENDPOINTS[bench.vendor], "create", lost)
            await bench.run(server, no_wait=True)
        out = await bench.run(server, no_wait=True)
        assert isinstance(out.halt, Later) and "lines" not in server.counts()
        server.desk.profile = A_DAY_LATER
        went = await bench.whole(server)
        assert (went.account.sent, went.account.unconfirmed) == (server.counts()["lines"], 0)


@pytest.mark.parametrize("fault", [Overloaded, OutcomeUnknown])
async def test_a_batch_of_somebody_else_is_neither_adopted_nor_cancelled(bench, monkeypatch, fault):
    """One as old and as large as ours, whose submission failed."""
    live = await bench.live()
    team = BatchBench(bench.folder / "team", bench.vendor, problems=3, first=9)

    async def failed(*given: object) -> str:
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
        seen = server.counts()
    assert (went.halt, went.bytes, theirs_again.halt) == (None, live.bytes, None)
    assert seen["lines_twice"] == seen.get("lines_cancelled", 0) == 0
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

    observer, seen = Lines(), []
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        shown, loaded = server.desk._shown, bench.loaded(server.url)
        sleep = loaded.stop_token.sleep

        async def looked(seconds: float) -> None:
            seen.append(observer.snapshot().models)
            if len(seen) == 3:
                monkeypatch.setattr(server.desk, "_shown", shown)
                end_batches(server, BatchProfile())
            await sleep(seconds)

        monkeypatch.setattr(loaded.stop_token, "sleep", looked)
        monkeypatch.setattr(server.desk, "_shown", lambda *given: shown(*given) | answer)
        went = await bench.run(server, loaded=loaded, observers=[observer])
        assert server.counts()["lines_twice"] == 0
    assert went.halt is None
    assert any(says in line for line in seen[1]), seen
    assert not any("waiting" in line for line in observer.snapshot().models)


async def test_results_that_stay_short_stop_the_run_and_nothing_is_asked_again(bench, monkeypatch):
    monkeypatch.setattr(batches, "NOT_FOUND_SECONDS", 0.0)
    async with bench.server(missing=0.4) as server:
        went = await bench.run(server)
        seen = server.counts()
    assert "Downloading again brought no more" in str(went.halt)
    assert seen["lines_missing"] > 0 == seen["lines_twice"]


async def test_a_batch_whose_id_was_never_noted_is_found_again_and_not_paid_twice(
    bench, monkeypatch
):
    """As a kill leaves it between the vendor's answer and the journal."""
    add = batch_journal.add_event

    def torn(run, kind, event):
        if "submitted" in event:
            raise RunFolderError("no room")
        add(run, kind, event)

    async with bench.server() as server:
        with monkeypatch.context() as patched:
            patched.setattr(batch_journal, "add_event", torn)
            stopped = await bench.run(server)
        assert isinstance(stopped.halt, StoreFailed)
        assert stopped.execution.awaited == "1 submission of 3 calls without an answer"
        assert stopped.account.count("unconfirmed") == server.counts()["lines"] == 3
        went = await bench.whole(server)
        assert (went.account.sent, went.account.unconfirmed) == (server.counts()["lines"], 0)


async def test_what_was_landed_and_not_entered_is_entered_once(bench):
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        end_batches(server)
        half = await bench.run(server, no_wait=True)
        assert isinstance(half.halt, Later)
        known = half.account
        # As a kill leaves it between the book and the ledger.
        (half.folder / "ledger").unlink()
        end_batches(server, BatchProfile())
        went = await bench.run(server)
        seen = server.counts()
    assert known.sent > 0
    assert went.account.sent == seen["lines"]
    assert went.account.accounts_added == seen["batches"]


async def test_a_stop_does_not_wait_for_a_vendor_that_never_answers(openai, monkeypatch):
    def silent(*request: object) -> bool:
        loaded.stop_token.stop(Interrupted(2))
        return True

    async with openai.server(delay=60.0) as server:
        loaded = openai.loaded(server.url)
        out = await openai.run(server, no_wait=True)
        monkeypatch.setattr(server.desk, "serve", silent)
        async with asyncio.timeout(PATIENCE):
            stopped = await openai.run(server, loaded=loaded)
    assert isinstance(stopped.halt, Interrupted)
    assert stopped.execution.awaited == out.execution.awaited


async def test_a_vendor_that_is_down_is_waited_for_once_and_not_for_each_batch(openai, monkeypatch):
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
    assert isinstance(down.halt, ProviderDown)
    # What is one wait too long is not slept any more.
    assert sum(waits) <= batches.GIVE_UP
    assert down.execution.awaited == out.execution.awaited
    with pytest.raises(ProviderDown, match="it asks to wait 2 hours"):
        endpoints.backoff(1, RateLimited("429", 7_200.0))


def test_batches_are_listed_and_cancelled_and_what_is_paid_is_kept(tmp_path, monkeypatch):
    desk = Desk(tmp_path, problems=1)
    with desk.server({"batch": {"delay": 3600.0}}) as url:
        assert desk.sit_here("--batch", "--no-wait").code == 3
        lines = counts(url)["lines"]
        listed = orjson.loads(desk.here("cache", "batches", "run", "--json").out)
        assert sum(each["lines"] for each in listed) == lines
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: listed[-1]["at"] + 7200.0)
            assert ", sent 2.0 h ago, $" in desk.here("cache", "batches", "run").out
        cancelled = desk.here("cache", "batches", "run", "--cancel")
        assert cancelled.code == 0, cancelled.err
        seen = counts(url)
        assert desk.here("cache", "batches", "run").out == "no batch is in flight\n"
        assert cancelled.out.startswith(f"{len(listed)} batches ended; the run has cost $")
        assert seen["lines_cancelled"] + seen["lines_ok"] == lines
        assert desk.account().sent == lines
        assert desk.account().stored == seen["lines_ok"]
        # The rest can still be asked live, and what was paid is not paid again.
        assert desk.sit_here().code == 0
        after = counts(url)
    assert after["repeats"] == 0
    assert after["lines"] == lines


async def test_a_line_that_will_never_be_served_fails_its_cell_as_it_would_live(bench):
    bench.problems = 6
    async with bench.server(errored=0.2) as server:
        went = await bench.run(server)
        seen = server.counts()
        assert went.halt is None
        failed = [record.failure for record in went.records if record.failure]
        assert failed
        assert {failure.kind for failure in failed} == {"UnknownFault"}
        said = f"{bench.vendor} says: 400"
        assert all(failure.message.startswith(said) for failure in failed)
        assert seen["lines_twice"] == 0
        assert went.account.count("failed") == seen["lines_errored"] > 0
        again = await bench.run(server)
        assert again.bytes == went.bytes
        assert server.counts()["lines"] == seen["lines"], "a fault was asked again, unbidden"
    live = await bench.live()
    async with bench.server() as server:
        mended = await bench.run(server, retry_failed=True)
        assert server.counts()["lines"] >= seen["lines_errored"]
    assert mended.bytes == live.bytes


async def test_a_line_that_nobody_can_read_is_asked_once_more_and_never_bought_three_times(bench):
    async with bench.server(garbled=0.4) as server:
        went = await bench.run(server)
        seen = server.counts()
        # What nobody can read may have been billed.
        assert went.account.count("unconfirmed") == seen["lines_garbled"] > 0
        assert went.account.unconfirmed > 0
        assert max(server.desk._times.values()) == 2
    failed = [record.failure.kind for record in went.records if record.failure]
    assert went.halt is None and set(failed) == {"Malformed"}
    assert "requests" not in seen


@pytest.mark.parametrize("fate", ["expired", "overloaded"])
async def test_a_call_that_no_batch_answers_fails_its_cell_after_eight(bench, fate):
    bench.problems = 1
    async with bench.server(**{fate: 1.0}) as server:
        went = await bench.run(server)
        assert went.halt is None and {*server.desk._times.values()} == {results.MAX_BATCHES}
    assert {record.failure.kind for record in went.records} == {"Overloaded"}


STOPS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"garbled": 1.0}, ProviderDown, "cannot be read"),
    ({"errored": 1.0}, AllRefused, "ended so"),
    ({"locked": True}, AuthenticationFailed, "401"),
    ({"fails": "billing_hard_limit_reached"}, QuotaExhausted, "billing_hard_limit_reached"),
    ({"fails": "invalid_json_line"}, BatchRefused, "invalid_json_line"),
]


@pytest.mark.parametrize(
    ("bench", "does", "halt", "says"),
    # OpenAI alone turns a batch down as a whole that it has taken.
    [(at, *each) for each in STOPS for at in MODELS if at == "openai" or "fails" not in each[0]],
    indirect=["bench"],
)
async def test_what_no_call_is_at_fault_for_stops_the_run_and_fails_no_cell(
    bench, monkeypatch, does, halt, says
):
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
            # What was out for the other model is collected first.
            went = await bench.run(server)
    assert (went.halt, went.bytes) == (None, live.bytes)


@pytest.mark.parametrize(
    ("says", "halt"),
    [
        ("Your credit balance is too low", QuotaExhausted),
        ("The model gpt-0 does not exist", ModelNotFound),
    ],
)
async def test_lines_that_say_that_no_call_will_be_served_stop_the_run(bench, says, halt):
    def answer(call: Call) -> Reply:
        raise InvalidRequest(says)

    async with bench.server() as server:
        answers, server._answer = server._answer, answer
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, halt)
        assert not stopped.records
        assert stopped.account.sent == server.counts()["lines_errored"]
        server._answer = answers
        went = await bench.run(server)
    assert went.halt is None
    assert not any(record.failure for record in went.records)


async def test_a_batch_that_the_vendor_has_lost_keeps_no_other_from_being_taken_home(
    bench, monkeypatch
):
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        await bench.run(server, no_wait=True)
        lost, kept = server.desk.batches
        owner, lost.owner = lost.owner, b"of another account"
        monkeypatch.setattr(batches, "NOT_FOUND_SECONDS", 0.0)
        end_batches(server, BatchProfile())
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, BatchRefused)
        told = f"the batch {lost.id} for a while: it was submitted with another key"
        assert told in str(stopped.halt)
        marks = {step["id"]: step["submitted"] for step in stopped.marks("submitted")}
        assert marks[kept.id] in [step["collected"] for step in stopped.marks("collected")]
        # In a folder of its own, on the same store, it is not waited for.
        (bench.folder / "anew-store").symlink_to(bench.folder / "run-store")
        anew = await bench.run(server, "anew")
        assert server.counts()["lines_twice"] == len(lost.lines)
        # With its key again it is collected.
        lost.owner = owner
        went = await bench.run(server)
        assert server.counts()["lines_twice"] == len(lost.lines)
    assert (went.halt, went.bytes) == (anew.halt, anew.bytes) == (None, live.bytes)
