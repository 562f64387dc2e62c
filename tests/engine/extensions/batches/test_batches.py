"""Runs in batches at both vendors: the bytes of a live run at half the price."""

from functools import partial

import pytest
from msgspec import structs

from oversight.cache.call import Call
from oversight.cache.reply import Reply, Usage
from oversight.engine.errors import BudgetReached, Later, RowsPaused, UsageError
from oversight.engine.extensions.batches.endpoints import AnthropicEndpoint, OpenAIEndpoint
from oversight.engine.extensions.mock import MockServer, Profile
from oversight.engine.extensions.mock.profile import BatchProfile
from oversight.engine.models.accounting.ledger import sum_usage
from oversight.engine.models.accounting.ledger_file import read_ledger
from oversight.engine.models.accounting.prices import listed
from tests.batches import DEPTH, MODELS, SWEEP, end_batches, passes
from tests.desk import Desk

pytestmark = pytest.mark.wire
SPOILED = ("cut", "empty", "html", "error", "no_file")


@pytest.mark.parametrize(
    ("does", "options"),
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
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
async def test_batches_give_the_outcomes_of_a_live_run_at_half_the_price(bench, does, options):
    live = await bench.live()
    async with bench.server(**does) as server:
        went = await bench.whole(server, **options)
        counted, account = server.counts(), went.account
    assert "requests" not in counted, "a call went live"
    assert passes(went) >= DEPTH and counted["lines_ok"] == live.account.stored
    # Each line is in the ledger once, with its result.
    lost = counted.get("lines_overloaded", 0) + counted.get("lines_expired", 0)
    assert (account.sent, account.stored) == (counted["lines"], counted["lines_ok"])
    assert (account.count("failed"), account.unconfirmed) == (lost, 0)
    assert sum(len(step["again"]) for step in went.marks("collected")) == lost
    assert account.usage == live.account.usage
    assert account.dollars == pytest.approx(live.account.dollars / 2)
    assert sum(cost.dollars or 0 for cost in went.costs.values()) == pytest.approx(account.dollars)
    assert went.calls.asked == account.stored, "passes repeat calls"
    most = max(step["submitting"]["lines"] for step in went.marks("submitting"))
    assert most <= options.get("lines", most)
    refused = [step["why"] for step in went.marks("cancelled") if "token_limit" in step["why"]]
    assert bool(refused) == ("batches_refused" in counted)
    # Only the journal remains.
    assert not list((went.folder / "batches").iterdir())


@pytest.mark.parametrize("batch", [True, False], ids=["in batches", "live"])
async def test_unreadable_row_is_paused_and_tried_again(openai, batch):
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
            failed.append(sum(bool(record.failure) for record in went.records))
            assert len(went.records) - failed[-1] == 16
    # A later session tries one more cell.
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
        counted = server.counts()
    assert (enough.halt, enough.bytes) == (None, live.bytes)
    assert passes(enough) == 1, "live calls are answered within a pass"
    assert (counted["lines_twice"], counted.get("repeats", 0)) == (0, 0)
    assert counted["lines"] > 0 < counted["ok"]
    assert enough.account.sent == counted["lines"] + counted["ok"]


async def test_live_call_above_the_cap_waits_for_batches(openai):
    judge, agent = MODELS["openai"]
    openai.text = SWEEP.format(agent, judge) + f"models:\n  {agent}: {{batch: true}}\n"
    async with openai.server(delay=3600.0) as server:
        session = partial(openai.run, server, batch=False, no_wait=True, lines=2, max_cost=0.0046)
        assert isinstance((await session()).halt, Later)
        server.desk.batches[0].ends = server.desk.batches[0].made
        # It leaves some room, but not enough for a judgement.
        assert isinstance((await session()).halt, Later)
        end_batches(server)
        assert isinstance((await session()).halt, BudgetReached)
        assert server.counts()["lines"] == server.counts()["lines_ok"]


async def test_batches_and_live_runs_reuse_each_others_replies(bench):
    async with bench.server() as server:
        await bench.run(server)
        (bench.folder / "other-store").symlink_to(bench.folder / "run-store")
        again = await bench.run(server, "other", batch=False)
        assert again.halt is None and "requests" not in server.counts()
        assert {(cost.origin, cost.at) for cost in again.costs.values()} == {("stored", None)}
        live = await bench.run(server, "live", batch=False)
        (bench.folder / "third-store").symlink_to(bench.folder / "live-store")
        before = server.counts()["lines"]
        await bench.run(server, "third")
        assert server.counts()["lines"] == before
    assert live.halt is None


async def test_batch_is_split_at_the_vendors_size_limit(bench, monkeypatch):
    for endpoint in (OpenAIEndpoint, AnthropicEndpoint):
        monkeypatch.setattr(endpoint, "most_bytes", 6_000)
    async with bench.server() as server:
        went = await bench.run(server)
        counted = server.counts()
    assert went.halt is None and counted["batches"] > DEPTH * 2
    assert counted["lines"] == counted["lines_ok"]


async def test_budget_reserves_the_worst_case_of_batches_at_half_the_price(bench):
    price = (await bench.live()).account.dollars / 2
    async with bench.server() as server:
        went = await bench.run(server, max_cost=0.6 * price)
        assert isinstance(went.halt, BudgetReached) and went.account.dollars <= 0.6 * price
        assert all(record.failure is None for record in went.records)
        counted = server.counts()["lines"]
        assert "batches" not in server.counts() or counted == went.account.sent
        enough = await bench.whole(server, max_cost=40 * price)
    assert enough.account.dollars == pytest.approx(price)


async def test_cost_above_the_worst_case_is_reserved_for_later_lines(openai):
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


async def test_batches_near_the_cap_are_smaller_and_sequential(bench):
    price = (await bench.live()).account.dollars / 2
    async with bench.server(delay=0.05) as server:
        free = await bench.run(server, "free")
        cap = price + max(step["submitting"]["worst"] for step in free.marks("submitting")) / 2
        went = await bench.run(server, max_cost=cap)
    assert went.halt is None or isinstance(went.halt, BudgetReached)
    assert went.account.dollars <= cap
    assert len(went.marks("submitting")) > len(free.marks("submitting"))


LOCAL = "ollama/llama3.1:8b"


@pytest.mark.parametrize(
    ("agent", "judge", "batch", "message"),
    [
        ("openai/gpt-4o", LOCAL, "", f"{LOCAL}: ollama has no batch endpoint; "),
        ("openai/gpt-4o", LOCAL, "true", r"s\.yaml:5: .*ollama has no batch endpoint"),
        ("openai/gpt-4o", LOCAL, "7", "7 is not true or false"),
        ("sim/strong", "sim/judge", "", "no model of this sweep can be asked in batches"),
    ],
)
async def test_models_without_batches_are_refused_by_name(openai, agent, judge, batch, message):
    openai.text = (
        f"agents: {agent}\njudges: {{kind: stated, model: '{judge}'}}\nprotocols: debate\n"
    )
    openai.text += f"models:\n  {judge}: {{batch: {batch}}}\n" if batch else ""
    with pytest.raises(UsageError, match=message):
        async with openai.server() as server:
            await openai.run(server)


async def test_batches_need_a_writable_store(openai):
    async with openai.server() as server:
        with pytest.raises(UsageError, match="--cache off does not write"):
            await openai.run(server, cache="off")


async def test_responses_calls_use_batches_of_that_endpoint(openai):
    openai.flags = ("providers.openai.api=responses",)
    async with openai.server() as server:
        await openai.whole(server)
        assert {batch.endpoint for batch in server.desk.batches} == {"/v1/responses"}
        assert "requests" not in server.counts()


def test_judges_are_probed_in_batches(tmp_path):
    desk = Desk(tmp_path, problems=1)
    words = ("measure", "probe", "run", "--store", "store", "--batch")
    with desk.vendor(batch={"delay": 3600.0}) as vendor:
        assert desk.sit_here().code == 0
        paid = vendor.server.counts()["requests"]
        unfinished = desk.here(*words, "--no-wait")
        assert unfinished.code == 3, unfinished.err
        end_batches(vendor.server, BatchProfile())
        for _ in range(2):
            probed = desk.here(*words)
            assert probed.code == 0, probed.err
        counted = vendor.server.counts()
    assert (counted["requests"], counted["lines_twice"]) == (paid, 0)
    account = sum_usage(read_ledger(desk.run / "probes").values())
    assert account.sent == account.stored == counted["lines"] > 0
