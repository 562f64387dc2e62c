"""Making the database of a run again, from its sweep file and its store: nothing is asked."""

import sqlite3
from collections import deque
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard
from msgspec.json import decode

from ...cache.errors import ReplayMiss
from ...cache.record import zstd
from ...cache.sqlite import open_bounded
from ...cache.store import Reader
from ..errors import RunFolderError, UsageError
from ..models.accounting.prices import listed
from ..sweep.document import MAX_SWEEP
from ..sweep.sweepfile import read_sweep_file
from ..system.files import let_go, refuse_links_within, take_lock, whole_lines
from .folders import store_noted
from .lanes import attempt_noted
from .loaded_sweep import STARTED, LoadedSweep, Started, load_sweep, part_of, run_folder
from .opened import inert
from .reader import RunReader
from .record.capture import Capture
from .record.schema import RUN_DB, NotOfThisFormat, RunDamaged
from .record.tables import RunTables
from .record.values import RecordedCell
from .replay import NO_REPLY, replay_cache, unlike_replies
from .run_folder import MAX_GROUP, SWEEP, RunFolder
from .settings import RunSettings
from .stores import open_store, shown_name, store_name


class Rebuilt(NamedTuple):
    cells: int
    """Cells that were made again."""
    missing: int
    """Cells for which the store lacks a reply; a run asks for them again."""
    wrong: str
    """The fault of the database before."""


async def rebuild(
    folder: Path,
    store: Path | str | None = None,
    own: Path | None = None,
) -> Rebuilt:
    """Make the database of a run again; the one before is kept under another name.

    own: the user's sweep file, read instead of the folder's copy: only code and data files that it
    names are read. store: None for the one that this machine noted for the run, else the user's.
    UsageError for a run in which nothing is wrong, or of another sweep; RunFolderError; StoreError.
    """
    refuse_links_within(folder)
    known = _known(folder)
    began = _started(folder)
    started = began.overrides, began.limit
    file = read_sweep_file(
        own or folder / SWEEP, *started, inert=inert(folder), own=own is not None
    )
    loaded = load_sweep(part_of(file, began.part) if began.part else file)
    if known.identity not in ("", loaded.sweep.identity):
        raise UsageError(
            f"{folder} was a run of another sweep than {own or folder / SWEEP} is: name the one "
            "that it was started with"
        )
    named = store_name(store or store_noted(folder, known.id) or None)
    if not store and known.store not in ("", shown_name(named)):
        raise UsageError(
            f"{folder} names the store {known.store}, and a store that only a run folder names is "
            f"not opened. If it is yours: --store {known.store}"
        )
    with closing(open_store(named)) as replies:
        let_go(folder, take_lock(folder))  # FolderBusy while somebody runs it
        wrong = _wrong(folder, replies, loaded)
        for name in (RUN_DB, f"{RUN_DB}-wal", f"{RUN_DB}-shm", f"{RUN_DB}-journal"):
            if (folder / name).exists():
                (folder / name).rename(folder / name.replace(RUN_DB, f"damaged-{RUN_DB}"))
        settings = RunSettings(folder=folder, part=began.part)
        made = run_folder(loaded, settings, shown_name(named), replies, anew=True)
        with made as run:
            missing = await _cells(loaded, run, replies)
            run.note(replies=len(replies), store_id=replies.id)
            if run.complete:
                run.settle()
            return Rebuilt(run.finished, missing, wrong)


async def _cells(loaded: LoadedSweep, run: RunFolder, replies: Reader) -> int:
    """Run every cell again from the store; how many lack a reply."""
    models = loaded.models
    cache = replay_cache(replies, models.identity, tags=models.tags, explained=0)
    capture = Capture(loaded.sweep, models, models.priced(listed()), set())
    group, missing = list[RecordedCell](), 0
    for cell in loaded.sweep.cells():
        try:
            end = await attempt_noted(cell, cache)
        except ReplayMiss:
            missing += 1
            continue
        group.append(capture.cell(cell, end.outcome, end.notes))
        if len(group) == MAX_GROUP:
            run.add(group)
            group = []
    run.add(group)
    return missing


class _Known(msgspec.Struct, frozen=True):
    """Parts of a manifest, in this format and the earlier ones."""

    identity: str = ""
    id: str = ""
    store: str = ""


def _known(folder: Path) -> _Known:
    """The manifest of the run, as far as the database can be read."""
    with suppress(RunFolderError, msgspec.MsgspecError):
        try:
            with RunTables.open(folder) as tables:
                return decode(tables.told("manifest"), type=_Known)
        except NotOfThisFormat:
            return decode(_earlier_manifest(folder / RUN_DB), type=_Known)
    return _Known()


def _earlier_manifest(file: Path) -> bytes:
    """The manifest that an earlier format packed; empty if it cannot be read."""
    query = "SELECT value FROM meta WHERE name='manifest'"
    try:
        with closing(open_bounded(file, "mode=ro&immutable=1")) as db:
            ((packed,),) = db.execute(query).fetchall()
        # The first byte says whether the rest is compressed.
        compressed = packed[:1] == b"\1" and zstandard.frame_content_size(packed[1:]) <= MAX_SWEEP
        return bytes(zstd.unpack(packed[1:]) if compressed else packed[1:])
    except (sqlite3.Error, zstandard.ZstdError, ValueError, TypeError):
        return b""


def _wrong(folder: Path, replies: Reader, loaded: LoadedSweep) -> str:
    """The fault of a database, as `is damaged (…)`. UsageError if it has none."""
    unreadable = _unreadable(folder)
    differences, calls, missing = list[str](), 0, 0
    with suppress(RunFolderError), RunTables.open(folder) as tables:
        ((calls,),) = tables.fetched("SELECT count(*) FROM calls")
        for cell, difference in unlike_replies(tables.cells(), replies, loaded.models.tags):
            if difference.endswith(NO_REPLY):
                missing += 1
            else:
                differences.append(f"cell {cell.id}: {difference}")
    audited = f"has {len(differences):,} of {calls:,} calls that differ from their replies"
    if differences:
        return " and ".join(filter(None, (unreadable, f"{audited}: {differences[0]}")))
    if unreadable:
        return unreadable
    absent = f"; {missing:,} replies are not in the store" if missing else ""
    raise UsageError(
        f"{folder / RUN_DB} needs no rebuild: it is intact, and {calls - missing:,} calls agree "
        f"with their replies{absent}"
    )


def _unreadable(folder: Path) -> str:
    """Why a database cannot be read; empty if all of it can."""
    file = folder / RUN_DB
    if not file.exists():
        return "is lost"
    try:
        with RunReader(folder) as run:
            size = len(run.sweep)
            if max((cell.place for cell in run.tables.cells()), default=0) >= size:
                return f"has cells that are not among the sweep's {size:,}"
            for _ in run.outcomes():
                pass
    except (NotOfThisFormat, RunDamaged) as exc:
        return exc.why
    except RunFolderError as exc:
        return str(exc).removeprefix(f"{file} ")
    return ""


def _started(folder: Path) -> Started:
    """The settings with which the run in a folder was started. RunFolderError."""
    last = deque(whole_lines(folder / SWEEP), 1)
    if not last or not last[0].startswith(STARTED.encode()):
        return Started()
    try:
        return decode(last[0].removeprefix(STARTED.encode()), type=Started)
    except msgspec.MsgspecError as exc:
        raise RunFolderError(f"{folder / SWEEP}: its last line cannot be read: {exc}") from exc
