"""Writing the record of a run from its outcomes and its store: for a run from before there were
records, or one whose record was lost."""

from dataclasses import dataclass
from pathlib import Path

from ...cache.address import store_key
from ...cache.call import Call, RecordingAsk
from ...cache.errors import ReplayMiss
from ...cache.record import stored_at
from ...cache.store import Reader
from ..accounting.prices import listed
from ..record.capture import Capture, CapturedCell
from ..record.group_commit import MAX_GROUP
from .loaded_sweep import open_run
from .lock import locked
from .manifest import read_manifest
from .outcome import line, read_outcome
from .replay import replay_cache
from .run_folder import lines
from .run_record import record_writer
from .scheduler import attempt


@dataclass(frozen=True, slots=True)
class RebuiltRecord:
    """What came of writing the record of a run."""

    there: int
    """Cells that it held already."""
    written: int
    lacking: int
    """Cells that the store does not hold every reply of."""
    different: int
    """Cells that the code of today, on the same replies, gives another outcome than the recorded
    one."""


async def rebuild(run: Path, store: Reader) -> RebuiltRecord:
    """Record every cell that has an outcome and no record, by running it on its stored replies.

    A cell is recorded only if its outcome comes out equal to the byte; a failure at a provider is
    recorded with the calls before it. The outcomes are left as they are. RunFolderError, also for
    a record that is damaged: it is not touched.
    """
    with locked(run):
        opened = open_run(run)
        identity = opened.models.identity_in(store)

        def when(call: Call) -> int | None:
            key = store_key(call.address, identity(call))
            value = store.get(key)
            return None if value is None else stored_at(key, value)

        prices = opened.models.priced(listed())
        live = opened.models.origin
        capture = Capture(opened.sweep, identity, prices, set(), live=live, stored_at=when)
        cache = replay_cache(store, identity, explained=0)
        writer = record_writer(run, opened.sweep, read_manifest(run))
        try:
            there = {place for place, _ in writer.tables.places()}
            known = {read_outcome(each).place: each for each in lines(run)}
            todo = [cell for cell in opened.sweep.cells() if cell.place in known.keys() - there]
            written = lacking = different = 0
            group: list[CapturedCell] = []
            for cell in todo:
                ask = RecordingAsk(cache)
                said = read_outcome(known[cell.place])
                try:
                    outcome = await attempt(cell, ask)
                except ReplayMiss:
                    if said.from_replies:
                        lacking += 1
                        continue
                # What a provider failed at has no reply to follow from.
                if said.failure is not None and not said.from_replies:
                    outcome = said.failure
                if line(cell, outcome) != known[cell.place]:
                    different += 1
                    continue
                group.append(capture.cell(cell, outcome, ask.notes))
                if len(group) == MAX_GROUP:
                    writer.write(group)
                    written += len(group)
                    group = []
            writer.write(group)
            written += len(group)
            if not lacking and not different:
                writer.settle()
        finally:
            writer.close()
    return RebuiltRecord(len(there), written, lacking, different)
