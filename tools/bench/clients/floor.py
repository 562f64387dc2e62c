"""The floor: the promises of a call, bare, without the rest of a benchmark.

Each call has an address and one flight, waits for a slot, stands in a ledger that survives kill -9
before it leaves and when it is back, has a deadline, is tried again, and is durable in a database
before its text is handed out."""

import asyncio
import hashlib
import os
import queue
import sqlite3
import struct
import threading
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import asked
import httptools
import orjson
import uvloop

DEADLINE, TRIES, SLOTS = 600.0, 6, 10_000


def calls(job: asked.Job) -> int:
    return uvloop.run(_run(job, asked.calls))


def debates(job: asked.Job) -> int:
    return uvloop.run(_run(job, asked.debates))


class Connection(asyncio.Protocol):
    """One request out at a time."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] | None = None
        self.parts: list[bytes] = []
        self.on_body = self.parts.append
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport) -> None:  # type: ignore[no-untyped-def]
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.answer is None:
            self.transport.abort()  # nobody has asked for this
            return
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        answer, self.answer = self.answer, None
        if answer is not None and not answer.done():
            if self.parser.get_status_code() == 200:
                answer.set_result(b"".join(self.parts))
            else:
                answer.set_exception(ConnectionError(self.parser.get_status_code()))
        self.parts.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(exc or ConnectionResetError())


class Store:
    """Replies by address; a group of them is committed by a thread, and then handed out."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.path = loop, path
        self.group: list[tuple[bytes, bytes, asyncio.Future[None]]] = []
        self.work: queue.SimpleQueue[list[tuple[bytes, bytes, asyncio.Future[None]]]]
        self.work = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._write)
        self.thread.start()

    def keep(self, address: bytes, reply: bytes) -> "asyncio.Future[None]":
        if not self.group:
            self.loop.call_later(0.002, self.flush)
        durable = self.loop.create_future()
        self.group.append((address, reply, durable))
        return durable

    def flush(self) -> None:
        group, self.group = self.group, []
        self.work.put(group)

    def _write(self) -> None:
        database = sqlite3.connect(self.path, isolation_level=None)
        database.executescript(
            "pragma journal_mode = wal; pragma synchronous = full;"
            "create table if not exists replies (address blob primary key, reply blob)"
        )
        while group := self.work.get():
            database.execute("begin immediate")
            rows = [(address, reply) for address, reply, _ in group]
            database.executemany("insert or ignore into replies values (?, ?)", rows)
            database.execute("commit")
            self.loop.call_soon_threadsafe(_hand_out, group)
        database.close()


def _hand_out(group: list[tuple[bytes, bytes, "asyncio.Future[None]"]]) -> None:
    for _, _, durable in group:
        if not durable.done():
            durable.set_result(None)


async def _run(job: asked.Job, workload: Callable[[asked.Job, asked.Say], Awaitable[int]]) -> int:
    os.makedirs(job.folder, exist_ok=True)
    loop, url = asyncio.get_running_loop(), urlsplit(job.url)
    store = Store(os.path.join(job.folder, "replies.db"), loop)
    ledger = os.open(os.path.join(job.folder, "ledger"), os.O_RDWR | os.O_CREAT)
    slots, idle = asyncio.Semaphore(SLOTS), list[Connection]()
    flights: dict[bytes, asyncio.Future[str]] = {}
    head = (
        f"POST {url.path}/chat/completions HTTP/1.1\r\nhost: {url.netloc}\r\n"
        "content-type: application/json\r\nauthorization: Bearer bench\r\n"
    ).encode()
    sent = back = 0

    async def answered(body: bytes) -> bytes:
        connection = idle.pop() if idle else None
        if connection is None or connection.transport.is_closing():
            _, connection = await loop.create_connection(Connection, url.hostname, url.port)
        connection.answer = answer = loop.create_future()
        timer = loop.call_later(DEADLINE, answer.cancel)
        connection.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        try:
            told = await answer
        except BaseException:
            connection.transport.abort()
            raise
        finally:
            timer.cancel()
        idle.append(connection)
        return told

    async def paid(address: bytes, body: bytes) -> str:
        nonlocal sent, back
        for tries in range(TRIES + 1):
            async with slots:
                sent += 1
                os.pwrite(ledger, struct.pack("<2q", sent, back), 0)
                try:
                    reply = await answered(body)
                except (ConnectionError, httptools.HttpParserError):
                    if tries == TRIES:
                        raise
                    reply = b""
                back += 1
                os.pwrite(ledger, struct.pack("<2q", sent, back), 0)
            if reply:
                await store.keep(address, reply)
                text: str = orjson.loads(reply)["choices"][0]["message"]["content"]
                return text
            await asyncio.sleep(2.0**tries)
        raise AssertionError("the last try has raised")

    async def say(messages: list[dict[str, str]]) -> str:
        body = orjson.dumps(
            {"model": asked.MODEL, "messages": messages, "max_tokens": asked.MAX_TOKENS}
        )
        address = hashlib.sha256(body).digest()
        if (flight := flights.get(address)) is not None:
            return await asyncio.shield(flight)
        flights[address] = flight = loop.create_future()
        try:
            text = await paid(address, body)
        finally:
            del flights[address]
        flight.set_result(text)
        return text

    try:
        return await workload(job, say)
    finally:
        if store.group:
            store.flush()
        store.work.put([])
        await asyncio.to_thread(store.thread.join)
        os.close(ledger)
        for connection in idle:
            connection.transport.close()


if __name__ == "__main__":
    asked.main(calls=calls, debates=debates)
