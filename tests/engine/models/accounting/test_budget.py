"""P11: a budget is not exceeded by more than the worst case in flight; costs of answers."""

import asyncio
import random
from itertools import count

import pytest

from oversight.cache.reply import Usage
from oversight.engine import errors
from oversight.engine.display.text import dollars
from oversight.engine.extensions.mock import FaultKind
from oversight.engine.models.accounting.budget import Budget
from oversight.engine.models.accounting.ledger import Accounting, UsageTotals
from oversight.engine.models.accounting.prices import PriceList, listed
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.sender import Sender
from oversight.engine.stop import StopToken
from tests.lines import EACH_LINE, always, asked, rehearsed
from tests.server import Server, call_of, sender
from tests.virtual import now, run, virtually

MODEL = "openai/gpt-4o"
PRICE = listed().need(MODEL)


class Billing(Server):
    """A server that writes the bill: dollars for all that it answered."""

    @property
    def bill(self):
        return sum(
            listed().need(r.call.model).cost(Usage(r.input_tokens, r.output_tokens))
            for r in self.book
        )


def by_chance():
    """Usages of calls: about as long as they are estimated, and no longer than they may be."""
    rng = random.Random(5)

    def tokens(call):
        length = len(call.messages[0].text) / 4
        return round(length * rng.uniform(0.7, 1.4)), rng.randint(1, call.max_tokens)

    return tokens


def spend(server, budget, lanes=50, models=(MODEL,)):
    """Ask until the budget is reached; returns the Halts of the lanes, and the accounts."""

    async def main():
        stop_token, accounting = StopToken(), Accounting(listed(), budget)
        limits = Limits(concurrency=30)
        endpoints = [Sender(m, server, limits, stop_token, accounting, lambda: 0.5) for m in models]
        ends = []

        async def lane(n):
            model, endpoint = models[n % len(models)], endpoints[n % len(endpoints)]
            rng = random.Random(n)
            while True:
                try:
                    size, most = rng.randint(50, 4_000), rng.choice((50, 1_000))
                    await endpoint(call_of(size, n, most, model))
                except (errors.OutcomeUnknown, errors.UnrecognizedReply):
                    continue
                except errors.BudgetReached as halt:
                    ends.append(str(halt))
                    return

        async with asyncio.TaskGroup() as group:
            for n in range(lanes):
                group.create_task(lane(n))
        return ends, accounting.ledger.total()

    return run(main())


@pytest.mark.parametrize("cap", [0.5, 5.0])
@pytest.mark.parametrize("models", [(MODEL,), (MODEL, "openai/gpt-4o-mini", "openai/o3")])
def test_p11_the_bill_stays_below_the_cap_and_most_of_the_cap_is_used(cap, models):
    most = 0.0

    def watch(request):
        nonlocal most
        most = max(most, budget.spent + budget.reserved)

    server, budget = Billing(fault=watch, tokens=by_chance()), Budget(cap)
    ends, account = spend(server, budget, models=models)
    assert server.bill <= cap and 0.9 * cap < most <= cap
    # The rest would not have paid for the most expensive call.
    assert server.bill >= cap - PRICE.worst(1.5 * 4_000, 1_000)
    assert account.dollars == pytest.approx(server.bill)
    assert budget.spent == pytest.approx(server.bill) and budget.reserved == 0 and len(ends) == 50
    assert ends[0].startswith(f"budget reached: {dollars(server.bill)} of {dollars(cap)} are")


def test_p11_a_bill_above_max_tokens_is_reserved_for_from_then_on():
    """50 callers, and each bill is 20 times the worst case that was reserved for the first ones."""
    server = Billing(tokens=lambda call: (1_000, 20_000))
    bill = PRICE.cost(Usage(1_000, 20_000))
    spend(server, Budget(100 * bill))
    assert 70 * bill <= server.bill <= 100 * bill * (1 + 1e-9)


def test_p11_requests_that_may_have_been_billed_count_as_billed():
    rng = random.Random(6)

    def fault(request):
        faults = (
            errors.OutcomeUnknown("reset"),
            errors.UnrecognizedReply("odd"),
            errors.Overloaded("busy"),
        )
        return rng.choice((None, None, None, *faults))

    budget = Budget(3.0)
    _, account = spend(Billing(fault=fault, tokens=by_chance()), budget)
    assert 0 <= 3.0 - budget.spent <= PRICE.worst(1.5 * 4_000, 1_000)
    assert budget.unconfirmed == pytest.approx(account.unconfirmed) and account.unconfirmed > 0
    assert budget.spent == pytest.approx(account.dollars + account.unconfirmed)


def test_p11_replies_that_state_no_usage_count_at_their_worst_for_later_sessions_too():
    for cap in ((0.5, None), (None, 100_000.0)):
        budget = Accounting.capped(listed(), *cap).budget
        _, account = spend(Billing(tokens=lambda call: (0, 0)), budget)
        later = Accounting.capped(listed(), *cap, account).budget
        assert account.dollars == 0.0 < budget.spent == pytest.approx(later.spent)


