"""`oversight dataset generate-…`: a production under a terminal, and what it says."""

import asyncio
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oversight.cache.cache import Cache
from oversight.cache.disk import DiskStore
from oversight.cache.store import Store
from oversight.engine.accounting.prices import listed
from oversight.engine.cli.output import say, show
from oversight.engine.cli.signals import obey_signals
from oversight.engine.datasets.production import Production
from oversight.engine.display.progress import Snapshot, console, progress
from oversight.engine.errors import BudgetReached, Halt, Interrupted, UsageError
from oversight.engine.models.router import Models, RunPolicy
from oversight.engine.providers.keys import environment
from oversight.engine.reports.failures import called
from oversight.engine.simulation.model import PREFIX
from oversight.engine.stop import StopToken
from oversight.engine.sweeps.document import Document
from oversight.engine.system.loop import event_loop
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.datasets.leak import leak_gate
from oversight.protocols.question import Problem

SOME_FAILED, STOPPED, OVER_BUDGET = 1, 3, 4
NAMED = 5
"""Failures that are told one by one."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the flags ask for."""

    source: str
    """The file or the data set that it starts from, as people are told."""
    output: Path
    store: Path
    seed: int
    lanes: int
    max_cost: float | None
    what: str
    """What each question is to get."""
    mend: str
    """What to do where none got it."""


def generate_all(wish: Wish, generation: Production[Any, Any]) -> int:
    """Generate what is missing, and write the file if nothing stopped it; the exit code."""
    source = Path(wish.source)
    if source.exists() and wish.output.exists() and wish.output.samefile(source):
        raise UsageError(f"-o {wish.output}: that is the file of the questions; name another")
    generation.require_abilities()
    if generation.model.startswith(PREFIX):
        say(f"{generation.model} is simulated: what it writes is made up, to try this out only")
    models = Models(Document.parse("", "generate"), {}, {}, (), environment(Path()), StopToken())
    models.prepare([(generation.model, "--model")], RunPolicy(listed(), wish.max_cost))
    store = DiskStore(wish.store)
    try:
        with asyncio.Runner(loop_factory=event_loop()) as runner:
            try:
                halt = runner.run(_run(generation, models, store, wish))
            except asyncio.CancelledError:
                halt = models.stop_token.halt
                say("calls in flight were abandoned; what had landed is saved")
    finally:
        store.close()
    return _finished(generation, wish) if halt is None else _stopped(halt, generation)


async def _run(
    generation: Production[Any, Any], models: Models, store: Store, wish: Wish
) -> Halt | None:
    cache = Cache(store, models, identity=models.identity_in(store))

    def snapshot() -> Snapshot:
        calls = cache.statistics
        dollars = sum(account.dollars for account in models.accounts().values())
        return Snapshot(
            len(generation.items),
            generation.done,
            len(generation.failures),
            calls.asked,
            calls.stored,
            calls.shared,
            sum(failure.kind == "declined" for failure in generation.failures.values()),
            f"${dollars:.2f}" if dollars else "",
            models.lines(),
            f"stopping: {models.stop_token.halt}" if models.stop_token.halt else "",
        )

    obey_signals(models)
    try:
        async with progress(snapshot, console()):
            return await generation.run(cache, models.stop_token, wish.lanes)
    finally:
        await models.close()


def _stopped(halt: Halt, generation: Production[Any, Any]) -> int:
    done, items = generation.done, len(generation.items)
    say(f"{str(halt).rstrip('.')}. {done:,} of {items:,} questions done")
    say(f"nothing is written yet, and no reply is lost; go on with: {_again()}")
    match halt:
        case Interrupted():
            return 128 + halt.signal
        case BudgetReached():
            return OVER_BUDGET
    return STOPPED


def _finished(generation: Production[Any, Any], wish: Wish) -> int:
    for id, failure in list(generation.failures.items())[:NAMED]:
        say(f"{id}: {called(failure.kind)}: {failure.message}")
    if (more := len(generation.failures) - NAMED) > 0:
        say(f"… and {more:,} more that nothing came of")
    problems = generation.problems(wish.seed)
    if not problems:
        raise UsageError(
            f"{wish.source}: no question got {wish.what}, and {wish.output} is not written; "
            f"{wish.mend}"
        )
    _write(problems, wish.output)
    say(leak_gate(problems).line)
    say(f"look closer oversight dataset check {wish.output}")
    show(f"{wish.output}: {len(problems):,} of {len(generation.items):,} questions")
    return SOME_FAILED if generation.failures else 0


def _write(problems: tuple[Problem, ...], path: Path) -> None:
    """Whole, or not at all."""
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(problems, new)
        os.replace(new, path)
    except OSError as exc:
        raise UsageError(f"-o {path}: cannot be written: {exc.strerror}") from exc


def _again() -> str:
    return shlex.join(["oversight", *sys.argv[1:]])
