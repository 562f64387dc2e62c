"""A TCP proxy before a server on a Unix socket: it delays, stalls, resets or is gone."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on 127.0.0.1 for as long as the body runs."""

    def __init__(self, target: Path, delay: float = 0.0) -> None:
        """delay: seconds for each way of a round trip."""
        self._target = str(target)
        self.delay = delay
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
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(2**16):
                if self.delay:
                    time.sleep(self.delay)
                self._flowing.wait()
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)
