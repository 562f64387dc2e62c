"""A run folder: one sweep's cells, safe against crashes and against a second process."""

import logging
import shutil
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from msgspec.structs import replace

from ...cache.writer import GroupCommit
from ...protocols.datasets.jsonl import jsonl
from ...protocols.transcript import NOT_RUN, Failure
from ..errors import RunFolderError, StoreFailed, UsageError
from ..stop import StopToken
from ..sweep.document import MAX_SWEEP
from ..sweep.grid import Grid, stored_grid
from ..system.files import (
    LOCK_FILE,
    is_network,
    let_go,
    read_bounded,
    refuse_links_within,
    replace_file,
    take_lock,
    unwritable,
)
from .folders import Manifest, encoded, manifest_in, remember_run, remembered_store
from .outcome import OutcomeRecord, Outcomes
from .record.database import RunDatabase
from .record.schema import FAILED, RUN_DB, WITHDRAWN, RunDamaged, made_again
from .record.values import RecordedCell

SWEEP, OUTCOMES, REPORT, QUARANTINE = "sweep.yaml", "outcomes.jsonl", "report", "quarantine"
SHOTS = "shots"
"""Folder of the examples that judges are shown, as problems in our own format."""

JOURNAL = f"{RUN_DB}-journal"
OWN_FILES = {LOCK_FILE, SWEEP, f".{SWEEP}.new", RUN_DB, JOURNAL, SHOTS}
"""Files of a folder whose creation was interrupted."""

MAX_GROUP = 256
"""Cells of one commit."""
MAX_SECONDS = 0.25
"""Seconds that the first cell of a group waits for others."""

_log = logging.getLogger(__name__)


