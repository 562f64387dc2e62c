"""The server that every client of a bench talks to: a rehearsal in its own process.

`python -m tools.bench.server '{"latency": 0.05}'` serves until it is terminated."""

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.extensions.mock import FaultWindow, MockServer, Profile
from oversight.engine.system.process import event_loop
from tools.bench import machine
from tools.bench.clients.asked import SPEECH

JUDGEMENT = "A: 70%\nB: 30%"

LATENCY = 0.05
"""Seconds from a request to its reply."""


class Server:
    """The process, as a context manager; pinned to its own core."""

    def __init__(self, profile: Profile = Profile(latency=LATENCY)) -> None:  # noqa: B008
        self._profile = profile

    def __enter__(self) -> Self:
        told = json.dumps(asdict(self._profile))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.bench.server", told], stdout=subprocess.PIPE, text=True
        )
        machine.pin(self._process.pid, machine.SERVER)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        """Of the OpenAI wire."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.communicate()

    def counts(self) -> dict[str, int]:
        """Counts of its requests so far; see `MockServer.counts`."""
        address = self.url.removesuffix("/v1") + "/rehearsal/counts"
        with urllib.request.urlopen(address) as response:
            counts: dict[str, int] = json.load(response)
        return counts


def answer(call: Call) -> Reply:
    """A judgement where one is asked for, else a speech."""
    wants = call.messages[-1].text if call.messages else ""  # so curator asks for the limits
    return Reply(JUDGEMENT if "percentages" in wants[-400:] else SPEECH)


async def _serve(profile: Profile) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with MockServer(profile, answer) as server:
        print(f"{server.url}/v1", flush=True)
        await stopped.wait()


def _profile(told: dict[str, Any]) -> Profile:
    spells = tuple(FaultWindow(**spell) for spell in told.pop("spells", ()))
    return Profile(spells, **told)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(_profile(json.loads(sys.argv[1]))))
