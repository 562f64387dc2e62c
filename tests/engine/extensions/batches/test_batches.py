"""Runs in batches at both vendors: the bytes of a live run at half the price."""

from functools import partial

import orjson
import pytest
from msgspec import structs

from oversight.cache.call import Call
from oversight.cache.reply import Reply, Usage
from oversight.engine.errors import BudgetReached, Later, RowsPaused, UsageError
from oversight.engine.extensions.batches.endpoints import AnthropicEndpoint, OpenAIEndpoint
from oversight.engine.extensions.mock import MockServer, Profile
from oversight.engine.extensions.mock.process import counts
from oversight.engine.extensions.mock.profile import BatchProfile
from oversight.engine.models.accounting.ledger import sum_usage
from oversight.engine.models.accounting.ledger_file import read_ledger
from oversight.engine.models.accounting.prices import listed
from tests.batches import DEPTH, MODELS, SWEEP, end_batches, passes
from tests.desk import Desk

pytestmark = pytest.mark.wire
SPOILED = ("cut", "empty", "html", "error", "no_file")


@pytest.mark.parametrize(
    ("does", "asked"),
    [
        ({"delay": 0.2, "doubled": True}, {}),
        ({"lines": 4}, {"lines": 4}),
        ({"overloaded": 0.4}, {}),
        ({"expired": 0.4}, {}),
        ({"expires": 0.5}, {}),
        ({"unmade": 0.4, "flaky": 0.2}, {"lines": 5}),
        ({"enqueued": 2_500, "delay": 0.1}, {}),
        *(({"spoiled": how, "downloads": 2}, {}) for how in SPOILED),
        ({"stale": 3, "delay": 0.05}, {"lines": 4}),
        ({"denied": 3, "delay": 0.05}, {"lines": 4}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, dict) else "",
)
async def test_whatever_a_vendor_does_the_outcomes_are_those_of_a_live_run_at_half_its_dollars(
    bench, does, asked
):
    live = await bench.live()
    async with bench.server(**does) as server:
        went = await bench.whole(server, **asked)
        seen, account = server.counts(), went.account
    assert "requests" not in seen, "a call went live"
    assert passes(went) >= DEPTH
    assert seen["lines_ok"] == live.account.stored
    # Each line is in the ledger once, with what the vendor says of it.
    lost = seen.get("lines_overloaded", 0) + seen.get("lines_expired", 0)
    assert (account.sent, account.stored) == (seen["lines"], seen["lines_ok"])
    assert (account.count("failed"), account.unconfirmed) == (lost, 0)
    assert sum(len(step["again"]) for step in went.marks("collected")) == lost
    assert account.usage == live.account.usage
    assert account.dollars == pytest.approx(live.account.dollars / 2)
    assert sum(cost.dollars or 0 for cost in went.costs.values()) == pytest.approx(account.dollars)
    assert went.calls.asked == account.stored, "waves repeat calls"
    most = max(step["submitting"]["lines"] for step in went.marks("submitting"))
    assert most <= asked.get("lines", most)
    refused = [step["why"] for step in went.marks("cancelled") if "token_limit" in step["why"]]
    assert bool(refused) == ("batches_refused" in seen)
    # Nothing stays behind but the journal.
    assert not list((went.folder / "batches").iterdir())


@pytest.mark.parametrize("batch", [True, False], ids=["in batches", "live"])
async def test_a_row_that_is_never_readable_is_paused_and_tried_again(openai, batch):
    mute, judge = MODELS["openai"]
    openai.problems = 8
    openai.text = f"name: s\nprotocols: naive_judge\njudges: {{model: [{mute}, {judge}]}}\n"

    def says(call: Call) -> Reply:
        return Reply("no idea" if mute.endswith(f"/{call.model}") else "A: 80%\nB: 20%")

    async with MockServer(Profile(batch=BatchProfile()), says) as server:
        failed = []
        for _ in range(2):
            went = await openai.run(server, batch=batch)
            assert isinstance(went.halt, RowsPaused)
            failed.append(sum(bool(each.failure) for each in went.records))
            assert len(went.records) - failed[-1] == 16
    # A later session tries one cell more.
    assert 8 <= failed[0] == failed[1] - 1 < 15


async def test_live_calls_and_batches_share_one_budget(openai, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    live = await openai.live()
    # Speeches are asked live, judgements in batches.
    judge = MODELS["openai"][1]
    openai.text = SWEEP.format(*MODELS["openai"]) + f"models:\n  {judge}: {{batch: true}}\n"
    async with openai.server() as server:
        went = await openai.run(server, batch=False, max_cost=0.0005)
        assert isinstance(went.halt, BudgetReached)
        assert went.account.dollars + went.account.unconfirmed <= 0.0005
        enough = await openai.run(server, batch=False, max_cost=5.0)
        seen = server.counts()
    assert (enough.halt, enough.bytes) == (None, live.bytes)
    assert passes(enough) == 1, "what is asked live is answered within a wave"
    assert (seen["lines_twice"], seen.get("repeats", 0)) == (0, 0)
    assert seen["lines"] > 0 < seen["ok"]
    assert enough.account.sent == seen["lines"] + seen["ok"]


async def test_a_live_call_that_the_cap_has_no_room_for_waits_for_the_batches_that_are_out(openai):
    judge, agent = MODELS["openai"]
    openai.text = SWEEP.format(agent, judge) + f"models:\n  {agent}: {{batch: true}}\n"
    async with openai.server(delay=3600.0) as server:
        sitting = partial(openai.run, server, batch=False, no_wait=True, lines=2, max_cost=0.0046)
        assert isinstance((await sitting()).halt, Later)
        server.desk.batches[0].ends = server.desk.batches[0].made
        # It leaves some room, and a judgement takes more.
        assert isinstance((await sitting()).halt, Later)
        end_batches(server)
        assert isinstance((await sitting()).halt, BudgetReached)
        assert server.counts()["lines"] == server.counts()["lines_ok"]


async def test_what_is_asked_in_batches_is_not_asked_live_again_and_the_other_way_round(bench):
    async with bench.server() as server:
        await bench.run(server)
        (bench.folder / "other-store").symlink_to(bench.folder / "run-store")
        again = await bench.run(server, "other", batch=False)
        assert again.halt is None
        assert "requests" not in server.counts()
        assert {(cost.origin, cost.at) for cost in again.costs.values()} == {("stored", None)}
        live = await bench.run(server, "live", batch=False)
        (bench.folder / "third-store").symlink_to(bench.folder / "live-store")
        before = server.counts()["lines"]
        await bench.run(server, "third")
        assert server.counts()["lines"] == before
    assert live.halt is None


async def test_a_batch_is_cut_where_the_vendor_takes_no_more_bytes(bench, monkeypatch):
    for desk in (OpenAIEndpoint, AnthropicEndpoint):
        monkeypatch.setattr(desk, "most_bytes", 6_000)
    async with bench.server() as server:
        went = await bench.run(server)
        seen = server.counts()
    assert went.halt is None
    assert seen["batches"] > DEPTH * 2
    assert seen["lines"] == seen["lines_ok"]


async def test_a_budget_holds_back_the_worst_case_of_batches_at_half_the_price(bench):
    live = await bench.live()
    whole = live.account.dollars / 2
    async with bench.server() as server:
        went = await bench.run(server, max_cost=0.6 * whole)
        assert isinstance(went.halt, BudgetReached)
        assert went.account.dollars <= 0.6 * whole
        assert all(record.failure is None for record in went.records)
        seen = server.counts()["lines"]
        assert "batches" not in server.counts() or seen == went.account.sent
        enough = await bench.whole(server, max_cost=40 * whole)
    assert enough.account.dollars == pytest.approx(whole)


async def test_what_a_line_cost_above_its_worst_case_is_held_back_for_the_next(openai):
    usage = Usage(1_000, 100_000)
    bill = listed().need(MODELS["openai"][0]).deferred().cost(usage)
    # The first speech of each side of each problem fits, and one line more.
    cap = (2 * openai.problems + 1.5) * bill
    async with openai.server() as server:
        answers = server._answer
        server._answer = lambda call: structs.replace(answers(call), usage=usage)
        went = await openai.run(server, max_cost=cap)
    assert isinstance(went.halt, BudgetReached)
    assert 2 * openai.problems * bill < went.account.dollars <= cap


async def test_near_the_cap_batches_are_smaller_and_one_waits_for_the_other(bench):
    live = await bench.live()
    whole = live.account.dollars / 2
    async with bench.server(delay=0.05) as server:
        free = await bench.run(server, "free")
        worst = max(step["submitting"]["worst"] for step in free.marks("submitting"))
        cap = whole + worst / 2
        went = await bench.run(server, max_cost=cap)
    assert went.halt is None or isinstance(went.halt, BudgetReached)
    assert went.account.dollars <= cap
    assert len(went.marks("submitting")) > len(free.marks("submitting"))


LOCAL = "ollama/llama3.1:8b"


@pytest.mark.parametrize(
    ("agent", "judge", "batch", "told"),
    [
        ("openai/gpt-4o", LOCAL, "", f"{LOCAL}: ollama has no batch endpoint; "),
        ("openai/gpt-4o", LOCAL, "true", r"s\.yaml:5: .*ollama has no batch endpoint"),
        ("openai/gpt-4o", LOCAL, "7", "7 is not true or false"),
        ("sim/strong", "sim/judge", "", "no model of this sweep can be asked in batches"),
    ],
)
async def test_what_cannot_be_asked_in_batches_is_refused_by_name(
    openai, agent, judge, batch, told
):
    openai.text = (
        f"agents: {agent}\njudges: {{kind: stated, model: '{judge}'}}\nprotocols: debate\n"
    )
    openai.text += f"models:\n  {judge}: {{batch: {batch}}}\n" if batch else ""
    with pytest.raises(UsageError, match=told):
        async with openai.server() as server:
            await openai.run(server)


async def test_batches_need_a_store_that_is_written_to(openai):
    async with openai.server() as server:
        with pytest.raises(UsageError, match="--cache off does not write"):
            await openai.run(server, cache="off")


async def test_calls_over_the_responses_endpoint_go_in_batches_of_that_endpoint(openai):
    openai.flags = ("providers.openai.api=responses",)
    async with openai.server() as server:
        await openai.whole(server)
        assert {each.endpoint for each in server.desk.batches} == {"/v1/responses"}
        assert "requests" not in server.counts()


def test_wrong_answers_are_written_in_batches(tmp_path):
    desk = Desk(tmp_path, problems=1)
    rows = [{"question": f"How many are {n} and {n}?", "answer": str(2 * n)} for n in (2, 3)]
    (tmp_path / "known.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    with desk.server({"batch": {"delay": 0.1}}) as url:
        words = ("dataset", "generate", "known.jsonl", "--model", MODELS["openai"][0], "--drafts=2")
        for name, how in (("waves", ["--batch"]), ("live", [])):
            made = desk.here(*words, "-o", f"{name}.jsonl", "--store", name, *how)
            assert made.code == 0, made.err
        seen = counts(url)
    assert (tmp_path / "waves.jsonl").read_bytes() == (tmp_path / "live.jsonl").read_bytes()
    assert (seen["lines"], seen["lines_twice"]) == (seen["ok"], 0)


def test_judges_are_probed_in_batches(tmp_path):
    desk = Desk(tmp_path, problems=1)
    words = ("measure", "probe", "run", "--store", "store", "--batch")
    with desk.vendor(batch={"delay": 3600.0}) as vendor:
        assert desk.sit_here().code == 0
        paid = vendor.server.counts()["requests"]
        left = desk.here(*words, "--no-wait")
        assert left.code == 3, left.err
        end_batches(vendor.server, BatchProfile())
        for _ in range(2):
            probed = desk.here(*words)
            assert probed.code == 0, probed.err
        seen = vendor.server.counts()
    assert (seen["requests"], seen["lines_twice"]) == (paid, 0)
    account = sum_usage(read_ledger(desk.run / "probes").values())
    assert account.sent == account.stored == seen["lines"] > 0
