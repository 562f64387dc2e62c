"""`oversight plan --rehearse`: a whole sweep against a server on this machine, without a key.

The server has the latency, limits and faults of a profile, and simulated models answer, in another
process. Store and run folder are temporary.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from ...display.quantity import counted, duration, short
from ...display.table import Table, as_text
from ...errors import Halt, RateLimited
from ...models.accounting.ledger import UsageTotals, sum_usage
from ...models.router import Models
from ...providers import sdk_clients
from ...providers.simulated import PREFIX
from ...run.execution import execute
from ...run.observer import ProgressDisplay
from ...run.run import Run
from ...run.settings import RunSettings
from ...sweep.sweepfile import SweepFile, read_sweep_file
from ...throughput import Resource, clipped
from ...views.cli.exit_codes import ExitCode
from ...views.cli.faults import halt_code
from ...views.cli.output import say, show, show_json, width
from ...views.cli.terminal import under_signals
from ..mock.clock import FastLoop
from ..mock.process import counts, serving
from ..mock.profile import load_profile
from ..mock.rehearsed import staged
from .estimate import Plan, plan_sweep

SAMPLE_EVERY = 0.25
"""Simulated seconds between two samples of each model's bottleneck."""


BUSY = 0.7
"""Share of time spent computing above which this machine is the bottleneck, not a limit."""

STAND_IN_MODEL = "openai/gpt-4o-mini"
"""Replaces simulated models, which answer within this process and so leave nothing to rehearse."""


@dataclass(slots=True)
class BottleneckSampler:
    """Samples of each model's bottleneck, and the CPU time of this process."""

    bound: defaultdict[str, Counter[Resource]] = field(default_factory=lambda: defaultdict(Counter))
    """Model -> number of samples by bottleneck."""
    looks: int = 0
    story: float = 0.0
    """Duration in simulated seconds."""
    real: float = 0.0
    """Duration in real seconds."""
    computing: float = 0.0
    """CPU seconds of this process."""

    @asynccontextmanager
    async def over(self, models: Models) -> AsyncIterator[None]:
        """Sample while the body runs."""
        clock = asyncio.get_running_loop().time
        began = clock(), time.perf_counter(), time.process_time()
        looking = asyncio.create_task(self._look(models))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait([looking])
            self.story = clock() - began[0]
            self.real = time.perf_counter() - began[1]
            self.computing = time.process_time() - began[2]

    async def _look(self, models: Models) -> None:
        while True:
            await asyncio.sleep(SAMPLE_EVERY)
            self.looks += 1
            for model, now in models.statistics().items():
                if now.binding is not None:
                    self.bound[model][now.binding.resource] += 1


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The result of a rehearsal."""

    name: str
    profile: str
    speed: float
    """Simulated seconds per real second."""
    cells: int
    finished: int
    failed: int
    halt: str
    """Why it stopped early; empty if it did not."""
    planned: Plan
    """The plan made before it."""
    accounts: Mapping[str, UsageTotals]
    """The ledger, by model."""
    server: Mapping[str, int]
    """The server's counts; see oversight.engine.extensions.mock.MockServer.counts."""
    watch: BottleneckSampler

    @property
    def total(self) -> UsageTotals:
        return sum_usage(self.accounts.values())

    @property
    def seen(self) -> int:
        """Number of requests that the server saw; calls in a batch count once it has ended."""
        return self.server.get("requests", 0) + self.server.get("lines_ended", 0)

    @property
    def agrees(self) -> bool:
        """Whether the server saw as many requests as the ledger has."""
        return self.total.sent == self.seen


def rehearse(
    sweep: Path,
    overrides: Sequence[str],
    limit: int | None,
    profile: str,
    speed: float,
    settings: RunSettings,
    as_json: bool,
) -> int:
    """Run the whole of a sweep against the server, and print what came of it; the exit code.

    In a sweep whose models are all simulated, one real model stands in for them. settings: cap,
    prices and whether to ask in batches; store and folder are temporary ones."""
    load_profile(profile)
    file = read_sweep_file(sweep, overrides, limit)
    if all(model.startswith(PREFIX) for model in file.sweep({}).models):
        say(f"every model of {sweep} is simulated: {STAND_IN_MODEL} stands in for them")
        say("to rehearse with another: --set agents.model=… --set judges.model=…")
        overrides = (*overrides, *_stand_ins(file.document.value), "grid=skip")
        file = read_sweep_file(sweep, overrides, limit)
    flags = ["--sweep", str(sweep), "--profile", profile, "--speed", "1", "--clock", str(speed)]
    flags += [flag for override in overrides for flag in ("--set", override)]
    flags += [] if limit is None else ["--limit", str(limit)]
    # On a fast clock the import would count as many seconds, and deadlines would pass.
    sdk_clients.load_clients()
    with serving(flags) as url:
        rehearsed, halt = _rehearsed(file, url, profile, speed, settings)
    if as_json:
        show_json({"agrees": rehearsed.agrees, "total": rehearsed.total, "rehearsal": rehearsed})
    else:
        profile, speed = rehearsed.profile, rehearsed.speed
        show(f"{rehearsed.name} · rehearsed with the profile {profile}, at {speed:g} × real time")
        show(as_text(_table(rehearsed), width()))
        show("")
        show("\n".join(_notes(rehearsed)))
    return _exit_code(rehearsed, halt)


