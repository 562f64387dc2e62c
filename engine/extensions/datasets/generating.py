"""`oversight dataset generate-…`: runs a production in a terminal, and prints its result."""

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ....cache.cache import Cache
from ....protocols.datasets.jsonl import write_jsonl
from ....protocols.datasets.leak import leakage_check
from ....protocols.question import Problem
from ...analysis.reports.failures import called
from ...display.quantity import counted
from ...errors import Halt, UsageError
from ...models.accounting.ledger import Accounting
from ...models.router import Models
from ...providers.environment import environment
from ...providers.simulated import PREFIX
from ...run.batching import BatchedWork, Deferred, batching
from ...run.folders import locked
from ...run.observer import ProgressDisplay
from ...run.run import batched_models
from ...run.stores import open_store, store_name
from ...stop import StopToken
from ...sweep.document import Document
from ...views.cli.exit_codes import ExitCode
from ...views.cli.faults import halt_code
from ...views.cli.output import say, show, typed
from ...views.cli.terminal import under_signals
from .production import GenerateSettings, Production, ProductionSession

NAMED = 5
"""Maximum number of failures that are printed one by one."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The flags of a generation."""

    source: str
    """The file or data set to start from, as printed."""
    seed: int
    settings: GenerateSettings
    what: str
    """What each question should get, as printed."""
    remedy: str
    """The remedy to print if no question got it."""


def generate_all(wish: Wish, generation: Production[Any, Any]) -> int:
    """Generate missing answers, and write the file unless stopped; returns the exit code."""
    source, asks, output = Path(wish.source), wish.settings, wish.settings.output
    if source.exists() and output.exists() and output.samefile(source):
        raise UsageError(f"-o {output}: that is the file of the questions; name another")
    generation.require_abilities()
    if generation.model.startswith(PREFIX):
        say(f"{generation.model} is simulated: its answers are made up, for a trial only")
    models = Models(Document.parse("", "generate"), {}, {}, (), environment(Path()), StopToken())
    caps = asks.price_list, asks.max_cost, asks.max_tokens
    models.prepare([(generation.model, "--model")], Accounting.capped(*caps))
    batched = batched_models(models, (generation.model,), asks.batch)
    books = output.with_name(f"{output.name}.work")
    with ExitStack() as stack:
        make = batching() if batched or books.exists() else None
        if make is not None:
            books.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(books))

        def replies(cache: Cache) -> Deferred | None:
            return make and make(BatchedWork(books, models, cache, asks, batched))

        store = stack.enter_context(closing(open_store(store_name(asks.store))))
        session = ProductionSession(generation, models, store, asks.lanes, replies)
        halt = under_signals(
            partial(session.execute, ProgressDisplay()),
            models.stop_token,
            session.snapshot,
        )
    return _finished(generation, wish) if halt is None else _stopped(halt, generation)


def _stopped(halt: Halt, generation: Production[Any, Any]) -> int:
    done, items = generation.done, len(generation.items)
    say(f"{str(halt).rstrip('.')}. {done:,} of {items:,} questions done")
    say(f"nothing is written yet, and no reply is lost; go on with: {typed()}")
    return halt_code(halt)


def _finished(generation: Production[Any, Any], wish: Wish) -> int:
    output = wish.settings.output
    for id, failure in list(generation.failures.items())[:NAMED]:
        say(f"{id}: {called(failure.kind)}: {failure.message}")
    if (more := len(generation.failures) - NAMED) > 0:
        say(f"… and {more:,} more that nothing came of")
    problems = generation.problems(wish.seed)
    if not problems:
        raise UsageError(
            f"{wish.source}: no question got {wish.what}, and {output} is not written; "
            f"{wish.remedy}"
        )
    _write(problems, output)
    say(leakage_check(problems).line)
    say(f"inspect it  oversight dataset check {output}")
    done = f"{len(generation.made):,} of {len(generation.items):,} questions"
    show(f"{output}: {counted(len(problems), 'problem')} from {done}")
    return ExitCode.FAILED if generation.failures else ExitCode.DONE


def _write(problems: tuple[Problem, ...], path: Path) -> None:
    """Write the file atomically."""
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(problems, new)
        os.replace(new, path)
    except OSError as exc:
        raise UsageError(f"-o {path}: cannot be written: {exc.strerror}") from exc
