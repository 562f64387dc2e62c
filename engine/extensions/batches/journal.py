"""A run's batches, submitted and collected: `batches/book.jsonl` in its folder.

Append-only, and each line is durable before the next step is taken:

    owner      the id under which this run holds calls in a shared store; made once
    packing    the files of a batch are about to be written
    intend     a batch is about to be submitted; its calls are in MARK.calls, one a line
    sending    the request that makes it is about to leave
    denied     the vendor said that it could not make it
    submitted  the vendor has it, under this id
    foreign    a batch that could have been it is proven to be another's
    dropped    it was never made: its calls are free again
    refused    the vendor refused it as a whole; its calls are free again
    give_up    the user accepts what can be had of a batch; the rest counts as lost
    landed     its replies are in the store; its usage, and the fate of its other lines
    room       how many tokens the queue of a model takes, as learnt so far
    forgiven   failed cells are run again: no fault stands any more

So a process may be killed between any two steps. A batch that is sent, and neither submitted nor
dropped, is a liability: the vendor may run it, and bill it. It counts as doubtful, towards the cap
and in the ledger, until its fate is proven.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import msgspec
import orjson

from ...errors import RunFolderError
from ...models.accounting.ledger import UsageTotals
from ...models.accounting.liabilities import write_liabilities
from ...run.batch_terms import FOLDER
from ...system.files import (
    MAX_LEDGER,
    append_line,
    read_bounded,
    refuse_links,
    replace_file,
    unwritable,
    whole_lines,
)
from .endpoint import Submission

JOURNAL = "book.jsonl"

_FILES = re.compile(r"(?P<mark>[0-9a-f]{16})\.(?:calls|body|results)|[0-9a-f]{16}\.noted")
"""Files that are made beside the journal, for as long as a batch, or a round, lasts."""


@dataclass(frozen=True, slots=True)
class EndedBatch:
    """A batch whose results are in the store, or were given up."""

    id: str
    """The vendor's; our mark where the vendor never named one."""
    batch: Submission
    account: UsageTotals


