"""A mock server in its own process, so that it takes no CPU time from its client."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import PIPE, Popen
from urllib.request import ProxyHandler, build_opener

import orjson

from ...errors import UsageError


@contextmanager
def serving(flags: Sequence[str]) -> Iterator[str]:
    """Run a server while the body runs, and yield its base URL.

    flags: arguments of `python -m oversight.engine.extensions.mock`. The server ends with this
    process, however that ends. UsageError if it does not start.
    """
    with Popen(
        [sys.executable, "-m", "oversight.engine.extensions.mock", "--attached", *flags],
        stdin=PIPE,
        stdout=PIPE,
        # Ctrl-C must not reach the server: the client waits for its calls in flight.
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
    straight = build_opener(ProxyHandler({}))
    with straight.open(f"{url}/rehearsal/counts", timeout=60) as answer:
        received: dict[str, int] = orjson.loads(answer.read())
        return received
