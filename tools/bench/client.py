"""Clients: programs that make calls, each run in its own process, one after another."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter

from tools.bench import machine
from tools.bench.clients.asked import Job
from tools.bench.measured import Reading

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
PATIENCE = 5
"""Seconds. A peer whose runs of a workload have taken longer than that in all is not run again."""


@dataclass(frozen=True, slots=True)
class Client:
    """A script in `clients/`, the interpreter that has what it imports, and its row in a table."""

    name: str
    script: str
    python: str = sys.executable
    transport: str = "plain"
    fault: str = ""
    """Why it cannot be run; empty if it can."""

    @property
    def ours(self) -> bool:
        """Whether it is not a peer: it runs in this environment."""
        return self.python == sys.executable


BARE = Client("bare aiohttp loop", "bare.py")
BARE_SDK = Client("bare SDK: its raw post over aiohttp", "bare_sdk.py")
FLOOR = Client("the floor: the promises of a call, bare", "floor.py")
PLAIN = Client("oversight-bench, plain transport", "ours.py")
SDK = Client("oversight-bench, SDK transport", "ours.py", transport="sdk")


class ClientFailed(Exception):
    """A client ended without its figures."""

    def __init__(self, client: Client, told: str) -> None:
        super().__init__(f"{client.name}: {told}")
        self.told = told
        """The end of its output."""


def run(client: Client, workload: str, job: Job) -> Reading:
    """One run, pinned to the client's core."""
    told = json.dumps(asdict(replace(job, transport=client.transport)))
    process = subprocess.Popen(
        [client.python, str(CLIENTS / client.script), workload, told],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(client, job),
    )
    machine.pin(process.pid, machine.CLIENT)
    out, err = process.communicate()
    if process.returncode:
        raise ClientFailed(client, (err or out).strip()[-600:] or f"exit code {process.returncode}")
    return Reading(**json.loads(out.splitlines()[-1]))


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one workload."""

    readings: Mapping[Client, Sequence[Reading]]
    failed: Mapping[Client, str]
    """Peers that could not be measured, and why."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Which clients have fewer figures than the others, or none."""
        rounds = max(map(len, self.readings.values()), default=0)
        fewer = (
            f"{client.name}: slow, so {len(readings)} of {rounds} rounds"
            for client, readings in self.readings.items()
            if len(readings) < rounds
        )
        return (*fewer, *(f"{client.name}: {why}" for client, why in self.failed.items()))


def interleaved(clients: Collection[Client], workload: str, job: Job, rounds: int) -> Found:
    """Run each client `rounds` times, taking turns, so that other load hits all alike.

    ClientFailed if one of our own fails; a peer that does is left out from there on. A slow peer
    is run less often."""
    failed = {client: client.fault for client in clients if client.fault}
    readings: dict[Client, list[Reading]] = {client: [] for client in clients if not client.fault}
    taken = dict.fromkeys(readings, 0.0)
    for _ in range(rounds):
        for client in [*readings]:
            if not client.ours and taken[client] > PATIENCE:
                continue
            folder = mkdtemp(prefix="bench-")
            began = perf_counter()
            try:
                readings[client].append(run(client, workload, replace(job, folder=folder)))
            except ClientFailed as fault:
                if client.ours:
                    raise
                del readings[client]
                failed[client] = fault.told.splitlines()[-1]
            else:
                taken[client] += perf_counter() - began
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return Found(readings, failed)


def environment(client: Client, job: Job) -> dict[str, str]:
    """Ours is imported from here, whatever is installed; all find the server where they look."""
    environment = os.environ | {
        "OPENAI_BASE_URL": job.url,
        "OPENAI_API_KEY": "bench",
        "COMPATIBLE_BENCH_BASE_URL": job.url,
        "HOME": job.folder,
    }
    environment.pop("PYTHONPATH", None)
    if client.ours:
        environment["PYTHONPATH"] = str(ROOT)
    return environment
