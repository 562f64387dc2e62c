"""`start`: how long until anything happens."""

import os
import socket
import subprocess
import sys
import time
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
        python, helped, asked = (
            median([each() for _ in range(2 * options.rounds + 1)][1:])
            for each in (_python, lambda: _help(folder), lambda: _first_request(folder))
        )
    body = (
        ("python -c pass", f"{python:.3f}"),
        ("oversight --help", f"{helped:.3f}"),
        ("oversight run, to its first request", f"{asked:.3f}"),
    )
    table = Table("start: from the start of the process", ("what", "wall s"), body, 1)
    goals = (
        at_most("`oversight --help`", helped, 0.05, " s", 3),
        at_most("first call on the wire, plain transport", asked, 0.35, " s", 3),
    )
    return Measured("start", table, goals)


def _python() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def _help(folder: Path) -> float:
    return oversight("--help", folder=folder).wall


def _first_request(folder: Path) -> float:
    """Seconds until the first byte of a sweep's first request is here; then it is killed."""
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
                    seconds = time.perf_counter() - running.began
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n")
        except TimeoutError:
            first = b"nothing"
        finally:
            running.kill()
            ended = running.end()
    if first != b"POST":
        raise CommandFailed(f"no call came first, but {first!r}: {ended.err[-600:]}")
    return seconds
