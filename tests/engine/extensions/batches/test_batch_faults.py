"""Lines and batches that fail: which cells fail with them, and what stops the run."""

import re
from typing import Any

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
from tests.batches import MODELS, NO_WAIT, end_batches

pytestmark = pytest.mark.wire


async def test_a_line_that_will_never_be_served_fails_its_cell_as_it_would_live(bench):
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


async def test_a_line_that_nobody_can_read_is_asked_once_more_and_never_bought_three_times(bench):
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


async def test_a_line_that_three_batches_brought_no_reply_to_is_asked_live(bench):
    live = await bench.live()
    async with bench.server(expired=1.0) as server:
        went = await bench.run(server)
        seen = server.counts()
    assert (went.halt, went.bytes) == (None, live.bytes)
    assert seen["lines"] == 3 * live.account.stored
    assert seen["ok"] == live.account.stored
    assert went.account.dollars == pytest.approx(live.account.dollars)


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


async def test_with_another_key_batches_are_not_to_be_seen_and_the_mend_is_told(bench, monkeypatch):
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


async def test_a_batch_that_the_vendor_has_lost_keeps_no_other_from_being_taken_home(bench):
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