class BatchJournal:
    """The journal of one run. To write to it takes the lock of the run folder."""

    def __init__(self, run: Path, *, reads_only: bool = False) -> None:
        """reads_only: leaves the folder as it is, also while another process runs it.
        RunFolderError."""
        self.folder = run / FOLDER
        self._run = run
        self._file = self.folder / JOURNAL
        self.owner = ""
        """The id of this run, wherever its folder is moved; empty before its first batch."""
        self.began: float | None = None
        """When the first batch was submitted, in seconds since 1970."""
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
        self.others: set[tuple[str, str]] = set()
        """(mark, id) of batches that could have been one of ours, and are not."""
        self.given_up: set[str] = set()
        """Ids, and marks, of batches of which the user takes what can be had."""
        self.faults: dict[str, tuple[int, bytes]] = {}
        """By address, (status, body) of the answer to a call that can never be served."""
        self.tries: dict[str, int] = {}
        """By address, how many batches brought no reply to a call."""
        self.ended: list[EndedBatch] = []
        """In the order in which they ended."""
        self.room: dict[str, float] = {}
        """By model, the tokens that its queue takes."""
        self._marks: set[str] = set()
        self._guesses: dict[str, str] = {}
        """By id of a batch that an older version took for ours, the mark of ours."""
        try:
            refuse_links(self.folder)
            self._replay()
            if not reads_only:
                self._clean()
        except OSError as exc:
            raise unwritable(self._file, exc) from exc

    @property
    def completed(self) -> dict[str, list[UsageTotals]]:
        """By model, the usage of each batch, in the order in which they ended."""
        completed: dict[str, list[UsageTotals]] = {}
        for each in self.ended:
            completed.setdefault(each.batch.model, []).append(each.account)
        return completed

    @property
    def liabilities(self) -> dict[str, Submission]:
        """The intended batches whose request left, by mark."""
        return {mark: batch for mark, batch in self.intended.items() if mark in self.sending}

    def calls(self, batch: Submission) -> Path:
        """The file of a batch's calls: canonical JSON, one a line."""
        return self.folder / f"{batch.mark}.calls"

    def note_stored(self, batch: Submission, addresses: Sequence[str]) -> None:
        """Keep which calls of a batch had their replies stored. RunFolderError."""
        if addresses:
            replace_file(self._stored(batch), [bytes.fromhex("".join(addresses))])

    def stored(self, batch: Submission) -> list[str]:
        """Addresses of the calls of an ended batch whose replies were stored."""
        try:
            digests = read_bounded(self._stored(batch), MAX_LEDGER)
        except FileNotFoundError:
            return []
        return [digests[at : at + 32].hex() for at in range(0, len(digests), 32)]

    def _stored(self, batch: Submission) -> Path:
        return self.folder / f"{batch.mark}.stored"

    def begin(self) -> None:
        """Give the run its id, unless it has one."""
        if not self.owner:
            self._write({"owner": uuid4().hex})

    def packing(self, mark: str) -> None:
        self._write({"packing": mark})

    def intend(self, batch: Submission) -> None:
        self._write({"intend": asdict(batch)})

    def send(self, mark: str, now: float) -> None:
        """now: seconds since 1970 by the vendor's clock."""
        # Noted as owed first: once the line is there, a batch is looked for as long as the vendor
        # may list it, so that nothing may fail between the line and the request.
        self._note_liabilities({mark: self.intended[mark]})
        self._write({"sending": mark, "at": now})

    def deny(self, mark: str) -> None:
        self._write({"denied": mark})

    def submitted(self, mark: str, id: str) -> None:
        self._write({"submitted": mark, "id": id})

    def foreign(self, mark: str, id: str) -> None:
        self._write({"foreign": id, "mark": mark})

    def dropped(self, mark: str) -> None:
        self._write({"dropped": mark})

    def refused(self, id: str, why: str) -> None:
        self._write({"refused": id, "why": why})

    def give_up(self, name: str) -> None:
        """name: the id or the mark of a batch that is not ended."""
        self._write({"give_up": name})

    def land(
        self,
        id: str,
        account: UsageTotals,
        faults: Mapping[str, tuple[int, bytes]],
        again: Iterable[str],
    ) -> None:
        """faults: answers to lines that can never be served, by address. again: ask once more."""
        answers = {address: [status, body.decode()] for address, (status, body) in faults.items()}
        self._write({"landed": id, "account": account, "faults": answers, "again": list(again)})

    def learn(self, model: str, tokens: float) -> None:
        self._write({"room": model, "tokens": tokens})

    def forgive(self) -> None:
        if self.faults:
            self._write({"forgiven": len(self.faults)})

    def _replay(self) -> None:
        self._size = 0
        for line in whole_lines(self._file):
            try:
                self._apply(orjson.loads(line))
            except (orjson.JSONDecodeError, msgspec.ValidationError, LookupError, TypeError) as exc:
                raise RunFolderError(
                    f"{self._file}: cannot be read: {exc}. It alone knows which calls are out in "
                    "batches: bring a copy of it back, or go on with the version that wrote it"
                ) from exc
            self._size += len(line)

    def _clean(self) -> None:
        """Cut a torn last line, and delete files that this journal made for batches that are not
        out. Nothing else in the folder is touched."""
        self.folder.mkdir(exist_ok=True)
        if self._file.exists():
            os.truncate(self._file, self._size)
        kept = {batch.mark for batch in (*self.intended.values(), *self.out.values())}
        strange = []
        for file in self.folder.iterdir():
            made = _FILES.fullmatch(file.name)
            if made is None:
                continue
            if made["mark"] is None or made["mark"] in self._marks:
                if made["mark"] not in kept or file.suffix != ".calls":
                    file.unlink()
            elif file.suffix == ".calls":
                strange.append(file)
        if strange and not self._marks:
            raise RunFolderError(
                f"{self._file} is not there, and {strange[0].name} beside it says that calls of "
                "this run are out in batches: bring the journal back under its name, or go on in "
                "a new run folder (--run-folder), which may pay for those calls again"
            )
        self._note_liabilities()

    def _write(self, step: dict[str, Any]) -> None:
        line = msgspec.json.encode(step)
        append_line(self._file, line)
        self._apply(orjson.loads(line))
        if step.keys() & {"submitted", "dropped", "landed"}:
            self._note_liabilities()

    def _note_liabilities(self, leaving: Mapping[str, Submission] = MappingProxyType({})) -> None:
        """leaving: those about to be sent, by mark."""
        owed: dict[str, tuple[int, float]] = {}
        for batch in {**self.liabilities, **leaving}.values():
            lines, dollars = owed.get(batch.model, (0, 0.0))
            owed[batch.model] = lines + batch.lines, dollars + batch.worst
        write_liabilities(self._run, owed)

    def _apply(self, step: dict[str, Any]) -> None:
        match step:
            case {"owner": owner}:
                self.owner = owner
            case {"packing": mark}:
                self._marks.add(mark)
            case {"intend": fields}:
                batch = Submission(**fields)
                self._marks.add(batch.mark)
                self.intended[batch.mark] = batch
                self.began = batch.at if self.began is None else self.began
                if not batch.marked:
                    # Older versions sent it without another word.
                    self.sending[batch.mark] = batch.at
            case {"sending": mark, "at": now}:
                self.sending[mark] = now
            case {"denied": mark}:
                self.denied.add(mark)
            case {"submitted": mark, "id": id, "guessed": True}:
                # An older version took a batch for ours on its age and size: that proves nothing.
                self._guesses[id] = mark
            case {"submitted": mark, "id": id}:
                self.out[id] = self._found(mark)
                self.known.add(id)
            case {"foreign": id, **rest}:
                self.others.add((rest.get("mark") or self._guesses[id], id))
            case {"dropped": mark}:
                self._found(mark)
            case {"refused": id}:
                self._ended(id)
            case {"give_up": name}:
                self.given_up.add(name)
            case {"landed": id, "account": account, "faults": faults, "again": again}:
                batch = self._ended(id)
                self.ended.append(EndedBatch(id, batch, msgspec.convert(account, UsageTotals)))
                for address, (status, body) in faults.items():
                    self.faults[address] = status, body.encode()
                for address in again:
                    self.tries[address] = self.tries.get(address, 0) + 1
            case {"room": model, "tokens": tokens}:
                self.room[model] = tokens
            case {"forgiven": _}:
                self.faults.clear()
            case _:
                raise LookupError(f"a step that this version does not know: {[*step][:1]}")

    def _ended(self, name: str) -> Submission:
        return self.out.pop(name, None) or self._found(self._guesses.get(name, name))

    def _found(self, mark: str) -> Submission:
        """An intended batch, which is no longer one of unknown fate."""
        self.sending.pop(mark, None)
        return self.intended.pop(mark)
