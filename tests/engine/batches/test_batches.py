"""Runs in batches, whole, at both vendors' desks: whatever goes wrong there, the same bytes."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.batches import dispatch, session
from oversight.engine.batches.anthropic_endpoint import AnthropicEndpoint
from oversight.engine.batches.endpoint import Caps
from oversight.engine.batches.openai_endpoint import OpenAIEndpoint
from oversight.engine.batches.terms import BatchTerms
from oversight.engine.errors import (
    AllRefused,
    AuthenticationFailed,
    BatchesOut,
    BatchRefused,
    BudgetReached,
    Interrupted,
    InvalidRequest,
    ModelNotFound,
    QuotaExhausted,
    UsageError,
)
from oversight.engine.rehearsal import rehearsed
from oversight.engine.rehearsal.profile import BatchProfile
from oversight.engine.runs.run_folder import RunFolder
from oversight.engine.sweeps.sweep import Cell
from tests.batches import BATCHED, MODELS, SWEEP, BatchBench, lines, stopped_once_out, waves

pytestmark = pytest.mark.wire

DEPTH = 3
"""Waves of the sweep: two speeches one after the other, and the verdict."""
WAIT = replace(BATCHED, then="wait")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vendors take hours; this server takes none."""
    monkeypatch.setattr(dispatch, "SETTLE", 0.05)
    monkeypatch.setattr(session, "MIN_POLL", 0.01)
    monkeypatch.setattr(dispatch, "MAX_WAIT", 0.05)


