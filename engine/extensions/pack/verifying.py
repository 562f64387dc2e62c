"""Verifying a portable file: its figures and cells are computed again from its replies, and each
difference is named by member, row and field. No code of a pack is executed, and no socket is
opened. Invented replies are not detected."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson

from ....cache.disk import ReadOnlyStore
from ....cache.entry import StoreEntry, read_entries
from ....cache.errors import CacheError, DamagedEntry, ReplayMiss
from ....cache.portable import MANIFEST, Contents, PortableFile
from ....cache.store import Reader
from ....protocols.errors import ProtocolError
from ...errors import EngineError, UsageError
from ...models.accounting.prices import PriceList
from ...run.lanes import NotedOutcome
from ...run.loaded_sweep import LoadedSweep
from ...run.outcome import outcome_of
from ...run.reader import REPLIES, RunReader
from ...run.record.capture import Capture
from ...run.record.schema import RUN_DB
from ...run.replay import (
    difference,
    difference_of_cells,
    open_run,
    replay_cells,
    tags_named,
    unlike_replies,
)
from ...run.run_folder import OUTCOMES, SWEEP
from ...sweep.grid import stored_grid
from ...sweep.sweep import Cell
from ...system.files import read_bounded, whole_lines
from ...system.process import event_loop
from .pack import FIGURES, RUN, checked_cells, figures_of, unpack

MAX_FIGURES = 2**30
"""Maximum size of the figures of a pack, in bytes."""


class Verified(NamedTuple):
    contents: Contents | None
    """None for a file that cannot be opened."""
    differences: tuple[str, ...]
    not_run_again: str = ""
    """Why its cells were not run again; empty if they were."""


def verify(file: Path) -> Verified:
    """Compare all that a portable file holds with its replies."""
    contents = None
    with TemporaryDirectory(prefix="oversight-pack") as at:
        folder = Path(at) / "run"
        try:
            with PortableFile(file) as packed:
                contents = packed.contents
                if contents.kind != "run":
                    return Verified(contents, tuple(_wrong_replies(packed)))
                folder.mkdir()
                entries = unpack(packed, folder)
            damaged = [f"replies: {entry.key}: {entry.reason}" for entry in entries]
            with RunReader(folder) as run:
                loaded, why = _opened(run, contents)
                wrong = dict.fromkeys((*damaged, *_wrong(run, loaded, contents)))
            return Verified(contents, tuple(wrong), why)
        except (EngineError, ProtocolError, CacheError) as exc:
            return Verified(contents, (str(exc).replace(str(folder), "run"),))


def _wrong_replies(packed: PortableFile) -> Iterator[str]:
    count = 0
    for key, record in packed.replies():
        count += 1
        try:
            if isinstance(record, DamagedEntry):
                raise record
            record.check()
        except DamagedEntry as damage:
            yield f"replies: {key}: {damage.reason}"
    if (listed := packed.contents.counts.get("replies", "none")) != count:
        yield f"replies: {listed} are listed, and the pack has {count:,}"


def _opened(run: RunReader, contents: Contents) -> tuple[LoadedSweep | None, str]:
    """The sweep of a run, ready to run again; or None, and why that cannot be."""
    if not contents.counts.get("replies"):
        return None, "no replies are inside that the evidence follows from"
    if not contents.counts.get("requests"):
        why = "its source texts were left out; open it, then oversight replay --passages FROM"
        return None, why
    try:
        return open_run(run.folder), ""
    except UsageError as exc:
        return None, str(exc).splitlines()[0].replace(str(run.folder), "run")


def _wrong(run: RunReader, loaded: LoadedSweep | None, contents: Contents) -> Iterator[str]:
    outcomes = whole_lines(run.folder / OUTCOMES)
    for number, record in enumerate(run.recorded_outcomes(), 1):
        line = next(outcomes, b"")
        if line != record.line:
            cell = named(run, record.place)
            for path in _unlike(line, record.line) or ["it is spelled differently"]:
                yield f"{RUN}{OUTCOMES}: line {number}, {cell}: {path}"
    if next(outcomes, b""):
        yield f"{RUN}{OUTCOMES}: it has more lines than the run has outcomes"
    if (run.folder / REPLIES).exists():
        with closing(ReadOnlyStore(run.folder / REPLIES)) as replies:
            yield from _unlike_replies(run, replies, contents)
            if loaded:
                yield from _run_again(run, loaded, replies)
    try:
        packed = read_bounded(run.folder / FIGURES, MAX_FIGURES)
    except FileNotFoundError:
        yield f"{RUN}{FIGURES}: it is missing"
        return
    if packed != (now := figures_of(run)):
        for path in _unlike(packed, now) or ["it is spelled differently"]:
            yield f"{RUN}{FIGURES}: {path}"


def _unlike_replies(run: RunReader, replies: Reader, contents: Contents) -> Iterator[str]:
    for cell, change in unlike_replies(checked_cells(run), replies, tags_named(run)):
        yield f"{RUN}{RUN_DB}: {named(run, cell.place)}: {change}"
    keys, counts = run.keys(), {"replies": 0, "requests": 0}
    for key, entry in read_entries(replies.items()):
        counts["replies"] += 1
        counts["requests"] += isinstance(entry, StoreEntry) and entry.call_size > 0
        if key not in keys:
            yield f"replies: {key}: no cell asks for it"
    for name, count in counts.items():
        if (listed := contents.counts[name]) != count:
            yield f"{MANIFEST}: {listed} {name} are listed, and the pack has {count:,}"


def _run_again(run: RunReader, loaded: LoadedSweep, replies: Reader) -> Iterator[str]:
    """Differences of cells that are run again from their replies."""
    for path in _unlike(stored_grid(run.sweep), stored_grid(loaded.sweep)):
        # The code of the program may have changed since, and its effect is compared below.
        if not path.startswith("code: "):
            yield f"{RUN}{RUN_DB}: grid: {path}"
    if run.manifest.identity != loaded.sweep.identity:
        yield f"{RUN}{RUN_DB}: identity: {SWEEP} and the problems make another sweep"
        return
    outcomes = {record.place: record for record in run.recorded_outcomes() if record.from_replies}
    capture = Capture(loaded.sweep, loaded.models, PriceList({}), set())
    under_way: list[Cell] = []
    wrong: list[str] = []

    def cells() -> Iterator[Cell]:
        for cell in loaded.sweep.cells():
            if cell.place in outcomes:
                under_way[:] = [cell]
                yield cell

    def keep(cell: Cell, ended: NotedOutcome) -> None:
        (then,) = run.tables.cells([cell.place])
        now = capture.cell(cell, *ended)
        change = difference(outcomes[cell.place], outcome_of(cell, ended.outcome))
        change = change or difference_of_cells(then, now)
        if not change and then.id != now.id:
            change = f"id: {then.id} recorded, {now.id} now"
        if not change and then.judgements != now.judgements:
            change = "judgements before the verdict do not follow from its replies"
        if change:
            wrong.append(f"{RUN}{RUN_DB}: {named(run, cell.place)}: {change}")

    with asyncio.Runner(loop_factory=event_loop()) as runner:
        models = loaded.models
        try:
            runner.run(replay_cells(cells(), replies, models.identity, keep, tags=models.tags))
        except ReplayMiss as miss:
            wrong.append(f"{RUN}{RUN_DB}: {named(run, under_way[0].place)}: {miss}")
    yield from wrong


def named(run: RunReader, place: int) -> str:
    """A cell, for people."""
    where, side = run.where(place)
    row, problem = run.sweep.rows[where.row], run.problems[where.problem]
    label = problem.question.answers[side].label
    return f"cell {place} ({row.title}; {problem.id}, side {label}, draw {where.draw})"


def _unlike(packed: bytes, now: bytes) -> list[str]:
    """`differences` of two JSON texts, of which only the first may be damaged."""
    try:
        return list(differences(orjson.loads(packed), orjson.loads(now)))
    except orjson.JSONDecodeError as exc:
        return [f"it cannot be read: {exc}"]


def differences(then: Any, now: Any, path: str = "") -> Iterator[str]:
    """Every value in which two JSON trees differ, by its path."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*then, *now)):
            yield from differences(then.get(key), now.get(key), f"{path}.{key}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for n, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from differences(one, other, f"{path}[{n}]")
    elif then != now or type(then) is not type(now):
        yield f"{path.lstrip('.')}: {then!s:.60} stated, {now!s:.60} follows from the evidence"
