"""Servers and clients of a loop in virtual time, connected without sockets."""

import asyncio
from collections.abc import Callable
from functools import partial, wraps
from ssl import SSLError
from types import SimpleNamespace
from typing import Any

from tests.virtual import VirtualLoop


class End(asyncio.Transport):
    """One end of a connection. Bytes reach the other end in the next turn of the loop, in order."""

    peer: "End"

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__()
        self.soon, self.protocol = loop.call_soon, protocol
        self.closing = self.paused = self.lost = False
        self.unread: list[bytes] = []

    def write(self, data: Any) -> None:
        if not self.closing:
            self.soon(self.peer.receive, bytes(data))

    def receive(self, data: bytes) -> None:
        if self.paused:
            self.unread.append(data)
        elif not self.lost:
            self.protocol.data_received(data)

    def ended(self) -> None:
        if not self.lost and not self.protocol.eof_received():
            self.close()

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.soon(self.peer.ended)
            self.soon(self.lose)

    abort = close

    def lose(self) -> None:
        self.lost = True
        self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused, unread, self.unread = False, self.unread, []
        for data in unread:
            self.soon(self.receive, data)

    def get_write_buffer_size(self) -> int:
        return 0


class Listener:
    """A server of `asyncio.start_server`."""

    def __init__(self, servers: dict[int, Any], port: int) -> None:
        self.sockets = [SimpleNamespace(getsockname=lambda: ("127.0.0.1", port))]
        self.close = partial(servers.pop, port)

    async def __aenter__(self) -> "Listener":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def wait_closed(self) -> None:
        """Nothing is left open."""


class MemoryLoop(VirtualLoop):
    """A loop whose servers and connections are objects of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.servers: dict[int, Callable[[], Any]] = {}

    async def create_server(self, factory: Any, *_: Any, **__: Any) -> Any:
        port = 1024 + len(self.servers)
        self.servers[port] = factory
        return Listener(self.servers, port)

    async def create_connection(self, factory: Any, host: Any, port: Any, **how: Any) -> Any:
        await asyncio.sleep(0)
        if port not in self.servers:
            raise ConnectionRefusedError(111, "Connection refused")
        if how.get("ssl"):
            raise SSLError("these servers speak no TLS")
        one, other = End(self, factory()), End(self, self.servers[port]())
        one.peer, other.peer = other, one
        other.protocol.connection_made(other)
        one.protocol.connection_made(one)
        return one, one.protocol


def in_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a coroutine function in such a loop."""

    @wraps(function)
    def ran(*args: Any, **kwargs: Any) -> Any:
        with asyncio.Runner(loop_factory=MemoryLoop) as runner:
            return runner.run(function(*args, **kwargs))

    return ran
