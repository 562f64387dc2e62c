"""`oversight dataset generate-wrong`: a generation under a terminal, and what it says."""

import os
import shlex
import sys
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oversight.cache.disk import DiskStore
from oversight.engine.accounting.prices import listed
from oversight.engine.cli.output import say, show
from oversight.engine.cli.terminal import under_signals
from oversight.engine.datasets.generation import Generation, GenerationSession
from oversight.engine.display.progress import console
from oversight.engine.errors import BudgetReached, Halt, Interrupted, UsageError
from oversight.engine.models.router import Models, RunPolicy
from oversight.engine.providers.keys import environment
from oversight.engine.reports.failures import called
from oversight.engine.runs.observer import ProgressDisplay
from oversight.engine.simulation.model import PREFIX
from oversight.engine.stop import StopToken
from oversight.engine.sweeps.document import Document
from oversight.engine.system.loop import event_loop
from oversight.protocols.datasets.generation import Generator
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.datasets.known import known_questions
from oversight.protocols.datasets.leak import leak_gate
from oversight.protocols.question import Problem

SOME_FAILED, STOPPED, OVER_BUDGET = 1, 3, 4
NAMED = 5
"""Failures that are told one by one."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the flags ask for."""

    file: Path
    output: Path
    store: Path
    seed: int
    limit: int | None
    lanes: int
    max_cost: float | None


def generate_all(wish: Wish, generator: Generator) -> int:
    """Generate what is missing, and write the file if nothing stopped it; the exit code."""
    questions = known_questions(wish.file)[: wish.limit]
    if wish.output.exists() and wish.output.samefile(wish.file):
        raise UsageError(f"-o {wish.output}: that is the file of the questions; name another")
    generation = Generation(questions, generator)
    generation.require_abilities()
    if generator.model.startswith(PREFIX):
        say(f"{generator.model} is simulated: its wrong answers are made up, to try this out only")
    models = Models(
        Document.parse("", "generate-wrong"), {}, {}, (), environment(Path()), StopToken()
    )
    models.prepare([(generator.model, "--model")], RunPolicy(listed(), wish.max_cost))
    with closing(DiskStore(wish.store)) as store:
        session = GenerationSession(generation, models, store, wish.lanes)
        halt = under_signals(
            partial(session.execute, ProgressDisplay(console())),
            models.stop_token,
            session.snapshot,
            event_loop(),
        )
    return _finished(generation, wish) if halt is None else _stopped(halt, generation)


def _stopped(halt: Halt, generation: Generation) -> int:
    done = len(generation.drafts) + len(generation.failures)
    say(f"{str(halt).rstrip('.')}. {done:,} of {len(generation.questions):,} questions done")
    say(f"nothing is written yet, and no reply is lost; go on with: {_again()}")
    match halt:
        case Interrupted():
            return 128 + halt.signal
        case BudgetReached():
            return OVER_BUDGET
    return STOPPED


def _finished(generation: Generation, wish: Wish) -> int:
    for id, failure in list(generation.failures.items())[:NAMED]:
        say(f"{id}: {called(failure.kind)}: {failure.message}")
    if (more := len(generation.failures) - NAMED) > 0:
        say(f"… and {more:,} more without a wrong answer")
    problems = generation.problems(wish.seed)
    if not problems:
        raise UsageError(
            f"{wish.file}: no question got a wrong answer, and {wish.output} is not written; "
            "take another model, or more --drafts"
        )
    _write(problems, wish.output)
    say(leak_gate(problems).line)
    say(f"look closer oversight dataset check {wish.output}")
    show(f"{wish.output}: {len(problems):,} of {len(generation.questions):,} questions")
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
