"""Limits of a process: file size and memory. A run stops, and says how to continue. Not only each
answer is bounded, but also the sum of very large ones."""

import asyncio
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.command_line import ROOT, Ran, environment
from tests.engine.conftest import SWEEP
from tests.lines import listening
from tests.run_folders import outcomes, written

pytestmark = pytest.mark.wire

GREEDY = """\
from dataclasses import dataclass
from oversight.protocols.protocol import Protocol

@dataclass(frozen=True)
class Greedy(Protocol):
    async def play(self, question, side, ask):
        return " " * 2**62
"""


RUN = ("run", "small.yaml", "--run-folder", "run")
LINES = (
    "demo --run-folder runs/demo",
    "report runs/demo",
    "show runs/demo apples-and-crates",
    "show runs/demo --search apples",
    "view runs/demo --write site",
    "compare runs/demo",
    "export tables runs/demo -o tables",
    "cache export runs/demo -o replies",
    "replay runs/demo",
    "export pack runs/demo -o demo.oversight",
    "export open demo.oversight -o runs/opened",
    "status",
)


def run_with(limit: str, most: int, place: Path, *line: str) -> Ran:
    """A command in a process with this much memory."""
    bound = f"import resource as r; r.setrlimit(r.{limit}, ({most}, {most}))"
    code = f"{bound}\nfrom oversight.engine.__main__ import main\nmain()"
    variables = environment({"OVERSIGHT_STORE": str(place / "store")})
    words = [sys.executable, "-c", code, *(line or RUN)]
    # A fork has the address space of all that it has imported.
    process = subprocess.run(
        words, cwd=place, env=variables, capture_output=True, text=True, check=False
    )
    return Ran(process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize("blocks", [0, pytest.param(16, marks=pytest.mark.nightly), 100])
def test_a_limit_on_the_size_of_files_stops_a_run_that_can_go_on(place, command, blocks):
    ran = run_with("RLIMIT_FSIZE", 512 * blocks, place)
    assert ran.code == 3, ran.err
    assert "ulimit -f" in ran.err or "File too large" in ran.err
    assert "Traceback" not in ran.err
    assert command(*RUN).code == 0
    assert len(written(place / "run").splitlines()) == 40


def test_a_run_needs_no_open_streams(place):
    line = [sys.executable, "-m", "oversight", *RUN]
    variables = environment({"OVERSIGHT_STORE": str(place / "store")})
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *line]
    assert subprocess.run(closed, cwd=place, env=variables, check=False).returncode == 0
    assert len(written(place / "run").splitlines()) == 40


def test_a_run_and_all_that_read_it_do_with_little_memory(place):
    for line in LINES:
        ran = run_with("RLIMIT_AS", 1_500_000 * 1024, place, *line.split())
        assert ran.code == 0, (line, ran.err)


def test_without_memory_a_run_stops_names_its_folder_and_fails_no_cell(place, command):
    (place / "greedy.py").write_text(GREEDY)
    sweep = SWEEP.partition("protocols:")[0] + "protocols: {greedy.py:Greedy: {}}\n"
    (place / "greedy.yaml").write_text(sweep)
    ran = command("run", "greedy.yaml", "--run-folder", "run")
    assert ran.code == 3, ran.err
    assert "out of memory" in ran.err
    assert "0 of 8 cells done" in ran.err
    assert "· run folder  run\n· when that is put right: oversight run greedy.yaml" in ran.err
    assert outcomes(place / "run") == []


@pytest.mark.parametrize("inflated", [True, False])
async def test_hundreds_of_huge_answers_do_not_take_the_memory(inflated, campaign):
    calls, headers, body = campaign.size(14, 48), b"", b"x" * 34 * 2**20
    if inflated:
        # Short on the wire, and just short of the cap when it is inflated.
        packer, headers = zlib.compressobj(9, wbits=31), b"content-encoding: gzip\r\n"
        body = packer.compress(b"x" * 31 * 2**20) + packer.flush()
    head = b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n" % (headers, len(body))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(head)
            for start in range(0, len(body), 2**18):
                writer.write(body[start : start + 2**18])
                await writer.drain()

    async with listening(serve) as url:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.engine.gulps", url, str(calls)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await child.communicate()
    assert child.returncode == 0
    assert float(output) < 350, f"{calls} calls took {float(output):.0f} MB"
