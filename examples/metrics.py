"""Prometheus' text of a run that is under way, by an observer.

python metrics.py sweep.yaml 9464        # then: curl localhost:9464
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from oversight.engine.display.progress import Snapshot
from oversight.engine.run.execution import execute
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.engine.run.observer import Observer
from oversight.engine.run.run import Run
from oversight.engine.run.settings import RunSettings

MEASURED = {
    "cells": "total",
    "cells_finished": "finished",
    "cells_failed": "failed",
    "calls": "calls",
    "calls_stored": "stored",
    "calls_shared": "shared",
    "calls_in_flight": "in_flight",
    "replies_refused": "refused",
    "dollars_at_risk": "at_risk",
}
"""Name of each metric -> attribute of `Snapshot`, which says what it is."""


class Metrics(Observer):
    """Answers every request to `port` of this machine with where the run stands."""

    def __init__(self, port: int = 9464) -> None:
        self.port = port
        """Of 0, the port that was free, once the run is watched."""

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        return self._served(snapshot)

    def text(self, now: Snapshot) -> str:
        """The metrics, as Prometheus' text format 0.0.4 has them."""
        return "".join(
            f"# TYPE oversight_{name} gauge\noversight_{name} {getattr(now, of)}\n"
            for name, of in MEASURED.items()
        )

    @asynccontextmanager
    async def _served(self, snapshot: Callable[[], Snapshot]) -> AsyncIterator[None]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            body = self.text(snapshot()).encode()
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
            writer.write(body)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", self.port) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield


if __name__ == "__main__":
    with Run.open(open_sweep(Path(sys.argv[1])), RunSettings()) as run:
        halt = asyncio.run(execute(run, Metrics(int(sys.argv[2]))))
        sys.exit(str(halt) if halt else 0)
