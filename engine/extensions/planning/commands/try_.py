"""`oversight try`: an author's class on one problem in all its worlds, before it costs anything."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from ....analysis.reports.side_by_side import as_plain, side_by_side
from ....display.console import PrintableConsole
from ....display.quantity import counted
from ....extensions.planning.prompts import Prompted, prompts_read
from ....extensions.planning.trial import Trial, Tried, tried
from ....system.flags import argument
from ....views.cli.exit_codes import ExitCode
from ....views.cli.flags import as_command
from ....views.cli.options import JSON, SET
from ....views.cli.output import show, show_json

PASSAGE = re.compile(r"(?<=<passage>\n)(.{60}).*?\n(?=</passage>)", re.DOTALL)


@as_command
def command(
    subject: str = argument("FILE:NAME"),
    overrides: tuple[str, ...] = SET,
    as_json: bool = JSON,
) -> None:
    """Try a protocol, judge, agent or data set that you wrote. Nothing is sent.

    FILE:NAME is written as in a sweep file: my_file.py:MyClass, or my_package.my_module:MyClass.
    One problem is run in all of its worlds on simulated models, and on ones that answer badly, are
    mute, or have no credit left. All mistakes are listed at once, each with its line; then come the
    prompts, the transcripts, the verdicts and the calls that the worlds share. `oversight plan`
    says what a sweep with it costs.

    --set rounds=3 overrides a setting of the class; with a section's name before it, one of the
    sweep that tries it.

    Exit codes: 0 nothing is wrong, 1 something is.
    """
    found = tried(subject, overrides)
    fine, trial = not found.mistakes, found.trial
    prompts = asyncio.run(prompts_read(trial.sweep)) if trial is not None and fine else []
    if as_json:
        show_json(_plain(subject, found, prompts))
    else:
        _show(subject, found, prompts)
    raise SystemExit(ExitCode.DONE if fine else ExitCode.FAILED)


def _show(word: str, found: Tried, prompts: Sequence[Prompted]) -> None:
    told = set[str]()
    for each in prompts:
        show(f"[{each.protocol} · {each.seat} · {each.model}]")
        show("\n".join(f"{role}: {_brief(text, told)}" for role, text in each.messages) + "\n")
    trial = found.trial
    if trial is not None and trial.worlds:
        cell, console = trial.worlds[0].cell, PrintableConsole()
        worlds = [world.shown for world in trial.worlds]
        console.print(side_by_side(cell.row, cell.problem, worlds, "brier", console.width))
        show(_sharing(trial))
    for fault in found.mistakes:
        show(f"{word.rpartition(':')[0]}:{fault.line}: {fault.check}: {fault.message}")
    wrong = counted(len(found.mistakes), "fault") if found.mistakes else "nothing is wrong"
    show(f"{word}: {wrong}")


def _brief(text: str, told: set[str]) -> str:
    """A message with the first line of its passage; of what an earlier seat was told, as the
    question, the first line. told: the parts that stand above, to which its own are added."""
    parts = PASSAGE.sub(r"\1 …\n", text).split("\n\n")
    shown = (f"{part.splitlines()[0]} … as above" if part in told else part for part in parts)
    brief = "\n\n".join(shown).replace(" … as above\n\n", " … as above\n")
    told.update(part for part in parts if "\n" in part)
    return brief


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
