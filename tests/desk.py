"""A desk with a sweep on it: `oversight` run as a process against a server of this machine."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from oversight.engine.extensions.mock.process import actors, counts, serving
from oversight.engine.models.accounting.ledger import UsageTotals, sum_usage
from oversight.engine.models.accounting.ledger_file import read_ledger
from oversight.engine.run.loaded_sweep import open_sweep
from tests.command_line import Ran, environment, within
from tests.sittings import Vendor
from tests.starting import Started
from tests.waiting import end

__all__ = ["Desk", "counts"]
CANARY = "sk-canary-91d0c3b5e7f24a68"
CONCURRENCY = 6
"""Maximum calls at once, per model."""
MODELS = ("openai/gpt-4o", "anthropic/claude-3-5-haiku-latest", "openai/gpt-4o-mini")

SWEEP = f"""\
name: paid
problems: {{bundled: arithmetic}}
agents: {{model: [{MODELS[0]}, {MODELS[1]}]}}
judges: [{{kind: stated, model: {MODELS[2]}}}, {{kind: logprob, model: {MODELS[2]}}}]
protocols:
  naive_judge:
  debate: {{rounds: 2, simultaneous: [true, false]}}
providers:
  openai: {{identity: the vendor, deadline: 20}}
  anthropic: {{identity: the other vendor, deadline: 20}}
models:
"""

STEPS = """\
import os, signal
from oversight.cache.cache import Cache
from oversight.engine.extensions.batches import batches
from oversight.engine.extensions.batches.endpoints import BatchEndpoint
from oversight.engine.extensions.batches.journal import BatchJournal

left = int(os.environ["KILL_AT"])


def step():
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)


def counted(cls, name, awaited):
    inner = getattr(cls, name)

    async def later(*given, **named):
        step()
        told = await inner(*given, **named)
        step()
        return told

    def now(*given, **named):
        step()
        inner(*given, **named)
        step()

    setattr(cls, name, later if awaited else now)


counted(BatchEndpoint, "asked", True)
counted(BatchJournal, "note", False)
counted(Cache, "keep", True)
batches.SETTLE, batches.MIN_POLL = 0.2, 0.05
# What a kill kept from leaving is free again at once, in place of a day later.
BatchEndpoint.window = -119.8
from oversight.engine.__main__ import main
main()
"""
"""The command, which kills itself before or after the step of that number: a request to a desk, a
line of the journal, a reply into the store."""


@dataclass
class Desk:
    """A working folder. Sittings are processes, or run in the process of the tests."""

    folder: Path
    problems: int = 2
    concurrency: int = CONCURRENCY
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = "".join(f"  {model}: {{concurrency: {self.concurrency}}}\n" for model in MODELS)
        self.file.write_text(SWEEP + limits)

    @property
    def file(self) -> Path:
        return self.folder / "sweep.yaml"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @contextmanager
    def server(self, profile: Mapping[str, Any], *flags: str) -> Iterator[str]:
        """A server whose models know the sweep's problems; later sittings find it at its URL."""
        file = self.folder / "profile.yaml"
        file.write_bytes(orjson.dumps(profile))
        with serving(["--profile", str(file), "--sweep", str(self.file), *flags]) as url:
            self._reach(url)
            yield url

    @contextmanager
    def vendor(self, **profile: Any) -> Iterator[Vendor]:
        """The same in this process, so that a test decides when it answers and when batches end."""
        with Vendor(actors(open_sweep(self.file)), **profile) as vendor:
            self._reach(vendor.url)
            yield vendor

    def _reach(self, url: str) -> None:
        keys = {"OPENAI_API_KEY": CANARY, "ANTHROPIC_API_KEY": CANARY}
        self.environment = {**keys, "OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}

    def start(self, *flags: str, script: str = "") -> "subprocess.Popen[str]":
        """A sitting under way. script: Python to run instead of the command itself."""
        return self.start_words(*self._words(flags), script=script)

    def start_words(self, *words: str, script: str = "") -> "subprocess.Popen[str]":
        """Any command under way."""
        program = ["-c", script] if script else ["-m", "oversight.engine"]
        return Started(
            [sys.executable, *program, *words],
            cwd=self.folder,
            env=environment(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A process group, as a terminal creates: signals may be sent to all of it.
            process_group=0,
        )

    def sit(self, *flags: str, script: str = "") -> "subprocess.CompletedProcess[str]":
        """A sitting to its end."""
        with self.start(*flags, script=script) as process:
            return end(process)

    def here(self, *words: str) -> Ran:
        """Any command to its end in this process, which saves the second that a new one takes."""
        return within(*words, cwd=self.folder, **self.environment)

    def sit_here(self, *flags: str) -> Ran:
        """A sitting to its end in this process."""
        return self.here(*self._words(flags))

    def status(self) -> dict[str, Any]:
        fields: dict[str, Any] = orjson.loads(self.here("status", "run", "--json").out)
        return fields

    def _words(self, flags: Sequence[str]) -> list[str]:
        places = ["--run-folder", "run", "--store", "store"]
        return ["run", "sweep.yaml", "--limit", str(self.problems), *places, *flags]

    def account(self) -> UsageTotals:
        """All calls of all sittings, from the run folder."""
        return sum_usage(read_ledger(self.run).values())
