"""Real sweeps as real processes, `python -m oversight.engine run …`, and the vendor that they ask:
a server in a thread, whose replies are a function of the call, with a book of all answers."""

import asyncio
import hashlib
import re
import resource
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
from pydantic import TypeAdapter

from oversight.cache.call import Call
from oversight.cache.entry import StoreEntry, read_entry
from oversight.cache.errors import StoreError
from oversight.cache.reply import Reply
from oversight.engine.errors import RunFolderError
from oversight.engine.extensions.mock import MockServer, Profile
from oversight.engine.run.settings import open_for_reading
from oversight.protocols.prompts.render import read_instructions
from oversight.protocols.tags import TAGS
from tests.command_line import environment
from tests.run_folders import recorded
from tests.starting import Started
from tests.waiting import PATIENCE

__all__ = ["TAGS", "Bench", "Call", "Reply", "Vendor", "moody", "opinion", "read_instructions"]
CONCURRENCY = 8
FLIGHTS = 2 * CONCURRENCY
"""Calls on the wire at most: each of two models has its own limit."""

Prompt = tuple[str, ...]
"""The texts of a call, which distinguish the calls of these sweeps."""


def prompt_of(call: Call) -> Prompt:
    return tuple(message.text for message in call.messages)


def opinion(call: Call) -> Reply:
    """The same reply to the same prompt, always."""
    digest = hashlib.sha256("\0".join(prompt_of(call)).encode()).digest()
    todo = read_instructions(call.messages[-1].text)
    if todo is not None and todo.task == "percentages":
        share = digest[0] * 100 // 255
        return Reply(f"A: {share}%\nB: {100 - share}%")
    return Reply(f"I say {digest.hex()}, and so it is.")


def moody(call: Call) -> Reply:
    """Never the same reply twice, as real models' are: it tells who was first, and who paid."""
    todo = read_instructions(call.messages[-1].text)
    if todo is not None and todo.task == "percentages":
        share = secrets.randbelow(101)
        return Reply(f"A: {share}%\nB: {100 - share}%\n{secrets.token_hex()}")
    return Reply(f"I say {secrets.token_hex()}, and so it is.")


@dataclass(frozen=True)
class Answered:
    at: float
    """Seconds of time.monotonic."""
    prompt: Prompt


class Vendor:
    """A rehearsal server in a thread; a context manager."""

    def __init__(self, answer: Callable[[Call], Reply] = opinion, **profile: Any) -> None:
        """profile: settings of the server, as its latency in seconds."""
        self.book: list[Answered] = []
        self.on_request: Callable[[int], None] = lambda count: None
        """Called with how many requests there have been, on the server's thread."""
        self._answer = answer
        self._profile = TypeAdapter(Profile).validate_python(profile)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def requests(self) -> int:
        """All that asked for a reply, whatever they met."""
        return self.server.counts().get("requests", 0)

    def after(self, requests: int) -> threading.Event:
        """Set once it has been asked so often from now on."""
        requests += len(self.book)
        reached = threading.Event()
        self.on_request = lambda count: reached.set() if count >= requests else None
        return reached

    @contextmanager
    def held(self, requests: int) -> Iterator[threading.Event]:
        """Set once it has been asked so often from now on; as long as the body then takes, it
        answers nobody, so that no run is over before what is to be done to it."""
        requests += len(self.book)
        reached, over = threading.Event(), threading.Event()

        def hold(count: int) -> None:
            if count >= requests:
                reached.set()
                over.wait(PATIENCE)

        self.on_request = hold
        try:
            yield reached
        finally:
            over.set()

    def prompts(self, since: int = 0) -> list[Prompt]:
        return [answered.prompt for answered in self.book[since:]]

    def _say(self, call: Call) -> Reply:
        self.book.append(Answered(time.monotonic(), prompt_of(call)))
        self.on_request(len(self.book))
        return self._answer(call)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with MockServer(self._profile, self._say) as self.server:
            self.url = self.server.url
            self._ready.set()
            await self._stop.wait()


SWEEP = """\
name: campaign
problems: {{file: problems.jsonl}}
agents: {{model: compatible/lab/agent}}
judges: {{kind: stated, model: compatible/lab/judge}}
protocols:
  naive_judge:
  consultancy: {{turns: 2}}
  debate: {{rounds: 2, simultaneous: true}}
max_cells: {lanes}
providers:
  compatible/lab: {{base_url: {url}/v1, identity: the lab, deadline: {deadline}}}
models:
  compatible/lab/agent: {{concurrency: {concurrency}}}
  compatible/lab/judge: {{concurrency: {concurrency}}}
"""


