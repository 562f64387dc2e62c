"""`oversight replay`: run the cells again, from their recorded replies alone."""

import asyncio

import click

from ...reports.report import report
from ...reports.results import collect
from ...runs.loaded_sweep import open_run
from ...runs.outcome import read_outcome
from ...runs.recorded import recorded
from ...runs.replay import replay_cells
from ...runs.run_folder import lines
from ...sweeps.sweep import Cell
from ...system.loop import event_loop
from ..completing import run_names
from ..exit_codes import ExitCode
from ..naming import run_named
from ..options import format_option, recorded_option, score_option, set_option
from ..output import say, show, width


@click.command()
@click.argument("named", metavar="RUN", shell_complete=run_names)
@set_option
@recorded_option
@format_option
@score_option
def command(
    named: str, overrides: tuple[str, ...], store: str | None, format: str, score: str
) -> None:
    """Run the cells of the folder RUN again without asking any model, and print the report.

    Every outcome is compared with the recorded one: exit code 1 if any differs. Where
    --set makes it another sweep there is nothing to compare. A call that was never recorded ends
    the replay with exit code 5, naming the nearest recorded call and what differs. Writes nothing.
    """
    run = run_named(named, overrides)
    opened = open_run(run, overrides)
    changed = bool(overrides) and opened.sweep.identity != open_run(run).sweep.identity
    known = {} if changed else {read_outcome(line).place: line for line in lines(run)}
    replayed = [line for line in known.values() if not read_outcome(line).from_replies]
    lost = {read_outcome(line).place for line in replayed}
    cells = (
        cell
        for cell in opened.sweep.cells()
        if changed or (cell.place in known and cell.place not in lost)
    )
    different: list[str] = []

    def keep(cell: Cell, line: bytes) -> None:
        replayed.append(line)
        if known and known[cell.place] != line:
            different.append(cell.id)

    with recorded(run, store) as replies, asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(replay_cells(cells, replies, opened.models.identity_in(replies), keep))
    show(report(collect(opened.sweep, map(read_outcome, replayed), score=score), format, width()))
    if known:
        asked = len(replayed) - len(lost)
        say(f"{asked - len(different):,} of {asked:,} outcomes are equal to the byte")
        if lost:
            say(f"{len(lost):,} failed at their provider: there is no reply to replay")
        say("nothing was sent")
    if different:
        say(f"different: {', '.join(different[:5])}{', …' if len(different) > 5 else ''}")
        raise SystemExit(ExitCode.FAILED)
