"""`width`: thousands of calls of 2 to 4 s, at a server of 4,000 slots in its own process.

`python -m tools.bench.width` is that server: it prints its URL, and its figures at GET /counts."""

import asyncio
import hashlib
import heapq
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from oversight.engine.system.process import event_loop, raise_limit
from tools.bench import machine
from tools.bench.command import oversight
from tools.bench.measured import Goal, Measured, at_least, at_most
from tools.bench.options import Options

SLOTS = 4_000
SECONDS = (2.0, 4.0)
"""Of a call: at least and at most, by its bytes."""
CALLS = {f"concurrency: {SLOTS}": 8_000, "nothing set or stated": 6_000}
MODEL = "compatible/bench/m"
AGENTS = 20
"""Rows of the sweep: few problems, so that no time goes to looking at them."""
SWEEP = """\
name: width
problems: {{file: problems.jsonl}}
agents: [{agents}]
judges: {{kind: stated, model: {model}}}
protocols: propaganda
models: {{{models}}}
"""


class Slots:
    """The server: its slots, and how often it met each request."""

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(SLOTS)
        self.bodies: Counter[bytes] = Counter()
        self.seconds: list[float] = []
        self.first = self.last = 0.0
        self.in_flight = self.most = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                status, answer = 404, dict[str, object]()
                if head.startswith(b"POST"):
                    status, answer = 200, await self.reply(body)
                elif head.startswith(b"GET /counts"):
                    status, answer = 200, self.counts()
                text = json.dumps(answer).encode()
                writer.write(b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (status, len(text)))
                writer.write(text)
        writer.close()

    async def reply(self, body: bytes) -> dict[str, object]:
        loop = asyncio.get_running_loop()
        name = hashlib.sha256(body).digest()
        number = int.from_bytes(name[:4])
        seconds = SECONDS[0] + (SECONDS[1] - SECONDS[0]) * number / 2**32
        self.first = self.first or loop.time()
        self.bodies[name] += 1
        self.seconds.append(seconds)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        async with self.slots:
            await asyncio.sleep(seconds)
        self.in_flight -= 1
        self.last = loop.time()
        share = number % 100
        text = f"A: {share}%\nB: {100 - share}%" if b"percentage" in body else name.hex()
        return {
            "id": f"chatcmpl-{name.hex()}",
            "model": "m",
            "choices": [{"finish_reason": "stop", "message": {"content": text}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3},
        }

    def counts(self) -> dict[str, object]:
        """ideal: seconds that the same calls take in slots that are never idle."""
        free = [0.0] * SLOTS
        for seconds in self.seconds:
            heapq.heapreplace(free, free[0] + seconds)
        return {
            "requests": self.bodies.total(),
            "twice": self.bodies.total() - len(self.bodies),
            "most": self.most,
            "seconds": self.last - self.first,
            "ideal": max(free),
        }


def measure(options: Options) -> Measured:
    body, goals = [], list[Goal]()
    for what, count in CALLS.items():
        models = f"{MODEL}: {{{what}}}" if "concurrency" in what else ""
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.bench.width"], stdout=subprocess.PIPE, text=True
        )
        machine.pin(process.pid, machine.SERVER)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with TemporaryDirectory(prefix="bench-") as place:
            folder = Path(place)
            (folder / "problems.jsonl").write_text(
                "".join(map(_problem, range(max(options.sized(count) // (4 * AGENTS), 1))))
            )
            agents = ", ".join(f"{{model: {MODEL}, max_tokens: {100 + n}}}" for n in range(AGENTS))
            sweep = SWEEP.format(agents=agents, model=MODEL, models=models)
            (folder / "sweep.yaml").write_text(sweep)
            ran = oversight("run", "sweep.yaml", folder=folder, url=f"{url}/v1")
        with urllib.request.urlopen(f"{url}/counts") as response:
            found = json.load(response)
        process.terminate()
        process.communicate()
        figures = (
            *(f"{found['requests']:,}", f"{found['twice']:,}", f"{found['most']:,}"),
            *(f"{found['seconds']:.1f}", f"{found['ideal']:.1f}", f"{ran.wall:.1f}"),
            *(f"{ran.cpu / found['requests'] * 1000:.2f}", f"{ran.peak:.0f} MB"),
        )
        body.append((what, *figures))
        goals.append(at_most(f"{what}: requests twice", found["twice"], 0, digits=0))
        if models:
            part = found["seconds"] / found["ideal"]
            goals.append(at_least(f"{what}: in flight", found["most"], 0.975 * SLOTS))
            goals.append(at_most(f"{what}: first request to last reply", part, 1.15, " × ideal"))
        else:
            goals.append(at_most(f"{what}: wall", ran.wall, 45, " s", digits=0))
    head = ("settings", "requests", "twice", "in flight", "s", "ideal s", "wall s")
    title = f"width: a server of {SLOTS:,} slots, calls of {SECONDS[0]:.0f} to {SECONDS[1]:.0f} s"
    table = Table(title, (*head, "CPU ms/call", "peak memory"), tuple(body), 1)
    return Measured("width", table, tuple(goals))


def _problem(n: int) -> str:
    answers = [
        {"label": "A", "text": f"{n} apples", "value": 1},
        {"label": "B", "text": f"{n + 1} pears", "value": -1},
    ]
    row = {"id": f"crate-{n}", "question": f"What is in crate {n}?", "answers": answers}
    return json.dumps(row) + "\n"


async def _serve() -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    server = await asyncio.start_server(Slots().serve, "127.0.0.1", 0, backlog=SLOTS)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()


if __name__ == "__main__":
    raise_limit()
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve())
