"""A run's batches, handed in and collected, as events of the run.

Each event is durable before the next step is taken:

    intend     a batch is about to be submitted; its calls are in MARK.calls, one a line
    sending    the request that makes it is about to leave
    denied     the vendor said that it could not make it
    submitted  the vendor has it, under this id
    dropped    it was never made: its calls are free again
    refused    the vendor refused it as a whole; its calls are free again
    landed     its replies are in the store; its usage, and the fate of its other lines
    forgiven   failed cells are run again: no fault stands any more

So a process may be killed between any two steps. A batch that is sent, and neither submitted nor
dropped, is a liability: the vendor may run it, and bill it. It counts as doubtful, towards the cap
and in the ledger, until its fate is proven.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from ...errors import RunFolderError
from ...models.accounting.ledger import UsageTotals
from ...models.accounting.ledger_file import write_owed
from ...run.events import EVENTS, add_event, read_events, sync_events
from ...run.settings import FOLDER
from ...system.files import refuse_links, unwritable

_EVENT = msgspec.json.Decoder(dict[str, Any])

_FILES = re.compile(r"([0-9a-f]{16})\.(calls|packing|body|results|noted)")
"""Files that are made beside the journal, for as long as a batch, or a wave, lasts."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch that was submitted, or may have been."""

    mark: str
    """Our own id, made before it is submitted."""
    model: str
    lines: int
    at: float
    """Seconds since 1970, just before it was submitted."""
    worst: float = 0.0
    """Maximum cost in dollars."""
    most_bytes: int = 0
    """Maximum size of its results."""

    def custom_id(self, address: str) -> str:
        """The id of one line, at most 64 characters: the call's address and the batch's mark, which
        proves whose batch it is in any result that shows it."""
        return f"{urlsafe_b64encode(bytes.fromhex(address)).decode().rstrip('=')}-{self.mark}"


_MARK = re.compile(r"[0-9a-f]{16}")
"""Marks name files."""


class BatchJournal:
    """The journal of one run. To write to it takes the lock of the run folder."""

    def __init__(self, run: Path, *, reads_only: bool = False) -> None:
        """reads_only: leaves the folder as it is, also while another process runs it.
        RunFolderError."""
        self.folder = run / FOLDER
        self._run = run
        self.intended: dict[str, Submission] = {}
        """Batches that may have been submitted, by mark."""
        self.sending: dict[str, float] = {}
        """By mark, when the request of an intended batch left, in seconds since 1970 by the
        vendor's clock. Without it, it did not."""
        self.denied: set[str] = set()
        """Marks of intended batches that the vendor said it could not make."""
        self.out: dict[str, Submission] = {}
        """Batches that the vendor has, by its id."""
        self.known: set[str] = set()
        """Ids of all batches of this run."""
        self.faults: dict[str, tuple[int, bytes]] = {}
        """By address, (status, body) of the answer to a call that can never be served."""
        self.tries: dict[str, int] = {}
        """By address, how many batches brought no reply to a call."""
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
                "in batches: bring a copy of it back, or go on with the version that wrote it"
            ) from exc
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    @property
    def liabilities(self) -> dict[str, Submission]:
        """The intended batches whose request left, by mark."""
        return {mark: batch for mark, batch in self.intended.items() if mark in self.sending}

    @property
    def pending(self) -> tuple[Submission, ...]:
        """Batches that are out, or may be."""
        return *self.intended.values(), *self.out.values()

    def file(self, mark: str, suffix: str = "calls") -> Path:
        """The file of a batch's calls, canonical JSON, one a line; or another of its files."""
        return self.folder / f"{mark}.{suffix}"

    def delete_files(self, batch: Submission) -> None:
        for suffix in ("calls", "packing", "body", "results"):
            self.file(batch.mark, suffix).unlink(missing_ok=True)

    def intend(self, batch: Submission) -> None:
        self.note(intend=asdict(batch))

    def send(self, mark: str, now: float) -> None:
        """now: seconds since 1970 by the vendor's clock."""
        # Noted as owed first: once the event is there, a batch is looked for as long as the vendor
        # may list it, so that nothing may fail between the event and the request.
        self._note_liabilities(self.intended[mark])
        self.note(sending=mark, at=now)

    def land(
        self,
        id: str,
        account: UsageTotals,
        faults: Mapping[str, tuple[int, bytes]],
        again: Iterable[str],
    ) -> None:
        """faults: answers to lines that can never be served, by address. again: ask once more."""
        answers = {address: [status, body.decode()] for address, (status, body) in faults.items()}
        told = msgspec.to_builtins(account)
        self.note(landed=id, account=told, faults=answers, again=list(again))

    def _clean(self) -> None:
        """Delete files that were made for batches that are not out. Nothing else in the folder is
        touched."""
        self.folder.mkdir(exist_ok=True)
        kept = {batch.mark for batch in self.pending}
        for file in self.folder.iterdir():
            if (made := _FILES.fullmatch(file.name)) is None:
                continue
            if made[2] != "calls" or (made[1] in self._marks and made[1] not in kept):
                file.unlink()
            elif not self._marks:
                raise RunFolderError(
                    f"{self._run / EVENTS} is not there, and {file} says that calls of this run "
                    "are out in batches: bring the events back under their name, or go "
                    "on in a new run folder (--run-folder), which may pay for those calls again"
                )
        self._note_liabilities()

    def note(self, **event: Any) -> None:
        """Any event that is one of the above; durable when this returns. RunFolderError."""
        add_event(self._run, FOLDER, event)
        self._apply(event)
        if event.keys() & {"submitted", "dropped", "landed"}:
            self._note_liabilities()

    def _note_liabilities(self, *leaving: Submission) -> None:
        """leaving: beside those that left."""
        owed: dict[str, tuple[int, float]] = {}
        for batch in (*self.liabilities.values(), *leaving):
            lines, dollars = owed.get(batch.model, (0, 0.0))
            owed[batch.model] = lines + batch.lines, dollars + batch.worst
        write_owed(self._run, owed)

    def _apply(self, event: Mapping[str, Any]) -> None:
        match event:
            case {"intend": fields}:
                batch = Submission(**fields)
                if not _MARK.fullmatch(batch.mark):
                    raise LookupError(f"{batch.mark!r:.40} is no mark of a batch")
                self._marks.add(batch.mark)
                self.intended[batch.mark] = batch
            case {"sending": mark, "at": now}:
                self.sending[mark] = now
            case {"denied": mark}:
                self.denied.add(mark)
            case {"submitted": mark, "id": id}:
                self.out[id] = self._found(mark)
                self.known.add(id)
            case {"dropped": mark}:
                self._found(mark)
            case {"refused": id}:
                self._ended(id)
            case {"landed": id, "account": account, "faults": faults, "again": again}:
                usage = msgspec.convert(account, UsageTotals)
                self.completed.setdefault(self._ended(id).model, []).append(usage)
                for address, (status, body) in faults.items():
                    self.faults[address] = status, body.encode()
                for address in again:
                    self.tries[address] = self.tries.get(address, 0) + 1
            case {"forgiven": _}:
                self.faults.clear()
            case _:
                raise LookupError(f"a step that this version does not know: {[*event][:1]}")

    def _ended(self, name: str) -> Submission:
        return self.out.pop(name, None) or self._found(name)

    def _found(self, mark: str) -> Submission:
        """An intended batch, which is no longer one of unknown fate."""
        self.sending.pop(mark, None)
        return self.intended.pop(mark)
