"""Lines and batches that fail: which cells fail with them, and what stops the run."""

import re

import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.errors import (
    AllRefused,
    AuthenticationFailed,
    BatchRefused,
    InvalidRequest,
    ModelNotFound,
    ProviderDown,
    QuotaExhausted,
)
from oversight.engine.extensions.batches import results
from oversight.engine.extensions.mock import rehearsed
from oversight.engine.extensions.mock.profile import BatchProfile
from oversight.engine.run.batch_terms import BatchTerms
from tests.batches import NO_WAIT, WAIT, BatchBench, end_batches, lines

pytestmark = pytest.mark.wire


async def test_a_line_that_will_never_be_served_fails_its_cell_as_it_would_live(
    bench: BatchBench,
) -> None:
    bench.problems = 6
    async with bench.server(errored=0.2) as server:
        went = await bench.run(server)
        seen = server.counts()
        assert went.halt is None
        failed = [record.failure for record in went.records if record.failure]
        assert failed
        assert {failure.kind for failure in failed} == {"BadCall"}
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


@pytest.mark.parametrize("fate", ["overloaded", "expired"])
async def test_a_line_without_a_reply_goes_out_again(bench: BatchBench, fate: str) -> None:
    live = await bench.live()
    async with bench.server(**{fate: 0.4}) as server:
        went = await bench.run(server, terms=WAIT)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert "requests" not in seen
    assert seen["lines_ok"] == live.account.stored
    assert lines(seen, fate) == sum(len(step["again"]) for step in went.marks("landed")) > 0
    assert went.account.sent == seen["lines"]
    assert went.account.count("failed") == lines(seen, fate)
    assert went.account.doubtful == 0


async def test_a_line_that_nobody_can_read_is_asked_once_more_and_never_bought_three_times(
    bench: BatchBench,
) -> None:
    async with bench.server(garbled=0.4) as server:
        went = await bench.run(server)
        seen = server.counts()
        # What nobody can read may have been billed.
        assert went.account.count("ambiguous") == seen["lines_garbled"] > 0
        assert went.account.doubtful > 0
        assert max(server.desk._times.values()) == 2
    failed = [record.failure.kind for record in went.records if record.failure]
    assert went.halt is None and set(failed) == {"Malformed"}
    assert "requests" not in seen


async def test_a_batch_whose_replies_cannot_be_read_stops_the_run_as_it_would_live(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_IN_A_ROW", bench.problems)
    live = await bench.live()
    async with bench.server(garbled=1.0) as server:
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, ProviderDown) and "cannot be read" in str(stopped.halt)
        assert not stopped.records
        server.desk.profile = BatchProfile()
        went = await bench.run(server)
        if went.halt is not None:
            # What was out for the other model is collected first.
            went = await bench.run(server)
    assert (went.halt, went.bytes) == (None, live.bytes)


async def test_a_line_that_three_batches_brought_no_reply_to_is_asked_live(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(expired=1.0) as server:
        went = await bench.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines"] == 3 * live.account.stored
    assert seen["ok"] == live.account.stored
    assert went.account.dollars == pytest.approx(live.account.dollars)


async def test_of_a_batch_that_expires_what_is_done_is_taken_and_the_rest_goes_out_again(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(expires=0.5) as server:
        went = await bench.run(server, terms=WAIT)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines_expired"] > 0
    assert seen["lines_ok"] == live.account.stored
    assert seen["lines_twice"] == 0


@pytest.mark.parametrize(
    ("code", "halt"),
    [
        ("billing_hard_limit_reached", QuotaExhausted),
        ("invalid_json_line", BatchRefused),
    ],
)
async def test_a_batch_that_is_turned_down_whole_stops_the_run_and_fails_no_cell(
    openai: BatchBench, code: str, halt: type[Exception]
) -> None:
    live = await openai.live()
    async with openai.server(fails=code) as server:
        stopped = await openai.run(server)
        assert isinstance(stopped.halt, halt)
        assert code in str(stopped.halt)
        assert not stopped.records
        server.desk.profile = BatchProfile()
        went = await openai.run(server)
    assert went.bytes == live.bytes


@pytest.mark.parametrize(
    ("says", "halt"),
    [
        ("Your credit balance is too low", QuotaExhausted),
        ("The model gpt-0 does not exist", ModelNotFound),
    ],
)
async def test_lines_that_say_that_no_call_will_be_served_stop_the_run(
    bench: BatchBench, says: str, halt: type[Exception]
) -> None:
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


async def test_a_batch_whose_every_line_is_refused_alike_stops_the_run(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_ALIKE", bench.problems)
    async with bench.server(errored=1.0) as server:
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, AllRefused)
        assert not stopped.records
        server.desk.profile = BatchProfile()
        assert (await bench.run(server)).halt is None


async def test_with_another_key_batches_are_not_to_be_seen_and_the_mend_is_told(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rehearsed.REHEARSAL_KEY
    async with bench.server(delay=60.0) as server:
        await bench.run(server, terms=NO_WAIT)
        monkeypatch.setattr(rehearsed, "REHEARSAL_KEY", "another")
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, BatchRefused)
        assert re.search(r"the batch \w+ for a while: it was handed in with another key",
                         str(stopped.halt))  # fmt: skip
        monkeypatch.setattr(rehearsed, "REHEARSAL_KEY", key)
        end_batches(server)
        server.desk.profile = BatchProfile()
        assert (await bench.run(server)).halt is None
        assert server.counts()["lines_twice"] == 0


async def test_a_batch_that_the_vendor_has_lost_keeps_no_other_from_being_taken_home(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(delay=60.0) as server:
        await bench.run(server, terms=NO_WAIT)
        lost, kept = server.desk.batches
        lost.owner = b"of an account that is gone"
        end_batches(server)
        server.desk.profile = BatchProfile()
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, BatchRefused)
        assert f"the batch {lost.id} " in str(stopped.halt)
        assert f"--give-up {lost.id}" in str(stopped.halt)
        assert kept.id in [step["landed"] for step in stopped.marks("landed")]
        await bench.run(server, terms=BatchTerms(cancels=(lost.id,)))
        went = await bench.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert went.account.count("ambiguous") == len(lost.lines)
    assert went.account.doubtful > 0
    assert seen["lines_ok"] == live.account.stored
    assert seen["lines_twice"] == len(lost.lines)


async def test_a_refused_key_stops_the_run(bench: BatchBench) -> None:
    async with bench.server(locked=True) as server:
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, AuthenticationFailed)
        assert not stopped.records
    async with bench.server() as server:
        assert (await bench.run(server)).halt is None
