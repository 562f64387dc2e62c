"""`oversight replay`: run the cells again, from their recorded replies alone."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from .....cache.errors import ReplayMiss
from ....analysis.reports.report import report
from ....analysis.reports.results import collect
from ....models.accounting.prices import PriceList
from ....run.folders import read_manifest
from ....run.lanes import NotedOutcome
from ....run.outcome import outcome_of
from ....run.reader import RunReader, origins, recorded
from ....run.record.capture import Capture
from ....run.replay import difference, difference_of_cells, open_run, replay_cells, unlike_replies
from ....run.sides import with_sides
from ....sweep.code import row_codes
from ....sweep.sweep import Cell, Sweep
from ....system.process import event_loop
from ....system.settings import argument, flag
from ..exit_codes import ExitCode
from ..flags import FORMAT, OWN_SWEEP, RECORDED_STORE, SCORE, SET, as_command
from ..naming import run_named
from ..output import say, show, width


@as_command
def command(
    run_word: str = argument("RUN"),
    overrides: tuple[str, ...] = SET,
    sweep: Path | None = OWN_SWEEP,
    store: str | None = RECORDED_STORE,
    passages: Path | None = flag(
        "File or folder with the source texts, such as the data set, for a run whose pack has only "
        "their digests.",
        metavar="FROM",
    ),
    format: str = FORMAT,
    score: str = SCORE,
) -> None:
    """Rerun the cells of RUN without calling any model, and print the report.

    Every cell is compared with its record: the outcome, each turn, and each call's model, stop
    reason, tokens and words. The first cell that differs is named, with
    the difference and the files whose code changed since, and the exit code is 1. A call that was
    never recorded ends the replay with exit code 5, naming the cell, the nearest recorded call and
    the difference. If --set makes it another sweep, nothing is compared. Writes nothing."""
    run = run_named(run_word, overrides)
    own_sweep = sweep or (
        Path(run_word) if Path(run_word).is_file() and run != Path(run_word).parent else None
    )
    opened = open_run(run, overrides, passages, own_sweep)
    before = open_run(run, (), passages, own_sweep) if overrides else opened
    changed = opened.sweep.identity != before.sweep.identity
    reader = RunReader(run)
    records = () if changed else reader.recorded_outcomes()
    earlier = {record.place: record for record in records}
    replayed = [record for record in earlier.values() if not record.from_replies]
    lost = {record.place for record in replayed}
    different: list[tuple[Cell, str]] = []
    under_way: list[Cell] = []
    failed: dict[int, Cell] = {}

    def cells() -> Iterator[Cell]:
        for cell in opened.sweep.cells():
            if cell.place in lost:
                failed[cell.place] = cell
            elif changed or cell.place in earlier:
                under_way[:] = [cell]
                yield cell

    models = opened.models
    capture = Capture(opened.sweep, models, PriceList({}), set())

    def keep(cell: Cell, ended: NotedOutcome) -> None:
        replayed.append(record := outcome_of(cell, ended.outcome))
        if not earlier:
            return
        changes = earlier[cell.place] != record and difference(earlier[cell.place], record)
        if not changes:
            (then,) = reader.tables.cells([cell.place])
            changes = difference_of_cells(then, capture.cell(cell, *ended))
        if changes:
            different.append((cell, changes))

    with recorded(run, store) as replies, asyncio.Runner(loop_factory=event_loop()) as runner:
        try:
            runner.run(replay_cells(cells(), replies, models.identity, keep, tags=models.tags))
            audited = unlike_replies(reader.tables.cells(failed), replies, models.tags)
            different += [(failed[cell.place], changes) for cell, changes in audited]
        except ReplayMiss:
            # One cell runs after the other.
            if earlier and under_way:
                say(f"first difference: {_shown(under_way[0])}")
                _tell_code(run, opened.sweep, under_way[0])
            raise
    sources = origins(opened.sweep, run)
    sides = {} if changed else reader.sides
    marked = (with_sides(record, sides) for record in replayed)
    results = collect(opened.sweep, marked, score=score, origins=sources)
    show(report(results, format, width()))
    if earlier:
        repeated = len(replayed) - len(lost)
        unequal = {cell.place for cell, _ in different} - lost
        say(f"{repeated - len(unequal):,} of {repeated:,} outcomes are equal to the byte")
        if lost:
            say(f"{len(lost):,} failed at their provider: no reply to replay")
        say("nothing was sent")
    if different:
        cell, reasons = different[0]
        say(f"first difference: {_shown(cell)}: {reasons}")
        _tell_code(run, opened.sweep, cell)
        raise SystemExit(ExitCode.FAILED)


def _shown(cell: Cell) -> str:
    label = cell.problem.question.answers[cell.side].label
    return f"cell {cell.id} ({cell.row.title}; {cell.problem.id}, side {label}, draw {cell.draw})"


def _tell_code(run: Path, sweep: Sweep, cell: Cell) -> None:
    """Say which code of the cell's row changed since the run was made."""
    code = read_manifest(run).code_of(sweep)
    if code is None:
        say("the run is not known as one of this sweep: its settings changed, or its code did")
        return
    changes = code.changes(row_codes([cell.row]), [cell.row])
    for change in changes.values():
        say(f"code changed: {change}")
    if not changes:
        several = len(set(code.rows[cell.row.address])) > 1
        say(
            "the run went on with other code in between (--allow-changed-code)"
            if several
            else "the code of its row is unchanged: a reply was replaced, or its code reads "
            "chance, time or files"
        )