def _stand_ins(settings: Mapping[str, Any]) -> Iterator[str]:
    """Values for `--set` that replace every simulated model by the stand-in."""
    for section, given in settings.items():
        if (replaced := _replaced(given)) != given:
            yield f"{section}={orjson.dumps(replaced).decode()}"


def _replaced(setting: Any) -> Any:
    """A setting with the stand-in for every simulated model."""
    match setting:
        case dict():
            return {name: _replaced(each) for name, each in setting.items()}
        case list():
            # Points of an axis that differed in the model alone are one now.
            points = [_replaced(each) for each in setting]
            return [each for n, each in enumerate(points) if each not in points[:n]]
        case str() if setting.startswith(PREFIX):
            return STAND_IN_MODEL
    return setting


def _rehearsed(
    file: SweepFile,
    url: str,
    profile: str,
    speed: float,
    settings: RunSettings,
) -> tuple[Rehearsed, Halt | None]:
    ready, watch = staged(file, url), BottleneckSampler()
    batched = ready.models.batched(ready.sweep.models, bool(settings.batch))
    with TemporaryDirectory(prefix="rehearsal-") as place:
        settings = replace(settings, store=Path(place) / "store", folder=Path(place) / "run")
        planned = asyncio.run(plan_sweep(ready, None, settings.price_list, batched))
        with Run.open(ready, settings) as run:

            async def watched() -> Halt | None:
                async with watch.over(ready.models):
                    return await execute(run, ProgressDisplay(speed=speed))

            loop = partial(FastLoop, speed)
            halt = under_signals(watched, ready.stop_token, run.snapshot, loop)
        rehearsed = Rehearsed(
            ready.sweep.name,
            profile,
            speed,
            len(ready.sweep),
            run.folder.finished,
            run.folder.failed,
            "" if halt is None else str(halt),
            planned,
            run.accounts(),
            counts(url),
            watch,
        )
        return rehearsed, halt


def _table(rehearsed: Rehearsed) -> Table:
    watch = rehearsed.watch
    title = (
        f"{rehearsed.finished:,} of {rehearsed.cells:,} cells, "
        f"{rehearsed.failed:,} failed · {duration(watch.story)}, in {duration(watch.real)} here"
    )
    lines = [
        (clipped(model), _bottleneck(watch, model), account)
        for model, account in rehearsed.accounts.items()
    ]
    if len(lines) > 1:
        lines.append(("total", "", rehearsed.total))
    # A kind of trouble that nobody had takes no column.
    shown = {
        head: figure
        for head, figure in FIGURES.items()
        if head not in TROUBLES or any(figure(account) != "0" for _, _, account in lines)
    }
    rows = tuple((*names, *(cell(each) for cell in shown.values())) for *names, each in lines)
    return Table(title, ("model", "bottleneck", *shown), rows, 2)


def _rate_limited(account: UsageTotals) -> int:
    return sum(count for _, kind, count in account.faults if kind == RateLimited.slug)


FIGURES: Mapping[str, Callable[[UsageTotals], str]] = {
    "requests": lambda account: f"{account.sent:,}",
    "replies": lambda account: f"{account.stored:,}",
    "refused": lambda account: f"{dict(account.outcomes).get('refused', 0):,}",
    "429": lambda account: f"{_rate_limited(account):,}",
    "other faults": lambda account: (
        f"{account.count('failed') - _rate_limited(account) + account.count('unsent'):,}"
    ),
    "in doubt": lambda account: f"{account.count('ambiguous'):,}",
    "tokens in": lambda account: short(account.usage.input_tokens),
    "out": lambda account: short(account.usage.output_tokens),
    "dollars": lambda account: f"{account.dollars:,.2f}",
}
TROUBLES = ("refused", "429", "other faults", "in doubt")


def _bottleneck(watch: BottleneckSampler, model: str) -> str:
    """The most frequent bottleneck, and the share of samples in which it was seen."""
    if not watch.bound[model]:
        return "none"
    (resource, looks), *_ = watch.bound[model].most_common(1)
    return f"{resource} {looks / watch.looks:.0%}"


def _notes(rehearsed: Rehearsed) -> list[str]:
    total, planned, watch = rehearsed.total, rehearsed.planned, rehearsed.watch
    requests = counted(total.sent, "request")
    notes = [f"the ledger has {requests}, the server saw {rehearsed.seen:,}"]
    if batches := rehearsed.server.get("batches", 0):
        calls = counted(rehearsed.server["lines"], "call")
        notes.append(f"{calls} went in {counted(batches, 'batch', 'batches')}")
    cost = planned.cost
    expected = (
        "" if cost is None else f", ${cost.likely:,.2f} (${cost.low:,.2f} to ${cost.high:,.2f})"
    )
    calls, tokens = counted(planned.total("calls"), "call"), short(planned.total("input_tokens"))
    out = short(planned.total("output_tokens"))
    notes.append(f"the plan was {calls}, {tokens} tokens in, {out} out{expected}")
    if total.doubtful:
        notes.append(f"requests in doubt may have cost ${total.doubtful:,.2f} more")
    if watch.computing > BUSY * watch.real:
        notes.append(
            f"this machine computed {watch.computing / watch.real:.0%} of the time: with a lower "
            "--speed the figures are those of the limits"
        )
    if rehearsed.halt:
        notes.append(f"it stopped: {rehearsed.halt}")
    return notes


def _exit_code(rehearsed: Rehearsed, halt: Halt | None) -> int:
    if halt is not None:
        return halt_code(halt)
    return ExitCode.FAILED if rehearsed.failed or not rehearsed.agrees else ExitCode.DONE
