"""A mock server in its own process, so that it takes no time from its client."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import orjson

from oversight.engine.errors import UsageError


@contextmanager
def serving(flags: Sequence[str]) -> Iterator[str]:
    """Run a server while the body runs; its base URL. flags: of `python -m
    oversight.engine.rehearsal`.

    However this process ends, the server ends with it. UsageError if it does not start.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "oversight.engine.rehearsal", "--attached", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Ctrl-C is for the client, whose calls in flight are still to land.
        start_new_session=True,
    ) as server:
        assert server.stdin is not None, "it is a pipe"
        assert server.stdout is not None, "it is a pipe"
        try:
            url = server.stdout.readline().decode().strip()
            if not url:
                raise UsageError("the rehearsal server did not start; what it said stands above")
            yield url
        finally:
            server.stdin.close()


def counts(url: str) -> dict[str, int]:
    """The counts of the server at `url`; see MockServer.counts."""
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        connection.request("GET", "/rehearsal/counts")
        told: dict[str, int] = orjson.loads(connection.getresponse().read())
        return told
    finally:
        connection.close()
