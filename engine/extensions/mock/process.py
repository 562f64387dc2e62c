"""A mock server in its own process, and a sweep that is rehearsed with it, without keys.

A separate process takes no CPU time from its client. Wires, transports, limits and retries work
as in a real run. The answers come over HTTP from simulated models in another process. Store and
run folder are temporary."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from subprocess import PIPE, Popen
from urllib.request import ProxyHandler, build_opener

import orjson

from ...errors import UsageError
from ...providers.catalogue import entry, provider_of
from ...providers.simulated import PREFIX
from ...run.dry_run import stand_ins
from ...run.loaded_sweep import LoadedSweep, load_sweep
from ...sweep.sweepfile import SweepFile
from .server import Responder, simulated


@contextmanager
def serving(flags: Sequence[str]) -> Iterator[str]:
    """Run a server while the body runs, and yield its base URL. flags: arguments of `python -m
    oversight.engine.extensions.mock`. The server ends with this process, however that ends.
    UsageError if it does not start."""
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
                raise UsageError("the rehearsal server did not start; see its output above")
            yield url
        finally:
            server.stdin.close()


def counts(url: str) -> dict[str, int]:
    """The counts of the server at `url`; see MockServer.counts."""
    straight = build_opener(ProxyHandler({}))
    with straight.open(f"{url}/rehearsal/counts", timeout=60) as answer:
        received: dict[str, int] = orjson.loads(answer.read())
        return received


REHEARSAL_KEY = "rehearsal"
"""Dummy value of every key, region and project."""

REHEARSAL_DEADLINE = 60.0
"""Deadline of one request, in seconds, unless the sweep file sets it. No profile's replies take as
long, and with the usual deadline a stalled request would delay the end by ten minutes."""


def actors(loaded: LoadedSweep) -> Responder:
    """A responder with a simulated model for each model of a sweep, by its name on the wire."""

    def name_on_wire(model: str) -> str:
        return model if model.startswith(PREFIX) else model.removeprefix(f"{provider_of(model)}/")

    return simulated(stand_ins(loaded.sweep, loaded.models.simulated, alias=name_on_wire))


def staged(file: SweepFile, url: str) -> LoadedSweep:
    """The sweep with every provider at `url`, and dummy keys instead of the environment."""
    variables: dict[str, str] = {}
    providers = {}
    for provider in {provider_of(m) for m in file.sweep({}).models if not m.startswith(PREFIX)}:
        row = entry(provider)
        needed = [variable for _, variable, default in row.options if default == "!"]
        variables.update(dict.fromkeys(filter(None, [row.key_variable, *needed]), REHEARSAL_KEY))
        settings = file.providers.get(provider, {})
        # A path for each provider, since the names of open-weight models do not tell their host.
        at = {"base_url": f"{url}/{provider}/v1"}
        providers[provider] = {"deadline": REHEARSAL_DEADLINE, **settings, **at}
    return load_sweep(replace(file, providers=providers), variables)
