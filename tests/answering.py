"""A server whose answers a test writes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeAlias

import orjson


@dataclass(frozen=True)
class Asked:
    """One request; the body is empty if it had none."""

    path: str
    key: str
    """The header Authorization, or nothing."""
    body: bytes


Answer: TypeAlias = Callable[[Asked], tuple[int, bytes]]
"""Status and body of the answer."""


def alike(status: int, body: bytes) -> Answer:
    """The same to every request."""
    return lambda request: (status, body)


def pages(bodies: dict[str, Any]) -> Answer:
    """JSON at these paths, and 404 elsewhere."""
    return lambda request: (
        (200, orjson.dumps(bodies[request.path]))
        if request.path in bodies
        else (404, b"<html>no</html>")
    )


@contextmanager
def answering(answer: Answer) -> Iterator[tuple[str, list[Asked]]]:
    """Its address, and what it was asked so far."""
    book: list[Asked] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            book.append(Asked(self.path, self.headers.get("Authorization", ""), body))
            status, content = answer(book[-1])
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", book
        finally:
            server.shutdown()
            thread.join()
