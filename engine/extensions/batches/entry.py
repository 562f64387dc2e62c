"""The part of batches in an execution, as every run loads it."""

from pathlib import Path

from ...errors import UsageError
from ...run.later import Addition, Entry, ExecutionWork
from .journal import FOLDER


class BatchEntry(Entry):
    defers = True

    def outlives(self, folder: Path) -> bool:
        return any((folder / FOLDER).glob("*.calls"))

    def made(self, work: ExecutionWork) -> Addition | None:
        batched = work.models.directory.deferred(work.names, work.settings.batch)
        if not batched and not (work.folder / FOLDER).exists():
            return None
        if work.mode == "off":
            raise UsageError(
                "batches need a store, which --cache off does not write: leave one of them out"
            )
        from .batches import Batches

        return Batches(work, batched)


ENTRY = BatchEntry()
