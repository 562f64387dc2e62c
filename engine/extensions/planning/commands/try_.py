"""`oversight try`: an author's class on one problem in all its worlds, before it costs anything."""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from .....protocols.datasets.bundled import bundled
from .....protocols.datasets.loader import Loader
from ....display.console import PrintableConsole
from ....display.quantity import counted
from ....errors import EngineError
from ....extensions.planning.estimate import Plan, plan_sweep
from ....extensions.planning.prompts import Prompted, prompts_read
from ....extensions.planning.subject import Subject
from ....extensions.planning.trial import Trial, Tried, tried
from ....models.accounting.prices import listed
from ....run.loaded_sweep import load_sweep
from ....system.flags import argument, flag
from ....views.api.side_by_side import as_plain, side_by_side
from ....views.cli.exit_codes import ExitCode
from ....views.cli.flags import as_command
from ....views.cli.options import JSON, SET
from ....views.cli.output import say, show, show_json

PAID = {"agent": "openai/gpt-6-sol", "judge": "openai/gpt-6-luna"}
PLANNED = 10
"""Problems of the paid run whose cost is stated."""
LOOK_SECONDS = 0.3
PASSAGE = re.compile(r"(?<=<passage>\n)(.{60}).*?\n(?=</passage>)", re.DOTALL)


@as_command
def command(
    subject: str = argument("FILE:NAME"),
    overrides: tuple[str, ...] = SET,
    watch: bool = flag("Try it again whenever the file is saved.", default=False),
    paid_agent: str = flag(
        "Agent of the run that is priced.", default=PAID["agent"], metavar="MODEL"
    ),
    paid_judge: str = flag(
        "Judge of the run that is priced.", default=PAID["judge"], metavar="MODEL"
    ),
    as_json: bool = JSON,
) -> None:
    """Try a protocol, judge, agent, data set or tool of your own. Nothing is sent.

    FILE:NAME is written as in a sweep file: my_file.py:MyClass, or my_package.my_module:MyClass.
    One problem is run in all of its worlds on simulated models, and on ones that answer badly, are
    mute, or have no credit left. What is wrong is listed with its line, all of it at once; then
    come the prompts, the transcripts, the verdicts, what the worlds share and what a run costs.

    --set rounds=3 overrides a setting of the class; with a section's name before it, one of the
    sweep that tries it.

    Exit codes: 0 nothing is wrong, 1 something is.
    """
    while True:
        try:
            fine = _tried(subject, overrides, paid_agent, paid_judge, as_json)
        except EngineError as exc:
            if not watch:
                raise
            fine = False
            say(str(exc))
        if not watch:
            raise SystemExit(ExitCode.DONE if fine else ExitCode.FAILED)
        file = Path(subject.rpartition(":")[0])
        say(f"watching {file}; Ctrl-C ends it")
        _wait_for_change(file)


def _wait_for_change(file: Path) -> None:
    before = _stamp(file)
    while _stamp(file) == before:
        time.sleep(LOOK_SECONDS)


def _stamp(file: Path) -> object:
    with suppress(FileNotFoundError):
        stat = file.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
    return None


def _tried(word: str, overrides: Sequence[str], agent: str, judge: str, as_json: bool) -> bool:
    """Whether nothing is wrong; prints what was found."""
    found = tried(word, overrides)
    fine, path = not found.mistakes, word.rpartition(":")[0]
    trial, subject = found.trial, found.subject
    prompts = asyncio.run(prompts_read(trial.sweep)) if trial is not None and fine else []
    paid = _paid(subject, overrides, agent, judge) if subject is not None and fine else None
    if as_json:
        show_json(_plain(word, found, prompts, paid))
        return fine
    for each in prompts:
        show(f"[{each.protocol} · {each.seat} · {each.model}]")
        show("\n".join(f"{role}: {_brief(text)}" for role, text in each.messages) + "\n")
    if trial is not None and trial.worlds:
        cell, console = trial.worlds[0].cell, PrintableConsole()
        worlds = [world.shown for world in trial.worlds]
        console.print(side_by_side(cell.row, cell.problem, worlds, "brier", console.width))
        show(_sharing(trial))
    if paid is not None:
        show(_cost(paid))
    for fault in found.mistakes:
        show(f"{path}:{fault.line}: {fault.check}: {fault.message}")
    wrong = counted(len(found.mistakes), "fault")
    show(f"{word}: {'nothing is wrong' if fine else wrong}")
    return fine


def _brief(text: str) -> str:
    """A message with the first line of its passage."""
    return PASSAGE.sub(r"\1 …\n", text)


def _sharing(trial: Trial) -> str:
    each = [world.calls for world in trial.worlds]
    together, shared = set().union(*each), set(each[0]).intersection(*each[1:])
    counts = " + ".join(str(len(calls)) for calls in each)
    return (
        f"calls: {counts} in the worlds, {counted(len(together), 'different one')}; "
        f"{len(shared)} in every world"
    )


def _paid(subject: Subject, overrides: Sequence[str], agent: str, judge: str) -> Plan:
    """The plan of a run of the subject on real models. UsageError for models that are unknown."""
    file = subject.sweep(overrides, agent, judge)
    if file.problems and subject.kind.base is not Loader:
        file = replace(file, problems=bundled("arithmetic")[:PLANNED])
    return asyncio.run(plan_sweep(load_sweep(file), None, listed(), frozenset()))


def _cost(plan: Plan) -> str:
    models = " and ".join(model.model for model in plan.models)
    cost = plan.cost
    dollars = f"${cost.low:,.2f} to ${cost.high:,.2f}" if cost else "at prices that are not known"
    return (
        f"a run with {models}, {counted(plan.problems, 'problem')}: "
        f"{counted(plan.total('calls'), 'call')}, {dollars}"
    )


def _plain(
    word: str, found: Tried, prompts: Sequence[Prompted], paid: Plan | None
) -> dict[str, Any]:
    trial = found.trial
    plain: dict[str, Any] = {
        "subject": word,
        "kind": found.subject.kind.name if found.subject else None,
        "mistakes": found.mistakes,
        "prompts": prompts,
        "plan": paid,
    }
    if trial is not None and trial.worlds:
        cell = trial.worlds[0].cell
        worlds = [world.shown for world in trial.worlds]
        plain |= as_plain(cell.row, cell.problem, worlds, "brier")
        plain["asked"] = [sorted(world.calls) for world in trial.worlds]
    return plain
