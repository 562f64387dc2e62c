"""The batches of one run as events of the run. Each event is durable before the next step.

    submitting  the request for a batch is about to leave. Its calls are in MARK.packing, one per
                line, which becomes MARK.calls before the request leaves
    denied      the vendor said that it could not make the batch
    submitted   the vendor has the batch, under this id
    collected   the replies are in the store: the usage, and the fate of the other lines
    cancelled   the batch was never made, or was refused: its calls are free again
    forgiven    failed cells run again: earlier faults no longer count

A process may be killed between any two steps. A batch that is submitting, and neither submitted nor
cancelled, is uncollected: the vendor may have it and bill it. Its cost counts towards the cap and
in the ledger until its fate is known.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from ...errors import RunFolderError
from ...models.accounting.ledger import UsageTotals
from ...models.accounting.ledger_file import write_uncollected
from ...run.events import EVENTS, add_event, read_events, sync_events
from ...system.files import refuse_links, sync_folder, unwritable

FOLDER = "batches"
"""The folder of a run's batches, and the kind of their events."""
_EVENT = msgspec.json.Decoder(dict[str, Any])
_MARK = re.compile(r"[0-9a-f]{16}")
"""Marks are names of files."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that was submitted, or may have been."""

    mark: str
    """Our own id, made before the batch is submitted."""
    model: str
    lines: int
    at: float
    """Seconds since 1970 by the vendor's clock, just before it was submitted."""
    worst: float = 0.0
    """Maximum cost in dollars."""
    most_bytes: int = 0
    """Maximum size of its results."""

    def custom_id(self, address: str) -> str:
        """The id of one line, at most 64 characters. The mark in it proves whose batch it is."""
        return f"{urlsafe_b64encode(bytes.fromhex(address)).decode().rstrip('=')}-{self.mark}"


class BatchJournal:
    """The journal of one run. Writing to it takes the lock of the run folder."""

    def __init__(self, run: Path, *, reads_only: bool = False) -> None:
        """reads_only: leaves the folder as it is, even while another process runs it.
        RunFolderError."""
        self.folder, self._run = run / FOLDER, run
        self.pending: dict[str, Batch] = {}
        """Batches that the vendor has, or may have, by mark."""
        self.ids: dict[str, str] = {}
        """By mark, the vendor's id of each batch that was ever submitted."""
        self.denied: set[str] = set()
        """Marks of batches that the vendor said it could not make."""
        self.faults: dict[str, tuple[int, bytes]] = {}
        """By address, (status, body) of the answer to a call that can never be served."""
        self.tries: dict[str, int] = {}
        """By address, the number of batches without a reply to a call."""
        self.completed: dict[str, list[UsageTotals]] = {}
        """By model, the usage of each batch, in the order in which they ended."""
        self._marks: set[str] = set()
        try:
            refuse_links(self.folder)
            if not reads_only:
                sync_events(run)
            for event in read_events(run, FOLDER, _EVENT):
                self._apply(event)
            if not reads_only:
                self._clean()
        except (msgspec.ValidationError, LookupError, TypeError) as exc:
            raise RunFolderError(
                f"{run / EVENTS}: cannot be read: {exc}. It alone knows which calls are out "
                "in batches: restore a copy of it, or use the version that wrote it"
            ) from exc
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    @property
    def out(self) -> dict[str, Batch]:
        """Batches that the vendor has, by its id."""
        return {self.ids[m]: batch for m, batch in self.pending.items() if m in self.ids}

    @property
    def uncollected(self) -> dict[str, Batch]:
        """Batches that the vendor may have, by mark."""
        return {m: batch for m, batch in self.pending.items() if m not in self.ids}

    def file(self, mark: str, suffix: str = "calls") -> Path:
        """The calls of a batch as JSON lines. suffix: `packing` until the request may leave."""
        return self.folder / f"{mark}.{suffix}"

    def send(self, batch: Batch) -> None:
        """Note that the request for a batch leaves now. RunFolderError: it must not leave."""
        # The ledger first: nothing may fail between the event and the request, because the vendor
        # is asked for a batch with an event until its window has passed.
        self._write_uncollected(batch)
        self.note(submitting=asdict(batch))
        packing = self.file(batch.mark, "packing")
        try:
            if packing.exists():
                packing.rename(self.file(batch.mark))
                sync_folder(self.folder)
        except OSError as exc:
            self.cancel(batch, "its calls could not be kept")
            raise unwritable(packing, exc) from exc

    def cancel(self, batch: Batch, why: str) -> None:
        """Free the calls of a batch, with or without an event."""
        if batch.mark in self.pending:
            self.note(cancelled=batch.mark, why=why)
        self.delete_files(batch.mark)

    def delete_files(self, mark: str) -> None:
        for suffix in ("calls", "packing"):
            self.file(mark, suffix).unlink(missing_ok=True)

    def note(self, **event: Any) -> None:
        """Add one of the events above; durable when this returns. RunFolderError."""
        add_event(self._run, FOLDER, event)
        self._apply(event)
        if event.keys() & {"submitted", "cancelled", "collected"}:
            self._write_uncollected()

    def _clean(self) -> None:
        """Delete our files of batches that are not pending. Other files stay."""
        self.folder.mkdir(exist_ok=True)
        for mark, batch in self.uncollected.items():
            if self.file(mark, "packing").exists() and not self.file(mark).exists():
                self.cancel(batch, "its request had not left")
        for file in self.folder.iterdir():
            if not _MARK.fullmatch(file.stem) or file.stem in self.pending:
                continue
            if file.suffix == ".packing" or (file.suffix == ".calls" and file.stem in self._marks):
                file.unlink()
            elif file.suffix == ".calls" and not self._marks:
                raise RunFolderError(
                    f"{self._run / EVENTS} is missing, and {file} shows that calls of this run "
                    "are out in batches: bring the events back under their name, or continue in a "
                    "new run folder (--run-folder), which may pay for those calls again"
                )
        self._write_uncollected()

    def _write_uncollected(self, *leaving: Batch) -> None:
        """Write the calls and dollars of batches that the vendor may have into the ledger."""
        totals: dict[str, tuple[int, float]] = {}
        for batch in {**self.uncollected, **{batch.mark: batch for batch in leaving}}.values():
            lines, dollars = totals.get(batch.model, (0, 0.0))
            totals[batch.model] = lines + batch.lines, dollars + batch.worst
        write_uncollected(self._run, totals)

    def _apply(self, event: Mapping[str, Any]) -> None:
        match event:
            case {"submitting": fields}:
                batch = Batch(**fields)
                if not _MARK.fullmatch(batch.mark):
                    raise LookupError(f"{batch.mark!r:.40} is not the mark of a batch")
                self._marks.add(batch.mark)
                self.pending[batch.mark] = batch
            case {"denied": mark}:
                self.denied.add(mark)
            case {"submitted": mark, "id": id} if mark in self.pending:
                self.ids[mark] = id
            case {"cancelled": mark}:
                del self.pending[mark]
            case {"collected": mark, "account": account, "faults": faults, "again": again}:
                usage = msgspec.convert(account, UsageTotals)
                self.completed.setdefault(self.pending.pop(mark).model, []).append(usage)
                self.faults |= {
                    key: (status, body.encode()) for key, (status, body) in faults.items()
                }
                self.tries |= {key: self.tries.get(key, 0) + 1 for key in again}
            case {"forgiven": _}:
                self.faults.clear()
            case _:
                raise LookupError(f"a step that this version does not know: {[*event][:1]}")
