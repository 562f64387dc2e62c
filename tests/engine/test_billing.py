"""What answers that are no ordinary replies cost, over both wires and both transports."""

import pytest

from engine.books.budget import Budget
from engine.books.ledger import Ledger
from engine.books.prices import PriceList, listed
from engine.errors import EngineError
from engine.limits.endpoint import Books, Endpoint
from engine.limits.latch import Latch
from engine.limits.limits import Limits
from engine.rehearsal import Fault
from tests.lines import EACH_LINE, always, asked, rehearsed

pytestmark = EACH_LINE


def prices(model: str) -> PriceList:
    known = listed().need("openai/gpt-4o")
    return PriceList({model: known})


async def charged(line: str, fault: Fault) -> tuple[float, float, float]:
    """Dollars for one call that meets `fault`: in the budget; paid and doubtful in the ledger."""
    call, budget, latch = asked(line), Budget(1.0), Latch()
    books = Books(Ledger(), prices(call.model), budget)
    async with rehearsed(line, always(fault)) as (ask, server):
        endpoint = Endpoint(call.model, ask, Limits(), latch, books)
        try:
            await endpoint(call)
        except EngineError as exc:
            assert latch.halt is None, exc
        assert server.counts()["requests"] == 1
    account = endpoint.account()
    assert budget.reserved == 0.0
    return budget.spent, account.dollars, account.doubtful


@pytest.mark.parametrize("fault", ["policy", "too_long"])
async def test_what_is_turned_down_before_a_model_reads_it_costs_nothing(
    line: str, fault: Fault
) -> None:
    assert await charged(line, fault) == (0.0, 0.0, 0.0)


async def test_a_refusal_of_the_models_own_costs_what_it_took(line: str) -> None:
    spent, dollars, doubtful = await charged(line, "refusal")
    assert spent == dollars > 0.0 == doubtful


async def test_a_paid_answer_that_cannot_be_read_counts_at_its_worst(line: str) -> None:
    spent, dollars, doubtful = await charged(line, "unknown_stop")
    assert spent == pytest.approx(doubtful)
    assert spent > 0.0 == dollars
