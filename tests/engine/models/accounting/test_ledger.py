"""P12: every request that the server saw is one line in the books, no more and no less."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from oversight.cache.reply import Reply, Usage
from oversight.engine import errors
from oversight.engine.models.accounting import ledger, ledger_file
from oversight.engine.models.accounting.ledger import (
    Latency,
    Ledger,
    Page,
    Stopwatch,
    UsageTotals,
    sum_usage,
)
from oversight.engine.models.accounting.ledger_file import (
    EVERY,
    LEDGER_FILE,
    SLOT,
    LedgerFile,
    read_ledger,
    write_uncollected,
)
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.stop import StopToken
from tests.server import Server, call_of, sender
from tests.sessions import sessions
from tests.tables import expressions
from tests.virtual import run, virtually

MODEL = "openai/gpt-4o"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "limits", [Limits(), Limits(requests=3_000, input_tokens=600_000, concurrency=40)]
)
@virtually
async def test_p12_stored_failed_and_unconfirmed_add_up_to_the_servers_requests(seed, limits):
    rng = random.Random(seed)

    def fault(request):
        return rng.choice(
            [None] * 12
            + [
                errors.Overloaded("503"), errors.RateLimited("429", 0.5),
                errors.Unreachable("refused"),
                errors.OutcomeUnknown("reset"), errors.Malformed("no reply", b"<html>"),
                errors.InvalidRequest("400"),
                errors.ContextLengthExceeded("context"),
                errors.UnrecognizedReply("a reason unknown here"),
            ]
        )  # fmt: skip

    server = Server(latency=0.5, fault=fault, tokens=lambda call: (300, 20))
    ledger, ends = Ledger(), []
    endpoint = sender(server, limits, random.Random(seed).random, model=MODEL, ledger=ledger)

    async def ask(n):
        try:
            await endpoint(call_of(300, n, model=MODEL))
            ends.append("answered")
        except errors.EngineError as exc:
            ends.append(type(exc).__name__)

    tasks = [asyncio.create_task(ask(n)) for n in range(400)]
    # A user who changes his mind: some wait, some are in flight, some are back already.
    await asyncio.sleep(3.3)
    for task in rng.sample(tasks, 130):
        task.cancel()
    await asyncio.wait(tasks)
    account = ledger.accounts()[MODEL]
    assert account.sent == len(server.book)
    assert account.stored == len(server.answered) == ends.count("answered")
    assert sum(map(account.count, ("failed", "unconfirmed"))) + account.stored == len(server.book)
    assert account.count("unsent") > 0
    assert account.usage == Usage(300 * account.stored, 20 * account.stored)
    price = listed().need(MODEL)
    assert account.dollars == pytest.approx(account.stored * price.cost(Usage(300, 20)))
    assert account.unconfirmed == pytest.approx(
        account.count("unconfirmed") * price.worst(1.5 * 300, 100)
    )


def entered(page: Page, *replies: Reply) -> list[tuple[float, float]]:
    """Dollars that each reply costs, and those that it may have cost."""
    sums = []
    for reply in replies:
        before = page.account()
        page.begun(0.25)
        page.reply(reply, 2.0, 0.25)
        after = page.account()
        more = after.dollars - before.dollars, after.unconfirmed - before.unconfirmed
        sums.append((round(more[0], 9), more[1]))
    return sums


def timed(seconds: list[float], tokens: int = 10) -> Latency:
    watch = Stopwatch()
    for duration in seconds:
        watch.reply(duration, tokens)
    return watch.latency()


@sessions(Path(__file__).with_name("ledger.md"))
def test_accounts_and_budgets_have_these_values(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = vars(ledger) | vars(ledger_file) | globals()
    session.check(request, expressions(names), names)


OTHER = "anthropic/claude-3-haiku"


async def asked(ledger: Ledger, model: str, times: int, latency: float = 0.01) -> None:
    metered = sender(Server(latency), ledger=ledger, model=model)
    for n in range(times):
        await metered(call_of(100, n, model=model))


@asynccontextmanager
async def out(ledger: Ledger) -> AsyncIterator[None]:
    """A request that is on the wire as long as the body runs, and is abandoned then."""
    waiting = asyncio.create_task(asked(ledger, MODEL, 1, latency=60.0))
    await asyncio.sleep(0)
    yield
    waiting.cancel()
    await asyncio.wait([waiting])


@asynccontextmanager
async def journal(folder: Path) -> AsyncIterator[Ledger]:
    """The ledger of a sitting, each request of which is entered in the folder."""
    ledger = Ledger()
    async with LedgerFile(folder, ledger.accounts).kept(StopToken(), ledger):
        yield ledger


async def sitting(folder, uses, stop_token: StopToken | None = None) -> UsageTotals:
    ledger = Ledger()
    accounts = LedgerFile(folder, ledger.accounts)
    async with accounts.kept(stop_token or StopToken()):
        for model, times in uses:
            await asked(ledger, model, times)
    return accounts.total()


def test_sittings_add_up_in_the_folder_model_by_model(tmp_path):
    first = run(sitting(tmp_path, [(MODEL, 3)]))
    second = run(sitting(tmp_path, [(MODEL, 2), (OTHER, 4)]))
    written = read_ledger(tmp_path)
    assert first.stored == 3
    assert {model: account.stored for model, account in written.items()} == {MODEL: 5, OTHER: 4}
    assert sum_usage(written.values()) == second and second.usage == Usage(900, 90)
    assert second.dollars > first.dollars > 0 and written[MODEL].latency.replies == 5


@virtually
async def test_a_killed_process_forgets_a_moment_at_most_and_counts_what_was_out(tmp_path):
    ledger = Ledger()
    async with LedgerFile(tmp_path, ledger.accounts).kept(StopToken()):
        await asked(ledger, MODEL, 5)
        async with out(ledger):
            await asyncio.sleep(1.1 * EVERY)
            left_behind = read_ledger(tmp_path)[MODEL]
    assert (left_behind.stored, left_behind.faults) == (5, (("unconfirmed", "Abandoned", 1),))
    assert left_behind.unconfirmed > 0 and left_behind.in_flight == 0
    async with out(ledger):
        async with LedgerFile(tmp_path, ledger.accounts).kept(StopToken()):
            pass
        ended = read_ledger(tmp_path)[MODEL]
    assert (ended.in_flight, ended.at_risk, ended.count("unconfirmed")) == (0, 0, 3)


@virtually
async def test_a_journal_knows_of_each_request_from_the_moment_it_leaves(tmp_path):
    async def broken(call):
        raise errors.ContextLengthExceeded("too long")

    async with journal(tmp_path) as ledger, out(ledger):
        first = read_ledger(tmp_path)[MODEL]
        await asked(ledger, MODEL, 3, latency=0.001)
        with pytest.raises(errors.ContextLengthExceeded):
            await sender(broken, ledger=ledger, model=MODEL)(call_of(100, 9, model=MODEL))
        at_once, truth = read_ledger(tmp_path)[MODEL], ledger.accounts()[MODEL]
        ledger.page(MODEL, None).count_unstated(70.0)
        await asyncio.sleep(1.1 * EVERY)
        noted, entered = read_ledger(tmp_path)[MODEL], ledger.accounts()[MODEL].cut_off()
    assert noted == entered and entered.unstated == 70.0
    assert (first.sent, first.faults) == (1, (("unconfirmed", "Abandoned", 1),))
    assert (at_once.stored, at_once.count("failed"), at_once.count("unconfirmed")) == (3, 1, 1)
    assert (at_once.usage, at_once.dollars) == (truth.usage, truth.dollars)
    assert at_once.unconfirmed == truth.at_risk > 0
    assert noted.faults == (("failed", "ContextLengthExceeded", 1), ("unconfirmed", "Abandoned", 1))
    assert [file.name for file in tmp_path.iterdir()] == [LEDGER_FILE]
    assert (tmp_path / LEDGER_FILE).stat().st_size < SLOT, "slots are for killed sittings"


@pytest.mark.parametrize("size", [0, 1, 60, 400, SLOT])
@virtually
async def test_a_torn_slot_keeps_the_values_saved_before(tmp_path, size):
    await sitting(tmp_path, [(OTHER, 2)])
    before = read_ledger(tmp_path)
    async with journal(tmp_path) as ledger:
        await asked(ledger, MODEL, 5)
        torn = (tmp_path / LEDGER_FILE).read_bytes()
    (tmp_path / LEDGER_FILE).write_bytes(torn[: len(torn) - SLOT + size])
    stands = {**before, MODEL: read_ledger(tmp_path)[MODEL]} if size >= 400 else before
    assert read_ledger(tmp_path) == stands
    assert size < 400 or stands[MODEL].stored == 5


@pytest.mark.parametrize(
    ("at", "stored", "late"), [(None, 5, 0), (None, 5, 2), (20, 3, 1), (200, 5, 0)]
)
@virtually
async def test_requests_since_the_last_save_count_and_a_changed_byte_loses_only_its_part(
    tmp_path, at, stored, late
):
    """Figures, of five replies, stand before what was noted of three, `late` more being out."""
    async with journal(tmp_path) as ledger:
        await asked(ledger, MODEL, 3)
        ends = asyncio.gather(*(asked(ledger, MODEL, 1, 1.2 * EVERY) for _ in range(late)))
        await asyncio.sleep(1.1 * EVERY)
        await ends
        await asked(ledger, MODEL, 2 - late)
        content = bytearray((tmp_path / LEDGER_FILE).read_bytes())
    if at is not None:
        content[len(content) - SLOT + 2 + len(MODEL) + at] ^= 1
    (tmp_path / LEDGER_FILE).write_bytes(content)
    account = read_ledger(tmp_path)[MODEL]
    assert (account.stored, account.latency.replies) == (stored, 0 if at == 200 else 3)


@virtually
async def test_uncollected_calls_outlive_sessions_and_count_as_unconfirmed(tmp_path):
    write_uncollected(tmp_path, {})
    assert read_ledger(tmp_path) == {}
    write_uncollected(tmp_path, {MODEL: (7, 1.5)})
    async with journal(tmp_path) as ledger, out(ledger):
        await asked(ledger, MODEL, 2)
    account, paid = read_ledger(tmp_path)[MODEL], LedgerFile(tmp_path, dict).total()
    assert (account.stored, account.count("unconfirmed"), paid.count("unconfirmed")) == (2, 8, 1)
    assert account.unconfirmed == 1.5 + paid.unconfirmed > 1.5
    write_uncollected(tmp_path, {})
    assert read_ledger(tmp_path)[MODEL] == paid


@virtually
async def test_a_journal_that_cannot_be_written_stops_the_run_and_so_does_a_last_note(tmp_path):
    stop_token, last = StopToken(), StopToken()
    ledger = Ledger()
    async with LedgerFile(tmp_path / "gone", ledger.accounts).kept(stop_token, ledger):
        await asked(ledger, MODEL, 1, latency=0.0)
        assert isinstance(stop_token.halt, errors.StoreFailed)
    await sitting(tmp_path / "gone", [(MODEL, 1)], last)
    assert isinstance(last.halt, errors.StoreFailed)


def test_a_run_of_simulated_models_has_no_ledger(tmp_path):
    assert run(sitting(tmp_path, [])).sent == 0 and not (tmp_path / LEDGER_FILE).exists()
    assert read_ledger(tmp_path) == {}


@pytest.mark.parametrize("count", [7, 5_000])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 0.99, 1.0])
def test_quantile_is_exact_within_its_bin(share, count):
    seconds = np.random.default_rng(0).lognormal(0.5, 1.2, count).tolist()
    exact = sorted(seconds)[int(np.ceil(share * count)) - 1]
    assert timed(seconds).quantile(share) == pytest.approx(exact, rel=2 ** (1 / 16) - 1 + 1e-9)


@virtually
async def test_a_reply_is_timed_from_its_request_on_and_a_fault_is_not():
    ledger, faults = Ledger(), iter([None, None, errors.Overloaded("503")])
    server = Server(2.0, fault=lambda request: next(faults, None))
    ask = sender(server, ledger=ledger, model="lab/x")
    for n in range(3):
        await ask(call_of(100, n, model="lab/x"))
    latency = ledger.accounts()["lab/x"].latency
    assert latency.replies == 3 and latency.seconds == pytest.approx(6.0)
    assert latency.quantile(0.99) == 2.0