class RunFolder:
    """Cells by place in the sweep, recorded as they land; a context manager that holds a lock.

    Every cell is in the database before `add` or `flush` returns, so kill -9 loses none; a power
    failure may lose the last ones, which are then run again from the store."""

    database: RunDatabase
    group: GroupCommit[RecordedCell, None]
    """Takes cells, as long as the body of `keeping` runs."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        sweep: bytes,
        grid: Grid,
        resume: Callable[[Manifest], Manifest] | None = None,
        replace_lost: bool = False,
        addresses: tuple[str, ...] = (),
        shots: Mapping[str, bytes] | None = None,
    ) -> None:
        """manifest: describes the run that is about to be made, or resumed if it is there already.

        sweep, grid: text and content of the sweep file, for a new folder. DatasetError for problems
        that could not be read back. resume: converts the existing manifest into the one to
        continue with, or raises RunFolderError; None keeps it. replace_lost: whether a folder
        without its database gets a new one. addresses: of providers, from the user's sweep file.
        shots: files of the examples that judges are shown."""
        self.path = path
        self.manifest = manifest
        self._store, self._addresses = manifest.store, addresses
        self._resume = resume
        self._sweep, self._grid, self._replace_lost = sweep, grid, replace_lost
        self._shots = shots or {}
        self.refused = False
        """Whether nothing is to stay of this folder."""
        self._ended = bytearray(manifest.cells)
        """By place, 1 for a cell with an outcome, 2 for one that failed; 0 for one without."""
        self._lock = -1

    def __enter__(self) -> Self:
        """Make the folder if it is not there, take its lock, and read what is in it. RunFolderError
        if it cannot be written, or is not the folder of this run. FolderBusy, with the process that
        has the lock, if it is running."""
        with ExitStack() as stack:
            if not (self.path / RUN_DB).exists():
                # Before anything is made: problems that could not be read back are told.
                deque(jsonl(self._grid.problems), 0)
            try:
                self._new = not self.path.exists()
                self.path.mkdir(parents=True, exist_ok=True)
                refuse_links_within(self.path)
                self._refuse_foreign()
                self._lock = take_lock(self.path)
                stack.callback(let_go, self.path, self._lock)
                self.database = RunDatabase(self.path)
                stack.callback(self.database.db.close)
                self._begin()
                self._mark_ended()
                remembered = remembered_store(self.path) if self.complete else ""
                if self.complete:
                    # Its replies stay where they are, whatever store it is opened with.
                    self._store = remembered or self._store
                else:
                    # It says what was, until the run settles again.
                    (self.path / OUTCOMES).unlink(missing_ok=True)
            except OSError as exc:
                raise unwritable(self.path, exc) from exc
            if is_network(self.path):
                _log.warning(
                    "%s lies on a network file system: run it from one machine at a time", self.path
                )
            if not remembered:
                remember_run(self.path, self.manifest.id, self._store, self._addresses)
            stack.pop_all()
        return self

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        try:
            # The first fault is the one to report.
            with suppress(RunFolderError) if fault else nullcontext():
                self.database.close()
            if self.refused or (isinstance(fault, UsageError) and self._new and not self.finished):
                # A run that is refused before anything was asked leaves no folder.
                shutil.rmtree(self.path)
        finally:
            let_go(self.path, self._lock)

    def refuse(self) -> None:
        """Leave nothing of a new folder: its run asked for nothing, and is not allowed to."""
        self.refused = self._new

    def has(self, place: int) -> bool:
        """Whether the cell at this place of the sweep has an outcome."""
        return self._ended[place] > 0

    def ended(self) -> bytearray:
        """By place in the sweep, not 0 for a cell that has an outcome now."""
        return self._ended.copy()

    def __len__(self) -> int:
        return len(self._ended)

    @property
    def finished(self) -> int:
        return len(self._ended) - self._ended.count(0)

    @property
    def failed(self) -> int:
        return self._ended.count(2)

    @property
    def complete(self) -> bool:
        return 0 not in self._ended

    def outcomes(self) -> Iterator[OutcomeRecord]:
        """Every outcome so far, in the order of the sweep. RunFolderError."""
        return Outcomes(self.database).all()

    def add(self, cells: Iterable[RecordedCell]) -> None:
        """Record cells now, some at a time. RunFolderError if the disk takes no more."""
        coming = iter(cells)
        while some := list(islice(coming, MAX_GROUP)):
            self.database.write(some)
            self._landed(some)

    @contextmanager
    def keeping(
        self, completed: Callable[[Sequence[RecordedCell]], None], stop_token: StopToken
    ) -> Iterator[None]:
        """Accept cells through `group` while the body runs, on this event loop; end the body with
        its `flush`. completed: called with cells once they are recorded. The token is stopped if
        they cannot be."""

        def written(cells: Sequence[RecordedCell], _: None) -> None:
            self._landed(cells)
            completed(cells)

        def failed(fault: BaseException) -> None:
            if isinstance(fault, RunFolderError):
                stop_token.stop(StoreFailed(str(fault)))

        self.group = GroupCommit(
            self.database.write,
            written,
            name=RUN_DB,
            seconds=MAX_SECONDS,
            most=MAX_GROUP,
            failed=failed,
        )
        with closing(self.group):
            yield

    def forget_failures(self, kinds: Collection[str] | None = None) -> tuple[int, ...]:
        """Drop every outcome that is a failure, so that its cell runs again; the cells' places.
        kinds: only failures of these kinds; None for all."""
        if not self.failed:
            return ()
        query = "SELECT place, failure FROM cells WHERE status=? ORDER BY place"
        failures = self.database.fetched(query, FAILED)
        dropped = tuple(place for place, failure in failures if kinds is None or failure in kinds)
        if dropped:
            self.database.forget(dropped, "run again")
            self._reopen()
        return dropped

    def forget_calls(self, addresses: Collection[str]) -> None:
        """Drop the outcome of every cell that asked any of these calls, so that it runs again."""
        if self.database.forget_calls(addresses, "replies may have been mixed up"):
            self._reopen()

    def _reopen(self) -> None:
        """Some cells have no outcome any more."""
        (self.path / OUTCOMES).unlink(missing_ok=True)
        self._mark_ended()

    def finalize(self) -> None:
        """Nothing more is to be run: write the outcomes as lines, in the order of the sweep. Two
        runs of one sweep are equal to the byte then, and so are two that were decided after the
        same cells. RunFolderError."""
        self.database.finalize()
        file = self.path / OUTCOMES
        if not file.exists():
            replace_file(file, (outcome.line for outcome in self.outcomes()))

    def check_store(self, count: Callable[[], int], store: Path | str, id: str = "") -> None:
        """RunFolderError if a store lacks replies of the run, or is not the store of the run.
        Otherwise the run would silently pay for them again. count: counts the replies, if the run
        left any. id: of the store, if it has one; a run without a known id accepts any store."""
        expected = max(self.manifest.replies, self.finished > self.failed)
        if expected and (stored := count()) < expected:
            raise RunFolderError(
                f"{store} holds {stored:,} replies, and {self.path} left {expected:,} or more "
                "there: name the right store with --store, bring them back with oversight cache "
                f"import BACKUP --store {store}, or pay again for lost replies with "
                "--allow-missing-replies"
            )
        if id and self.manifest.store_id not in ("", id):
            raise RunFolderError(
                f"{store} is another store than {self.manifest.store}, in which {self.path} left "
                "its replies: name the right one with --store. If they were brought here with "
                "oversight cache import, or may be paid for again: --allow-missing-replies"
            )

    def change(self, **fields: Any) -> None:
        """Record changes of the manifest. RunFolderError."""
        self.manifest = replace(self.manifest, **fields)
        self.database.tell("manifest", encoded(self.manifest))

    def _landed(self, cells: Iterable[RecordedCell]) -> None:
        for cell in cells:
            self._ended[cell.place] = 1 + is_failure(cell)

    def _refuse_foreign(self) -> None:
        """Refuse a folder with foreign files: it must be a run folder, or the beginning of one."""
        database = self.path / RUN_DB
        if database.exists() and (database.stat().st_size or (self.path / JOURNAL).exists()):
            return
        strange = sorted({file.name for file in self.path.iterdir()} - OWN_FILES)
        sweep_file = self.path / SWEEP
        if sweep_file.exists():
            if read_bounded(sweep_file, MAX_SWEEP) != self._sweep:
                strange.append(SWEEP)
            elif strange and not self._replace_lost:
                raise RunFolderError(f"{self.path} has lost its {RUN_DB}; {made_again(self.path)}")
            else:
                strange = []
        if strange:
            raise RunFolderError(
                f"{self.path} is not a run folder, and holds {strange[0]}; choose another folder "
                "with --run-folder"
            )

    def _begin(self) -> None:
        """Write the first files of a run folder, or check that an existing one is of this run."""
        database = self.database
        if database.empty:
            replace_file(self.path / SWEEP, [self._sweep])
            for name, content in self._shots.items():
                (self.path / SHOTS).mkdir(exist_ok=True)
                replace_file(self.path / SHOTS / name, [content])
            self.manifest = replace(self.manifest, id=uuid4().hex[:16])
            meta = {"manifest": encoded(self.manifest), "grid": stored_grid(self._grid)}
            database.begin(self._grid.problems, self._grid.rows, meta)
        else:
            manifest = manifest_in(database)
            if manifest.identity != self.manifest.identity:
                raise RunFolderError(
                    f"{self.path} was made from a different sweep ({manifest.name}, "
                    f"{manifest.cells} cells), settings or --limit; "
                    "choose another folder with --run-folder"
                )
            self.manifest = self._resume(manifest) if self._resume else manifest
            if self.manifest != manifest:
                database.tell("manifest", encoded(self.manifest))
        # With its problems a folder is whole without the data set, wherever it is taken.
        database.problems = self._grid.problems

    def _mark_ended(self) -> None:
        """Mark what is done, and nothing else."""
        self._ended = bytearray(len(self._ended))
        for place, status in self.database.statuses():
            if not 0 <= place < len(self._ended):
                raise RunDamaged(self.database.file, f"cell {place} is none of this sweep")
            if status != WITHDRAWN:
                self._ended[place] = 1 + (status == FAILED)


def is_failure(cell: RecordedCell) -> bool:
    """Whether a cell has failed; one that the design left out has not."""
    return isinstance(cell.outcome, Failure) and cell.outcome.kind != NOT_RUN
