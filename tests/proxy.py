"""A TCP proxy before a server on a Unix socket: delays, stalls, resets, and counts round trips."""

import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from tests.databases import Server


class Proxy:
    """Listens on 127.0.0.1 for as long as the body runs."""

    def __init__(self, target: Path, delay: float = 0.0) -> None:
        """delay: seconds for each way of a round trip, for any number of bytes at once."""
        self._target = str(target)
        self.delay = delay
        self.trips: list[int] = []
        """Round trips of each connection: how often its client spoke after the server had."""
        self.waits = 0
        """Spans of time in which any connection waited for an answer: round trips that are under
        way together are one."""
        self.waiting: set[int] = set()
        """Connections that wait now."""
        self.lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._gone = False
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.vanish()
        self._flowing.set()
        self._listener.close()

    def url(self, server: Server) -> str:
        """The URL of a new and empty database of that server, through this proxy."""
        name = re.search(r"@/(\w+)\?", server.database())
        assert name
        return f"postgresql://oversight@127.0.0.1:{self.port}/{name[1]}"

    def stall(self) -> None:
        """Pass nothing on any more, and close nothing: the server hangs."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def vanish(self) -> None:
        """Reset every connection, and refuse all others."""
        self._gone = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._gone:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._open += [client, server]
                _Wire(self, client, server, self._flowing).start()


class _Wire:
    """One connection. Bytes arrive `delay` after they were sent, however many are under way."""

    def __init__(
        self,
        proxy: Proxy,
        client: socket.socket,
        server: socket.socket,
        flowing: threading.Event,
    ) -> None:
        self._proxy = proxy
        self._delay = proxy.delay
        self._number = len(proxy.trips)
        proxy.trips.append(0)
        self._sides = client, server
        self._flowing = flowing
        self._server_spoke = True

    def start(self) -> None:
        client, server = self._sides
        for one, other in ((client, server), (server, client)):
            line: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
            for work, side in ((self._receive, one), (self._send, other)):
                threading.Thread(target=work, args=(side, line), daemon=True).start()

    def _receive(self, side: socket.socket, line: "SimpleQueue[tuple[float, bytes]]") -> None:
        data = b"-"
        while data:
            try:
                data = side.recv(2**16)
            except OSError:
                data = b""
            if data and side is self._sides[0] and self._server_spoke:
                with self._proxy.lock:
                    self._proxy.trips[self._number] += 1
                    self._proxy.waits += not self._proxy.waiting
                    self._proxy.waiting.add(self._number)
            if data:
                self._server_spoke = side is self._sides[1]
            line.put((time.monotonic() + self._delay, data))

    def _send(self, side: socket.socket, line: "SimpleQueue[tuple[float, bytes]]") -> None:
        with suppress(OSError):
            while True:
                due, data = line.get()
                if (early := due - time.monotonic()) > 0:
                    time.sleep(early)
                self._flowing.wait()
                if not data:
                    break
                if side is self._sides[0]:
                    with self._proxy.lock:
                        self._proxy.waiting.discard(self._number)
                side.sendall(data)
            side.shutdown(socket.SHUT_WR)
