"""Why nothing moves, told: last fault, oldest request, proxies, and one complaint of all calls."""

import asyncio
from dataclasses import replace

import pytest

from oversight.engine.errors import (
    AllRefused,
    InvalidRequest,
    NeverAnswered,
    Overloaded,
    ProviderDown,
    Unreachable,
    UsageError,
)
from oversight.engine.models.limits.halts import MAX_ALIKE
from oversight.engine.models.limits.limits import Limits
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.keys import settings_of
from oversight.engine.providers.settings import Settings
from tests.server import Server, call_of, sender
from tests.sittings import Bench, Vendor, opinion
from tests.virtual import run


def shown_at(server, at):
    """The statistics after `at` seconds of three calls."""

    async def main():
        retry = sender(server, jitter=lambda: 0.0)
        asks = [asyncio.create_task(retry(call_of(10, n))) for n in range(3)]
        await asyncio.sleep(at)
        shown = str(retry.limiter.statistics())
        for ask in asks:
            ask.cancel()
        await asyncio.wait(asks)
        return shown

    return run(main())


def test_the_last_fault_is_shown_while_nothing_is_answered():
    dns = "lab: no connection to lab.invalid: Name or service not known"
    server = Server(latency=0.01, fault=lambda request: Unreachable(dns))
    assert f"last fault: {dns}" in shown_at(server, 20)


def test_a_fault_is_not_shown_once_something_was_answered():
    faults = iter([Unreachable("nobody there")])
    server = Server(latency=0.01, fault=lambda request: next(faults, None))
    assert "nobody" not in shown_at(server, 20)


def test_the_age_of_the_oldest_request_is_shown_while_nothing_is_answered():
    assert "the oldest request is open for 60 s" in shown_at(Server(latency=600.0), 60)
    assert "oldest" not in shown_at(Server(latency=600.0), 3)
    assert "oldest" not in shown_at(Server(latency=1.0), 60)


def test_a_long_fault_of_many_lines_is_clipped_to_one():
    server = Server(latency=0.01, fault=lambda request: Unreachable("no\n\nroute " + "x" * 5_000))
    shown = shown_at(server, 20)
    assert "no route xxx" in shown
    assert "\n" not in shown
    assert len(shown) < 300


def test_one_request_that_hangs_does_not_hold_back_all_others():
    """Sporadic overloads narrow what is in flight, and one call in it never comes back."""

    async def main():
        server = Server(
            latency=0.1,
            fault=lambda request: Overloaded("busy") if len(server.book) % 4 == 1 else None,
        )
        hung = asyncio.Event()

        async def ask(call):
            if call.draw == (40,):
                await hung.wait()
            return await server(call)

        retry = sender(ask, Limits(concurrency=20), lambda: 0.0)
        asks = [asyncio.create_task(retry(call_of(10, n))) for n in range(200)]
        await asyncio.sleep(300)
        done = sum(ask.done() for ask in asks)
        hung.set()
        await asyncio.gather(*asks)
        return done

    assert run(main()) == 199


async def fails_alike(server, calls):
    """(kinds of what came, requests that were sent, the stop token's Halt)."""
    retry = sender(server, Limits(concurrency=5))
    gate, kinds = asyncio.Semaphore(5), []

    async def ask(n):
        async with gate:
            try:
                await retry(call_of(10, n))
            except (InvalidRequest, AllRefused) as exc:
                kinds.append(type(exc))

    await asyncio.gather(*(ask(n) for n in range(calls)))
    return kinds, len(server.book), retry.limiter.stop_token.halt


def test_a_model_of_which_every_call_fails_alike_is_stopped_after_twenty():
    server = Server(
        fault=lambda request: InvalidRequest(f"400: top_p in request {len(server.book)}")
    )
    kinds, sent, halt = run(fails_alike(server, 500))
    assert isinstance(halt, AllRefused)
    assert "400: top_p in request" in str(halt)
    assert "Fix what it names" in str(halt)
    assert MAX_ALIKE <= sent <= MAX_ALIKE + 5
    assert InvalidRequest not in kinds
    assert NeverAnswered in kinds


def test_failures_of_many_causes_or_after_an_answer_stop_nothing():
    server = Server(fault=lambda request: InvalidRequest("400: " + "x" * len(server.book)))
    kinds, sent, halt = run(fails_alike(server, 60))
    assert (sent, halt) == (60, None)
    server = Server(
        fault=lambda request: InvalidRequest("400: no") if len(server.book) > 5 else None
    )
    kinds, sent, halt = run(fails_alike(server, 60))
    assert (sent, halt) == (60, None)
    assert set(kinds) == {InvalidRequest}


@pytest.mark.wire
def test_a_grid_that_the_server_turns_down_stops_and_a_resume_runs_all_of_it(tmp_path):
    mended = False

    def answer(call):
        if not mended:
            raise InvalidRequest("max_tokens is above what this server was started with")
        return opinion(call)

    with Vendor(answer=answer) as vendor:
        bench = Bench(tmp_path, vendor.url, problems=12, lanes=8)
        sitting = bench.start()
        assert sitting.wait() == 3, sitting.told
        assert "max_tokens is above what this server was started with" in sitting.told
        assert "all failed for one cause" in sitting.told
        # Two models, and a width of eight each.
        assert vendor.requests <= 2 * (MAX_ALIKE + 8)
        mended = True
        bench.complete()
        assert b'"failure"' not in (bench.run / "outcomes.jsonl").read_bytes()


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY", "all_proxy"])
def test_a_socks_proxy_is_refused_before_anything_is_asked(variable):
    environment = {variable: "socks5://user:secret@127.0.0.1:1080", "OPENAI_API_KEY": "k"}
    with pytest.raises(UsageError, match=r"names a SOCKS proxy.*NO_PROXY") as refused:
        settings_of("openai", environment)
    assert "secret" not in str(refused.value)


async def wants_a_password(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.wire
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_password_stops_the_provider(scheme):
    async def main():
        proxy = await asyncio.start_server(wants_a_password, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        settings = Settings("compatible/lab", f"{scheme}://lab.invalid/v1", "lab")
        provider = connect(replace(settings, proxy=f"http://127.0.0.1:{port}"))
        try:
            with pytest.raises(ProviderDown, match=r"407.*NAME:PASSWORD@HOST"):
                await provider(call_of(10, model="compatible/lab/model"))
        finally:
            await provider.close()
            proxy.close()
            await proxy.wait_closed()

    asyncio.run(main())
