"""`oversight plan --rehearse`: a whole sweep against a server on this machine, without a key.

The server has the latency, limits and faults of a profile, and simulated models answer, in another
process. Store and run folder are temporary."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from ...analysis.findings.finding import Finding, Part, people
from ...display.text import counted, duration, short
from ...display.throughput import clipped
from ...errors import Halt, UsageError
from ...models.accounting.ledger import UsageTotals, sum_usage
from ...providers.simulated import PREFIX
from ...run.execution import Execution
from ...run.observer import ProgressDisplay
from ...run.run import Run
from ...run.settings import RunSettings
from ...sweep.sweepfile import SweepFile, read_sweep_file
from ...views.cli.exit_codes import ExitCode
from ...views.cli.output import halt_code, show, show_json, width
from ...views.cli.terminal import under_signals
from ...views.pages.strip import COUNTS
from ..mock.connection import FastLoop
from ..mock.process import counts, serving, staged
from ..mock.profile import load_profile
from .estimate import Plan, plan_sweep


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
    seconds: float
    """Duration in simulated seconds."""

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
    settings: cap, prices and whether to ask in batches; store and folder are temporary ones.
    UsageError if all models are simulated: they answer within this process."""
    load_profile(profile)
    file = read_sweep_file(sweep, overrides, limit)
    if all(model.startswith(PREFIX) for model in file.sweep({}).models):
        raise UsageError(
            f"every model of {sweep} is simulated, which leaves nothing to rehearse: name real "
            "ones, such as --set agents.model=openai/gpt-4o-mini --set judges.model=…"
        )
    flags = ["--sweep", str(sweep), "--profile", profile, "--speed", "1", "--clock", str(speed)]
    flags += [flag for override in overrides for flag in ("--set", override)]
    flags += [] if limit is None else ["--limit", str(limit)]
    from ...providers.sdk import load_clients

    # On a fast clock the import would count as many seconds, and deadlines would pass.
    load_clients("openai", "anthropic")
    with serving(flags) as url:
        rehearsed, halt = _rehearsed(file, url, profile, speed, settings)
    if as_json:
        show_json({"agrees": rehearsed.agrees, "total": rehearsed.total, "rehearsal": rehearsed})
    else:
        show(f"{rehearsed.name} · rehearsed with the profile {profile}, at {speed:g} × real time")
        show(Finding((_table(rehearsed),)).text("text", width()))
        show("\n" + "\n".join(_notes(rehearsed)))
    if halt is not None:
        return halt_code(halt)
    return ExitCode.FAILED if rehearsed.failed or not rehearsed.agrees else ExitCode.DONE


def _rehearsed(
    file: SweepFile, url: str, profile: str, speed: float, settings: RunSettings
) -> tuple[Rehearsed, Halt | None]:
    ready, seconds = staged(file, url), 0.0
    batched = ready.models.deferred(ready.sweep.models, bool(settings.batch))
    with TemporaryDirectory(prefix="rehearsal-") as place:
        settings = replace(settings, store=Path(place) / "store", folder=Path(place) / "run")
        planned = asyncio.run(plan_sweep(ready, None, settings.price_list, batched))
        with Run.open(ready, settings) as run:
            execution = Execution(run)

            async def timed() -> Halt | None:
                nonlocal seconds
                clock = asyncio.get_running_loop().time
                began = clock()
                try:
                    return await execution.execute(ProgressDisplay(speed=speed))
                finally:
                    seconds = clock() - began

            loop = partial(FastLoop, speed)
            halt = under_signals(timed, ready.stop_token, execution.snapshot, loop)
        rehearsed = Rehearsed(
            ready.sweep.name,
            profile,
            speed,
            len(ready.sweep),
            run.folder.finished,
            run.folder.failed,
            "" if halt is None else str(halt),
            planned,
            execution.accounts(),
            counts(url),
            seconds,
        )
        return rehearsed, halt


def _table(rehearsed: Rehearsed) -> Part:
    title = (
        f"{rehearsed.finished:,} of {rehearsed.cells:,} cells, {rehearsed.failed:,} failed · "
        f"{duration(rehearsed.seconds)}, in {duration(rehearsed.seconds / rehearsed.speed)} here"
    )
    lines = [(clipped(model), account) for model, account in rehearsed.accounts.items()]
    if len(lines) > 1:
        lines.append(("total", rehearsed.total))
    # A kind of trouble that nobody had takes no column.
    paid = [count for count in COUNTS if any(count.value(line) > 0 for line in lines)]
    return Part("", title, (people("model", itemgetter(0), words=True), *paid), lines)


def _notes(rehearsed: Rehearsed) -> list[str]:
    total, planned = rehearsed.total, rehearsed.planned
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
    if total.unconfirmed:
        notes.append(f"unconfirmed requests may have cost ${total.unconfirmed:,.2f} more")
    if rehearsed.halt:
        notes.append(f"it stopped: {rehearsed.halt}")
    return notes
