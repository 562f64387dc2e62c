"""`start`: how long until anything happens."""

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, mkdtemp

import click

from oversight.engine.display.table import Table
from tools.bench.client import ROOT
from tools.bench.command import CommandFailed, Running, oversight
from tools.bench.measured import Measured, at_most
from tools.bench.options import Options
from tools.bench.sweep import MODELS, write_sweep

ROOMS = ("cache", "protocols", "engine", "oversight")
Start = tuple[float, float]
"""CPU and wall of a start, in seconds."""
PATIENCE = 30.0
"""Seconds after which a request that does not come is a fault."""


def require_compiled(root: Path = ROOT) -> None:
    """Refuse to measure with sources that Python would compile at each start."""
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        raise click.UsageError("start: unset PYTHONDONTWRITEBYTECODE, to keep compiled modules")
    for source in (file for room in ROOMS for file in sorted((root / room).rglob("*.py"))):
        compiled = Path(cache_from_source(str(source)))
        state = source.stat()
        # Bytes 8 to 16 of a compiled file: the time and the size of its source (PEP 552).
        known = int(state.st_mtime).to_bytes(8, "little")[:4] + state.st_size.to_bytes(4, "little")
        if not compiled.is_file() or compiled.read_bytes()[8:16] != known:
            step = f"python -m compileall -q {' '.join(ROOMS)}"
            raise click.UsageError(f"start: {source} is not compiled; first run: {step}")


def measure(options: Options) -> Measured:
    require_compiled()
    with TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        # The first of all is not counted: it fills the caches of the disk.
        starts: dict[str, Callable[[], Start]] = {
            "python -c pass": lambda: _python("pass"),
            "python -c 'import click'": lambda: _python("import click"),
            "oversight --help": lambda: _help(folder),
            "oversight run, to its first request": lambda: _first_request(folder),
        }
        # In turns, so that a slow minute of the machine meets all of them.
        rounds = [
            {what: start() for what, start in starts.items()} for _ in range(2 * options.rounds + 1)
        ]
    medians = {
        what: [median(values) for values in zip(*(each[what] for each in rounds[1:]), strict=True)]
        for what in starts
    }
    body = tuple((what, f"{cpu:.3f}", f"{wall:.3f}") for what, (cpu, wall) in medians.items())
    table = Table("start: from the start of the process", ("what", "CPU s", "wall s"), body, 1)
    click_, helped, asked = (cpu for cpu, _ in list(medians.values())[1:])
    goals = (
        at_most("oversight --help: CPU", helped / click_, 1.25, " × import click"),
        at_most("first call on the wire, plain transport: CPU", asked, 0.42, " s", 3),
    )
    return Measured("start", table, goals)


def _python(code: str) -> Start:
    used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    wall, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, wall


def _help(folder: Path) -> Start:
    ended = oversight("--help", folder=folder)
    return ended.cpu, ended.wall


def _first_request(folder: Path) -> Start:
    """Until the first byte of a sweep's first request is here; then the command is killed."""
    model = MODELS["plain"]
    sweep = write_sweep(
        folder,
        range(50),
        agents={"model": model},
        judges=[{"kind": "stated", "model": model}],
        protocols={"debate": {"rounds": 2}},
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        run = mkdtemp(prefix="run-", dir=folder)
        running = Running(("run", sweep, "--run-folder", f"{run}/run"), folder, url)
        try:
            first = b"GET "
            # A self-hosted server is asked for its context and slots before any call.
            while first == b"GET ":
                connection, _ = server.accept()
                with connection:
                    first = connection.recv(4)
                    wall = time.perf_counter() - running.began
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n")
        except TimeoutError:
            first = b"nothing"
        finally:
            running.kill()
            ended = running.end()
    if first != b"POST":
        raise CommandFailed(f"no call came first, but {first!r}: {ended.err[-600:]}")
    return ended.cpu, wall
