"""`python -m oversight.engine.fleet`: a worker at the end of a pipe. It ends when the pipe does."""

import asyncio
import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..errors import ProviderDown
from ..system.loop import event_loop
from .process_worker import FRAME_HEADER
from .worker import Worker

DRAIN_TIMEOUT = 30.0
"""Seconds that calls in flight have to land once the fleet is gone."""


async def serve_pipe() -> None:
    """Answer requests until the pipe ends; then let calls in flight land."""
    loop = asyncio.get_running_loop()
    answers = os.dup(1)
    # What protocols print must not get between the frames.
    os.dup2(2, 1)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(answers, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    workers: list[Worker] = []
    tasks: set[asyncio.Task[None]] = set()

    async def answer(number: int, frame: bytes) -> None:
        value: Any
        try:
            method, args = pickle.loads(frame)
            value = await _execute(workers, method, args)
        except Exception as exc:
            value = _portable(exc)
        frame = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if not transport.is_closing():  # as it is once the fleet is gone
            writer.write(FRAME_HEADER.pack(number, len(frame)) + frame)

    try:
        while True:
            number, length = FRAME_HEADER.unpack(await reader.readexactly(FRAME_HEADER.size))
            task = asyncio.create_task(answer(number, await reader.readexactly(length)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    except asyncio.IncompleteReadError:
        for worker in workers:
            worker.stop_token.stop(ProviderDown("the process that started this worker is gone"))
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_TIMEOUT):
                    await worker.close(abandon=False)


async def _execute(workers: list[Worker], method: str, args: tuple[Any, ...]) -> Any:
    if method == "load_code":
        # The setup may hold classes of files, which no import statement finds.
        for file in args[0]:
            file.load()
        return None
    if method == "open":
        workers.append(Worker(*args))
        return None
    (worker,) = workers
    if method == "order":
        orders, sent = args
        age = time.monotonic() - sent
        return worker.order(replace(orders, lease_ttl=orders.lease_ttl - age))
    if method == "report":
        return await worker.report(*args)
    return await worker.close(abandon=args[0])


def _portable(exc: Exception) -> Exception:
    """The exception itself if it survives pickling, else one with its type and text."""
    try:
        pickle.loads(pickle.dumps(exc))
    except Exception:
        return RuntimeError(f"{type(exc).__name__}: {exc}")
    return exc


if __name__ == "__main__":
    # The sweep may name modules that only the fleet's own path leads to.
    sys.path[:] = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The fleet heeds them, and orders what is to be done.
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(serve_pipe())