@pytest.fixture(params=["openai", "anthropic"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> BatchBench:
    return BatchBench(tmp_path, request.param)


@pytest.fixture
def openai(tmp_path: Path) -> BatchBench:
    return BatchBench(tmp_path)


async def test_batches_bring_the_bytes_of_a_live_run_at_half_its_dollars(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(delay=0.2, doubled=True) as server:
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert "requests" not in seen, "a call went live"
    assert waves(went) == DEPTH
    assert seen["lines"] == seen["lines_ok"] == live.account.stored
    account = went.account
    assert account.sent == account.stored == seen["lines"]
    assert account.batches == seen["batches"]
    assert account.usage == live.account.usage
    assert account.dollars == pytest.approx(live.account.dollars / 2)
    # Nothing stays behind but the journal.
    assert [file.name for file in (went.folder / "batches").iterdir()] == ["book.jsonl"]


async def test_what_is_asked_in_batches_is_not_asked_live_again_and_the_other_way_round(
    bench: BatchBench,
) -> None:
    async with bench.server() as server:
        await bench.run(server)
        (bench.folder / "other-store").symlink_to(bench.folder / "run-store")
        again = await bench.run(server, "other", BatchTerms())
        assert again.halt is None
        assert "requests" not in server.counts()
        live = await bench.run(server, "live", BatchTerms())
        (bench.folder / "third-store").symlink_to(bench.folder / "live-store")
        before = server.counts()["lines"]
        await bench.run(server, "third")
        assert server.counts()["lines"] == before
    assert live.halt is None


async def test_more_calls_than_a_batch_holds_are_cut_into_several(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(lines=4) as server:
        went = await bench.run(server, terms=replace(BATCHED, max_lines=4))
        seen = server.counts()
    assert went.bytes == live.bytes
    assert seen["batches"] > DEPTH * 2
    assert seen["lines_twice"] == 0
    assert all(step["intend"]["lines"] <= 4 for step in went.marks("intend"))


async def test_a_batch_is_cut_where_the_vendor_takes_no_more_bytes(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for desk in (OpenAIEndpoint, AnthropicEndpoint):
        monkeypatch.setattr(desk, "caps", Caps(50_000, 6_000))
    async with bench.server() as server:
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert seen["batches"] > DEPTH * 2
    assert seen["lines"] == seen["lines_ok"]


async def test_a_full_queue_is_waited_for_and_batches_get_smaller(openai: BatchBench) -> None:
    live = await openai.live()
    async with openai.server(enqueued=2_500, delay=0.1) as server:
        went = await openai.run(server)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["batches_refused"] > 0
    assert seen["lines"] == seen["lines_ok"] == live.account.stored
    assert went.marks("room"), "what was found out of the queue is kept"
    assert went.account.sent == seen["lines"]


async def test_a_line_that_will_never_be_served_fails_its_cell_as_it_would_live(
    bench: BatchBench,
) -> None:
    bench.problems = 12
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


@pytest.mark.parametrize("fate", ["overloaded", "expired", "missing", "garbled"])
async def test_a_line_without_a_reply_goes_out_again(bench: BatchBench, fate: str) -> None:
    live = await bench.live()
    async with bench.server(**{fate: 0.4}) as server:
        went = await bench.run(server, terms=WAIT)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert "requests" not in seen
    assert seen["lines_ok"] == live.account.stored
    assert lines(seen, fate) == sum(len(step["again"]) for step in went.marks("landed")) > 0
    assert went.account.sent == seen["lines"]
    # Of which nobody says a word, or what nobody can read, may have been billed.
    doubtful = fate in ("missing", "garbled")
    count = went.account.count("ambiguous" if doubtful else "failed")
    assert count == lines(seen, fate)
    assert (went.account.doubtful > 0) == doubtful


async def test_a_line_that_three_batches_brought_no_reply_to_is_asked_live(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(expired=1.0) as server:
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
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
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["lines_expired"] > 0
    assert seen["lines_ok"] == live.account.stored
    assert seen["lines_twice"] == 0


async def test_a_stop_while_waiting_leaves_batches_there_and_the_same_command_takes_them(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(delay=0.4) as server:
        stopped = await stopped_once_out(bench, server)
        assert isinstance(stopped.halt, Interrupted)
        assert stopped.session.awaited == f"2 batches of {server.counts()['lines']} calls"
        assert stopped.account.sent == 0, "what is out is not paid yet"
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["lines_twice"] == 0
    assert went.account.sent == seen["lines"]


async def test_whoever_does_not_wait_hands_in_and_goes_home(bench: BatchBench) -> None:
    live = await bench.live()
    gone = replace(BATCHED, waits=False)
    async with bench.server(delay=0.2) as server:
        sittings = 0
        while isinstance((went := await bench.run(server, terms=gone)).halt, BatchesOut):
            sittings += 1
            await asyncio.sleep(0.25)
        seen = server.counts()
    assert went.halt is None
    assert sittings == DEPTH
    assert went.bytes == live.bytes
    assert seen["lines_twice"] == 0
    assert went.account.sent == seen["lines"]


async def test_a_run_goes_home_with_what_is_out_though_it_is_live_by_now(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(delay=0.2) as server:
        await bench.run(server, terms=replace(BATCHED, waits=False))
        out = server.counts()["lines"]
        went = await bench.run(server, terms=BatchTerms())
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["lines"] == out == seen["lines_ok"]
    assert seen["ok"] + out == live.account.stored


async def test_what_no_cell_waits_for_any_more_is_cancelled_and_counted(bench: BatchBench) -> None:
    async with bench.server(delay=5.0) as server:
        await bench.run(server, terms=replace(BATCHED, waits=False))
        out = server.counts()["lines"]
        (bench.folder / "other-store").symlink_to(bench.folder / "run-store")
        await bench.run(server, "other", BatchTerms())
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert not went.session.awaited
    assert seen["lines"] == out == seen.get("lines_ok", 0) + seen["lines_cancelled"]
    assert went.account.sent == out
    assert went.account.stored == seen.get("lines_ok", 0)


async def test_when_patience_ends_batches_are_cancelled_before_anything_is_asked_live(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(delay=30.0) as server:
        began = time.monotonic()
        went = await bench.run(server, terms=replace(BATCHED, patience=6.0))
        seen = server.counts()
    assert time.monotonic() - began < 25
    assert went.halt is None
    assert went.bytes == live.bytes
    # A fifth was done when it was cancelled; nothing is paid twice.
    assert 0 < seen["lines_ok"] < seen["lines"]
    assert seen["lines_ok"] + seen["lines_cancelled"] == seen["lines"]
    assert seen["lines_ok"] + seen["ok"] == live.account.stored


async def test_a_budget_holds_back_the_worst_case_of_batches_at_half_the_price(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    whole = live.account.dollars / 2
    async with bench.server() as server:
        went = await bench.run(server, max_cost=0.6 * whole)
        assert isinstance(went.halt, BudgetReached)
        assert went.account.dollars <= 0.6 * whole
        assert all(record.failure is None for record in went.records)
        seen = server.counts()["lines"]
        assert "batches" not in server.counts() or seen == went.account.sent
        enough = await bench.run(server, max_cost=40 * whole)
        assert server.counts()["lines_twice"] == 0
    assert enough.halt is None
    assert enough.bytes == live.bytes
    assert enough.account.dollars == pytest.approx(whole)


async def test_near_the_cap_batches_are_smaller_and_one_waits_for_the_other(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    whole = live.account.dollars / 2
    async with bench.server(delay=0.05) as server:
        free = await bench.run(server, "free")
        worst = max(step["intend"]["worst"] for step in free.marks("intend"))
        cap = whole + worst / 2
        went = await bench.run(server, max_cost=cap)
    assert went.halt is None or isinstance(went.halt, BudgetReached)
    assert went.account.dollars <= cap
    assert len(went.marks("intend")) > len(free.marks("intend"))


async def test_a_batch_that_was_made_though_the_answer_was_lost_is_found(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(deaf=1.0, delay=0.1) as server:
        # Other batches of the account, of other sizes.
        other = replace(BATCHED, max_lines=1)
        await BatchBench(bench.folder / "another", bench.vendor, first=5).run(server, terms=other)
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["lines_twice"] == 0


async def test_a_batch_that_was_not_made_is_handed_in_again(bench: BatchBench) -> None:
    live = await bench.live()
    async with bench.server(unmade=0.4, flaky=0.2) as server:
        went = await bench.run(server, terms=replace(BATCHED, max_lines=5))
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["lines_twice"] == 0
    assert seen["lines"] == seen["lines_ok"] == went.account.sent


async def test_another_batch_of_the_same_size_is_not_taken_for_one_that_was_never_made(
    tmp_path: Path,
) -> None:
    bench = BatchBench(tmp_path, "anthropic", problems=2)
    async with bench.server(delay=0.3) as server:
        stopped = await stopped_once_out(bench, server)
        # As a kill leaves it between the intention and the request.
        journal = stopped.folder / "batches" / "book.jsonl"
        journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
        mark = stopped.marks("intend")[0]["intend"]["mark"]
        calls = journal.with_name(f"{mark}.calls")
        theirs = calls.read_bytes()
        # What stands at the vendor is of other calls, as many: ours are those of other draws.
        calls.write_bytes(theirs.replace(b'"draw":[0', b'"draw":[7'))
        went = await bench.run(server)
    assert went.marks("foreign")
    assert went.marks("dropped")
    assert went.halt is None
    assert not any(record.failure for record in went.records)


async def test_what_was_landed_and_not_entered_is_entered_once(bench: BatchBench) -> None:
    async with bench.server(delay=0.2) as server:
        gone = replace(BATCHED, waits=False)
        await bench.run(server, terms=gone)
        await asyncio.sleep(0.25)
        half = await bench.run(server, terms=gone)
        assert isinstance(half.halt, BatchesOut)
        known = half.account
        # As a kill leaves it between the book and the ledger.
        (half.folder / "ledger.json").unlink()
        await asyncio.sleep(0.25)
        went = await bench.run(server)
        seen = server.counts()
    assert known.sent > 0
    assert went.account.sent == seen["lines"]
    assert went.account.batches == seen["batches"]


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


async def test_a_batch_whose_every_line_is_refused_alike_stops_the_run(bench: BatchBench) -> None:
    bench.problems = 24
    async with bench.server(errored=1.0) as server:
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, AllRefused)
        assert not stopped.records
        server.desk.profile = BatchProfile()
        assert (await bench.run(server)).halt is None


async def test_with_another_key_batches_are_not_to_be_seen_and_the_mend_is_told(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.server(delay=0.2) as server:
        await bench.run(server, terms=replace(BATCHED, waits=False))
        monkeypatch.setattr(rehearsed, "REHEARSAL_KEY", "another")
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, BatchRefused)
        id = stopped.marks("submitted")[0]["id"]
        assert f"The batch {id} was handed in with another key" in str(stopped.halt)
        monkeypatch.undo()
        monkeypatch.setattr(session, "MIN_POLL", 0.01)
        assert (await bench.run(server)).halt is None
        assert server.counts()["lines_twice"] == 0


async def test_a_batch_that_the_vendor_has_lost_keeps_no_other_from_being_taken_home(
    bench: BatchBench,
) -> None:
    live = await bench.live()
    async with bench.server(delay=0.2) as server:
        await bench.run(server, terms=replace(BATCHED, waits=False))
        lost, kept = list(server.desk.batches)
        lost.owner = b"of an account that is gone"
        await asyncio.sleep(0.25)
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, BatchRefused)
        assert f"The batch {lost.id} " in str(stopped.halt)
        assert [step["landed"] for step in stopped.marks("landed")] == [kept.id]
        # As the fault says.
        (stopped.folder / "batches").rename(bench.folder / "aside")
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["lines_ok"] == live.account.stored
    assert seen["lines_twice"] == len(lost.lines)


async def test_a_refresh_asks_for_each_call_once_more(bench: BatchBench) -> None:
    async with bench.server() as server:
        first = await bench.run(server)
        seen, second = server.counts(), int(time.time())
        while int(time.time()) == second:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # what was stored in this second counts as refreshed
        (bench.folder / "other-store").symlink_to(bench.folder / "run-store")
        again = await bench.run(server, "other", mode="refresh")
        assert again.halt is None
        assert server.counts()["lines"] == 2 * seen["lines"]
    assert again.account.sent == first.account.sent


async def test_a_model_that_is_asked_live_answers_within_the_walks(bench: BatchBench) -> None:
    judge = MODELS[bench.vendor][1]
    live = await bench.live()
    bench.text = SWEEP.format(*MODELS[bench.vendor]) + f"models:\n  {judge}: {{batch: false}}\n"
    async with bench.server() as server:
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
    assert seen["ok"] + seen["lines_ok"] == live.account.stored
    assert waves(went) == DEPTH - 1


async def test_what_cannot_be_asked_in_batches_is_refused_by_name(tmp_path: Path) -> None:
    bench = BatchBench(
        tmp_path,
        text="""\
agents: {model: openai/gpt-4o}
judges: {kind: stated, model: "ollama/llama3.1:8b"}
protocols: {debate: {rounds: 1}}
""",
    )
    async with bench.server() as server:
        with pytest.raises(UsageError, match=r"ollama/llama3.1:8b: ollama takes no batches here; "):
            await bench.run(server)
        bench.text += "models:\n  ollama/llama3.1:8b: {batch: true}\n"
        with pytest.raises(UsageError, match=r"s\.yaml:5: .*ollama takes no batches here"):
            bench.loaded(server.url)
        bench.text = bench.text.replace("true", "7")
        with pytest.raises(UsageError, match=r"7 is not true or false"):
            bench.loaded(server.url)
        bench = BatchBench(
            tmp_path,
            text="""\
agents: {model: sim/strong}
judges: sim/judge
protocols: {debate: {rounds: 1}}
""",
        )
        with pytest.raises(UsageError, match=r"no model of this sweep can be asked in batches"):
            await bench.run(server)
        with pytest.raises(UsageError, match=r"--cache off does not write"):
            await BatchBench(tmp_path).run(server, mode="off")
        assert "batches" not in server.counts()


async def test_a_refused_key_stops_the_run(bench: BatchBench) -> None:
    async with bench.server(locked=True) as server:
        stopped = await bench.run(server)
        assert isinstance(stopped.halt, AuthenticationFailed)
        assert not stopped.records
    async with bench.server() as server:
        assert (await bench.run(server)).halt is None


async def test_a_run_that_may_have_told_enough_goes_problem_by_problem(bench: BatchBench) -> None:
    live = await bench.live()

    def one_by_one(folder: RunFolder) -> Iterator[Iterator[Cell]]:
        grid = bench.loaded("http://127.0.0.1:1").sweep
        for number in range(2):
            yield (cell for cell in grid.cells_of(number) if not folder.has(cell.place))

    async with bench.server() as server:
        went = await bench.run(server, batches=one_by_one)
        assert len(went.records) == 2 * len(live.records) // 3
        assert waves(went) == 2 * DEPTH
        assert not went.session.awaited
        rest = await bench.run(server)
        assert server.counts()["lines_twice"] == 0
    assert rest.bytes == live.bytes


async def test_calls_over_the_responses_endpoint_go_in_batches_of_that_endpoint(
    openai: BatchBench,
) -> None:
    openai.flags = ("providers.openai.api=responses",)
    live = await openai.live()
    async with openai.server() as server:
        went = await openai.run(server)
        assert {each.endpoint for each in server.desk.batches} == {"/v1/responses"}
        assert "requests" not in server.counts()
    assert went.halt is None
    assert went.bytes == live.bytes
