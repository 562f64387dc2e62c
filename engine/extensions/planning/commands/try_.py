"""`oversight try`: an author's class on one problem in all its worlds, before it costs anything."""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....analysis.reports.side_by_side import as_plain, side_by_side
from ....display.console import PrintableConsole
from ....display.quantity import counted
from ....errors import EngineError
from ....extensions.planning.prompts import Prompted, prompts_read
from ....extensions.planning.trial import Trial, Tried, tried
from ....system.flags import argument, flag
from ....views.cli.exit_codes import ExitCode
from ....views.cli.flags import as_command
from ....views.cli.options import JSON, SET
from ....views.cli.output import say, show, show_json

LOOK_SECONDS = 0.3
PASSAGE = re.compile(r"(?<=<passage>\n)(.{60}).*?\n(?=</passage>)", re.DOTALL)


@as_command
def command(
    subject: str = argument("FILE:NAME"),
    overrides: tuple[str, ...] = SET,
    watch: bool = flag("Try it again whenever the file is saved.", default=False),
    as_json: bool = JSON,
) -> None:
    """Try a protocol, judge, agent, data set or tool of your own. Nothing is sent.

    FILE:NAME is written as in a sweep file: my_file.py:MyClass, or my_package.my_module:MyClass.
    One problem is run in all of its worlds on simulated models, and on ones that answer badly, are
    mute, or have no credit left. All mistakes are listed at once, each with its line; then come the
    prompts, the transcripts, the verdicts and the calls that the worlds share. `oversight plan`
    says what a sweep with it costs.

    --set rounds=3 overrides a setting of the class; with a section's name before it, one of the
    sweep that tries it.

    Exit codes: 0 nothing is wrong, 1 something is.
    """
    while True:
        try:
            fine = _tried(subject, overrides, as_json)
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


def _tried(word: str, overrides: Sequence[str], as_json: bool) -> bool:
    """Whether nothing is wrong; prints what was found."""
    found = tried(word, overrides)
    fine, path = not found.mistakes, word.rpartition(":")[0]
    trial = found.trial
    prompts = asyncio.run(prompts_read(trial.sweep)) if trial is not None and fine else []
    if as_json:
        show_json(_plain(word, found, prompts))
        return fine
    for each in prompts:
        show(f"[{each.protocol} · {each.seat} · {each.model}]")
        show("\n".join(f"{role}: {_brief(text)}" for role, text in each.messages) + "\n")
    if trial is not None and trial.worlds:
        cell, console = trial.worlds[0].cell, PrintableConsole()
        worlds = [world.shown for world in trial.worlds]
        console.print(side_by_side(cell.row, cell.problem, worlds, "brier", console.width))
        show(_sharing(trial))
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


def _plain(word: str, found: Tried, prompts: Sequence[Prompted]) -> dict[str, Any]:
    trial = found.trial
    plain: dict[str, Any] = {
        "subject": word,
        "kind": found.subject.kind.name if found.subject else None,
        "mistakes": found.mistakes,
        "prompts": prompts,
    }
    if trial is not None and trial.worlds:
        cell = trial.worlds[0].cell
        worlds = [world.shown for world in trial.worlds]
        plain |= as_plain(cell.row, cell.problem, worlds, "brier")
        plain["asked"] = [sorted(world.calls) for world in trial.worlds]
    return plain
