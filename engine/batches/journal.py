"""A run's batches, submitted and collected: `batches/book.jsonl` in its folder.

Append-only, and each line is durable before the next step is taken:

    intend     a batch is about to be submitted; its calls are in MARK.calls, one a line
    submitted  the vendor has it, under this id
    foreign    the batch found under this id is another's; ours is still to be found
    dropped    it was never made: its calls are free again
    refused    the vendor refused it as a whole; its calls are free again
    landed     its replies are in the store; its usage, and the fate of its other lines
    room       how many tokens the queue of a model takes, as learnt so far
    forgiven   failed cells are run again: no fault stands any more

So a process may be killed between any two steps: a batch that is intended, and not submitted, is
looked for at the vendor before anything else is submitted.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from ..accounting.ledger import UsageTotals
from ..errors import RunFolderError
from ..system.files import append_line, unwritable, whole_lines
from .endpoint import Submission

FOLDER, JOURNAL = "batches", "book.jsonl"

_TOTALS = TypeAdapter(UsageTotals)


class BatchJournal:
    """The journal of one run. To write to it takes the lock of the run folder."""

    def __init__(self, run: Path, *, reads_only: bool = False) -> None:
        """reads_only: leaves the folder as it is, also while another process runs it.
        RunFolderError."""
        self.folder = run / FOLDER
        self._file = self.folder / JOURNAL
        self.began: float | None = None
        """When the first batch was submitted, in seconds since 1970."""
        self.intended: dict[str, Submission] = {}
        """Batches that may have been submitted, by mark."""
        self.out: dict[str, Submission] = {}
        """Batches that the vendor has, by its id."""
        self.known: set[str] = set()
        """Ids of all batches of this run, and of others that were mistaken for one of them."""
        self.guessed: set[str] = set()
        """Ids of batches found at a vendor whose list does not show our mark."""
        self.faults: dict[str, tuple[int, bytes]] = {}
        """By address, (status, body) of the answer to a call that can never be served."""
        self.tries: dict[str, int] = {}
        """By address, how many batches brought no reply to a call."""
        self.landed: dict[str, list[UsageTotals]] = {}
        """By model, the usage of each batch, in the order in which they landed."""
        self.room: dict[str, float] = {}
        """By model, the tokens that its queue takes."""
        try:
            self._replay()
            if not reads_only:
                self._clean()
        except OSError as exc:
            raise unwritable(self._file, exc) from exc

    def calls(self, batch: Submission) -> Path:
        """The file of a batch's calls: canonical JSON, one a line."""
        return self.folder / f"{batch.mark}.calls"

    def intend(self, batch: Submission) -> None:
        self._write({"intend": asdict(batch)})

    def submitted(self, mark: str, id: str, *, guessed: bool = False) -> None:
        """guessed: whether the batch may be another's, which only its results show."""
        self._write({"submitted": mark, "id": id, "guessed": guessed})

    def foreign(self, id: str) -> None:
        self._write({"foreign": id})

    def dropped(self, mark: str) -> None:
        self._write({"dropped": mark})

    def refused(self, id: str, why: str) -> None:
        self._write({"refused": id, "why": why})

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
            except (orjson.JSONDecodeError, ValidationError, LookupError, TypeError) as exc:
                raise RunFolderError(
                    f"{self._file}: cannot be read: {exc}; with it moved away, calls that are out "
                    "in batches are asked, and paid, again"
                ) from exc
            self._size += len(line)

    def _clean(self) -> None:
        """Cut a torn last line, and delete the files of batches that are not out."""
        self.folder.mkdir(exist_ok=True)
        if self._file.exists():
            os.truncate(self._file, self._size)
        kept = {self.calls(batch).name for batch in (*self.intended.values(), *self.out.values())}
        for file in self.folder.iterdir():
            if file.name not in (JOURNAL, *kept):
                file.unlink()

    def _write(self, step: dict[str, Any]) -> None:
        line = orjson.dumps(step)
        append_line(self._file, line)
        self._apply(orjson.loads(line))

    def _apply(self, step: dict[str, Any]) -> None:
        match step:
            case {"intend": fields}:
                batch = Submission(**fields)
                self.intended[batch.mark] = batch
                self.began = batch.at if self.began is None else self.began
            case {"submitted": mark, "id": id, "guessed": guessed}:
                self.out[id] = self.intended.pop(mark)
                self.known.add(id)
                self.guessed |= {id} if guessed else set()
            case {"foreign": id}:
                batch = self.out.pop(id)
                self.intended[batch.mark] = batch
            case {"dropped": mark}:
                del self.intended[mark]
            case {"refused": id}:
                del self.out[id]
            case {"landed": id, "account": account, "faults": faults, "again": again}:
                model = self.out.pop(id).model
                self.landed.setdefault(model, []).append(_TOTALS.validate_python(account))
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