def test_p11_a_call_that_costs_nothing_after_all_gives_its_dollars_back():
    n = count()
    server = Billing(
        latency=0.1, fault=lambda _: errors.RateLimited("429", 0.1) if next(n) % 2 else None
    )
    budget = Budget(0.05)
    ends, account = spend(server, budget, lanes=5)
    assert budget.spent == pytest.approx(account.dollars) and ends


@virtually
async def test_in_a_small_budget_calls_wait_for_each_other_instead_of_giving_up():
    # One call may cost $0.013, so that five fit at once; a call really costs $0.0004.
    server = Billing(tokens=lambda call: (100, 10))
    endpoint = sender(server, Limits(concurrency=100), model=MODEL, budget=Budget(0.07))
    async with asyncio.TaskGroup() as group:
        for n in range(100):
            group.create_task(endpoint(call_of(1_000, n, max_tokens=900)))
    assert len(server.answered) == 100 and 4 <= server.most_in_flight <= 7


@virtually
async def test_callers_wait_while_calls_in_flight_may_free_budget():
    server = Billing(latency=10.0, tokens=lambda call: (10, 1))
    budget = Budget(PRICE.worst(1.5 * 100, 1_000) * 1.5)
    endpoint, other = (sender(server, model=MODEL, budget=budget) for _ in "12")
    await asyncio.gather(endpoint(call_of(100, 1, 1_000)), other(call_of(100, 2, 1_000)))
    assert now() == pytest.approx(20)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await endpoint(call_of(100, 3, 1_000))
    with pytest.raises(errors.BudgetReached):
        await endpoint(call_of(100, 4, 1_000))


@virtually
async def test_costs_of_earlier_sessions_count():
    server = Billing()
    paid = UsageTotals((), (), Usage(300, 40), 0.5, 0.4999, 0)
    budget = Accounting.capped(listed(), 1.0, paid=paid).budget
    endpoint = sender(server, model=MODEL, budget=budget)
    with pytest.raises(errors.BudgetReached) as caught:
        await endpoint(call_of(1_000, max_tokens=1_000))
    assert server.book == []
    # 1,500 tokens at $2.50 a million and 1,000 at $10.
    assert str(caught.value) == (
        "budget reached: $0.9999 counted ($0.4999 of it unconfirmed) of $1.00 are spent and the "
        "next call may cost $0.0138 (oversight plan has the cost of all); to go on: --max-cost 2.00"
    )


def test_free_models_run_under_any_cap():
    model = "ollama/llama3.1:8b"
    free = sender(Billing(), model=model, budget=Budget(0.0))
    assert run(free(call_of(1_000, model=model))).text == "yes"


@pytest.mark.parametrize("spent", [0.0, 0.0032, 0.0171])
@pytest.mark.parametrize("cap", [0.004, 0.0149, 0.25, 1.006])
@pytest.mark.parametrize("worst", [0.0108, 0.3, 7.001])
def test_the_cap_that_is_advised_lets_the_next_call_out(spent, cap, worst):
    advised = float(Budget(cap, spent).reached(worst).rpartition("--max-cost ")[2])
    assert Budget(advised, spent).fits(worst)


async def charged(line: str, fault: FaultKind) -> tuple[float, float, float]:
    """Dollars of one call with `fault`: in the budget; paid and unconfirmed in the ledger."""
    call, budget, stop_token = asked(line), Budget(1.0), StopToken()
    accounting = Accounting(PriceList({call.model: PRICE}), budget)
    async with rehearsed(line, always(fault)) as (ask, server):
        endpoint = Sender(call.model, ask, Limits(), stop_token, accounting)
        try:
            await endpoint(call)
        except errors.EngineError as exc:
            assert stop_token.halt is None, exc
        assert server.counts()["requests"] == 1
    account = endpoint.page.account()
    assert budget.reserved == 0.0
    return budget.spent, account.dollars, account.unconfirmed


@pytest.mark.parametrize(
    "fault", [errors.KeyEchoed("echoed"), errors.UnrecognizedReply("odd"), errors.Halt("halted")]
)
@virtually
async def test_the_budget_and_the_ledger_agree_on_what_a_fault_costs(fault):
    """The worst case where a reply may have been billed, nothing where it was not."""
    call, budget = call_of(10), Budget(1.0)
    accounting = Accounting(PriceList({call.model: PRICE}), budget)
    asking = Sender(call.model, Server(fault=lambda _: fault), Limits(), StopToken(), accounting)
    with pytest.raises(type(fault)):
        await asking(call)
    account = asking.page.account()
    assert budget.spent == account.counted and (account.counted > 0) == (
        type(fault) is not errors.Halt
    )


@EACH_LINE
@pytest.mark.wire
async def test_cost_of_a_failed_call(line):
    """Nothing where no model read it, and what it took where the model refused or stopped oddly."""
    for fault in ("policy", "too_long"):
        assert await charged(line, fault) == (0.0, 0.0, 0.0)
    for fault in ("refusal", "unknown_stop"):
        spent, dollars, unconfirmed = await charged(line, fault)
        assert spent == dollars > 0.0 == unconfirmed
