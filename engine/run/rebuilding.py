"""Making the database of a run again, from its sweep file and its store: nothing is asked."""

from collections import deque
from contextlib import closing
from pathlib import Path

from msgspec import MsgspecError
from msgspec.json import decode

from ...cache.errors import ReplayMiss
from ...cache.store import Store
from ..errors import RunFolderError, UsageError
from ..models.accounting.prices import listed
from ..sweep.sweepfile import read_sweep_file
from ..system.files import refuse_links_within, whole_lines
from .events import sync_events
from .folders import store_noted
from .lanes import attempt_noted
from .loaded_sweep import STARTED, LoadedSweep, Started, load_sweep, part_of, run_folder
from .manifest import Manifest, read_manifest
from .opened import inert
from .reader import RunReader
from .record.capture import Capture
from .record.schema import RUN_DB
from .record.values import RecordedCell
from .replay import replay_cache
from .run_folder import MAX_GROUP, SWEEP, RunFolder
from .settings import RunSettings
from .stores import open_store, shown_name, store_name


async def rebuild(
    folder: Path,
    store: Path | str | None = None,
    own: Path | None = None,
) -> tuple[int, int]:
    """Make the database of a run again, beside which the damaged one is kept under another name:
    (cells made again, cells for which the store lacks a reply, which a run asks for again).

    own: the user's sweep file, read instead of the folder's copy: only code and data files that it
    names are read. store: None for the one that this machine noted for the run, else the user's.
    UsageError for a run that is sound, or is of another sweep; RunFolderError; StoreError.
    """
    refuse_links_within(folder)
    known = _known(folder)
    if known is not None and _is_sound(folder):
        raise UsageError(f"{folder / RUN_DB} is sound: there is nothing to make again")
    began = _started(folder)
    started = began.overrides, began.limit
    file = read_sweep_file(
        own or folder / SWEEP, *started, inert=inert(folder), own=own is not None
    )
    loaded = load_sweep(part_of(file, began.part) if began.part else file)
    if known is not None and known.identity != loaded.sweep.identity:
        raise UsageError(
            f"{folder} was a run of another sweep than {own or folder / SWEEP} is: name the one "
            "that it was started with"
        )
    named = store_name(store or store_noted(folder) or None)
    if not store and known and known.store not in ("", shown_name(named)):
        raise UsageError(
            f"{folder} names the store {known.store}, and a store that only a run folder names is "
            f"not opened. If it is yours: --store {known.store}"
        )
    with closing(open_store(named)) as replies:
        for name in (RUN_DB, f"{RUN_DB}-wal", f"{RUN_DB}-shm", f"{RUN_DB}-journal"):
            if (folder / name).exists():
                (folder / name).rename(folder / name.replace(RUN_DB, f"damaged-{RUN_DB}"))
        settings = RunSettings(folder=folder, part=began.part)
        made = run_folder(loaded, settings, shown_name(named), replies, anew=True)
        with made as run:
            sync_events(folder)
            missing = await _cells(loaded, run, replies)
            run.note(replies=len(replies), store_id=replies.id)
            if run.complete:
                run.settle()
            return run.finished, missing


async def _cells(loaded: LoadedSweep, run: RunFolder, replies: Store) -> int:
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


def _known(folder: Path) -> Manifest | None:
    """What the database that is there still says of the run."""
    try:
        return read_manifest(folder)
    except RunFolderError:
        return None


def _is_sound(folder: Path) -> bool:
    """Whether all of a database can be read."""
    try:
        with RunReader(folder) as run:
            size = len(run.sweep)
            return all(cell.place < size for cell in run.tables.cells()) and all(
                record.place < size for record in run.outcomes()
            )
    except RunFolderError:
        return False


def _started(folder: Path) -> Started:
    """What the run in a folder was started with beside its sweep file. RunFolderError."""
    last = deque(whole_lines(folder / SWEEP), 1)
    if not last or not last[0].startswith(STARTED.encode()):
        return Started()
    try:
        return decode(last[0].removeprefix(STARTED.encode()), type=Started)
    except MsgspecError as exc:
        raise RunFolderError(f"{folder / SWEEP}: its last line cannot be read: {exc}") from exc