@dataclass
class Bench:
    """A folder with a sweep, its store and its run; the sittings of that run are processes."""

    folder: Path
    url: str
    problems: int = 6
    lanes: int = 16
    deadline: float = 60.0
    text: str = "How many apples are in crate {n}?"
    store: Path | str | None = None
    """A folder, or the URL of a database."""
    environment: Mapping[str, str] = field(default_factory=dict)
    concurrency: int = CONCURRENCY
    """Maximum calls at once, for each of two models."""
    logs: Path | None = None
    """Folder for the output of the sittings, if it is another one."""
    largest_file: int | None = None
    """Bytes beyond which no file of a sitting may grow: a disk that is full."""
    open_files: tuple[int, int] | None = None
    """How many a sitting may have: the soft limit, and the hard one."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = self.store or self.folder / "store"
        self.run = self.folder / "run"
        self.sweep = self.folder / "sweep.yaml"
        self.sweep.write_text(
            SWEEP.format(
                url=self.url, lanes=self.lanes, deadline=self.deadline, concurrency=self.concurrency
            )
        )
        rows = (
            {
                "id": f"crate-{n}",
                "question": self.text.format(n=n),
                "answers": [
                    {"label": "A", "text": f"{n} apples", "value": 1},
                    {"label": "B", "text": f"{n + 1} pears", "value": -1},
                ],
            }
            for n in range(self.problems)
        )
        (self.folder / "problems.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))

    def start(self, *flags: str, command: tuple[str, ...] = ("run",)) -> "Sitting":
        """Start or resume in the background."""
        target = str(self.sweep if command == ("run",) else self.run)
        folder_flags = ("--run-folder", str(self.run)) if command == ("run",) else ()
        line = [sys.executable, "-m", "oversight.engine", *command, target]
        store = () if command == ("status",) else ("--store", str(self.store))
        return Sitting(self, [*line, *store, *folder_flags, *flags])

    def ends(self, code: int, *flags: str, command: tuple[str, ...] = ("run",)) -> str:
        """Run a sitting to its end, with this exit code; returns its output."""
        sitting = self.start(*flags, command=command)
        assert sitting.wait() == code, sitting.told
        return sitting.told

    def complete(self, *flags: str) -> str:
        """Run to the end; it must get there."""
        return self.ends(0, *flags)

    def replays(self) -> str:
        """Replay it: every outcome must be equal to the byte."""
        return self.ends(0, command=("replay",))

    def cut(self, vendor: Vendor, requests: int, number: int = signal.SIGINT, *flags: str):
        """Run a sitting that gets a signal after this many requests, to its end."""
        with vendor.held(requests) as reached:
            sitting = self.start(*flags)
            assert reached.wait(PATIENCE)
            sitting.signal(number)
        sitting.wait()
        return sitting

    def cache(self, *words: str) -> "Sitting":
        """`oversight cache` on the store, to its end."""
        line = [sys.executable, "-m", "oversight.engine", "cache", *words]
        sitting = Sitting(self, [*line, "--store", str(self.store)])
        sitting.wait()
        return sitting

    def outcomes(self) -> bytes:
        """All that a finished run is: outcomes and report, less the port of the vendor's server."""
        files = (self.run / name for name in ("outcomes.jsonl", "report/report.json"))
        return re.sub(rb"127\.0\.0\.1:\d+", b"here", b"".join(file.read_bytes() for file in files))

    def lines(self) -> list[bytes]:
        """The whole outcomes so far."""
        try:
            return recorded(self.run)
        except RunFolderError:
            # It was killed before it created the run.
            return []

    def stored(self) -> set[Prompt]:
        """The prompts whose replies are in the store; reading it fails on any damage."""
        return {prompt_of(record.call()) for record in self.records()}

    def records(self) -> list[StoreEntry]:
        """The intact entries of the store; empty if it does not exist yet."""
        try:
            opened = open_for_reading(str(self.store))
        except StoreError as fault:
            if "holds no store" not in str(fault):
                raise
            return []
        with closing(opened) as store:
            entries = [pair for pair in store.items() if isinstance(pair[1], bytes)]
            return [read_entry(*pair) for pair in entries]


class Sitting:
    """One process. Its output goes to a file, so that no pipe ever holds it back."""

    def __init__(self, bench: Bench, line: list[str]) -> None:
        logs = bench.logs or bench.folder
        self._log = logs / f"log-{time.monotonic_ns()}.txt"
        self.line = line
        self.place: dict[str, Any] = {
            "cwd": bench.folder,
            "env": environment({"HOME": str(bench.folder), **bench.environment}),
        }
        if (most := bench.largest_file) is not None:
            size = (most, most)
            self.place["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, size)
        if (files := bench.open_files) is not None:
            self.place["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)
        with self._log.open("wb") as log:
            self.process = Started(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, **self.place
            )

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code; a process that does not end in time is a failure, and is killed."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {seconds} s:\n{self.told}") from None

    def signal(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    @property
    def told(self) -> str:
        """Everything it printed."""
        return self._log.read_text(errors="replace")
