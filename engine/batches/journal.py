"""What a run handed in and what came back: `batches/book.jsonl` in its folder.

Append-only, and each line is durable before the next step is taken:

    intend     a batch is about to be handed in; its calls lie in MARK.calls, one a line
    submitted  the vendor has it, under this id
    foreign    what was found under this id is another's; ours is still to be found
    dropped    it was never made: its calls are free again
    refused    the vendor turned it down whole; its calls are free again
    landed     its replies are in the store; what it came to, and what came of its other lines
    room       how many tokens the queue of a model takes, as far as was found out
    forgiven   cells that failed are run again: no fault stands any more

So a process may be killed between any two steps: a batch that is intended, and not submitted, is
looked for at the vendor before anything else is handed in.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from oversight.engine.accounting.ledger import UsageTotals
from oversight.engine.batches.endpoint import Submission
from oversight.engine.errors import RunFolderError
from oversight.engine.system.files import append_line, unwritable, whole_lines

FOLDER, JOURNAL = "batches", "book.jsonl"

_TOTALS = TypeAdapter(UsageTotals)


class BatchJournal:
    """One run's; the run folder's lock is held by whoever opens it. RunFolderError."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self._file = self.folder / JOURNAL
        self.began: float | None = None
        """When the first batch was handed in, in seconds since 1970."""
        self.intended: dict[str, Submission] = {}
        """By mark, what may have been handed in."""
        self.out: dict[str, Submission] = {}
        """By the vendor's id, what was."""
        self.known: set[str] = set()
        """Ids of all batches of this run, and of others that were taken for one of them."""
        self.guessed: set[str] = set()
        """Ids of batches that were found at a vendor whose list does not show our mark."""
        self.faults: dict[str, tuple[int, bytes]] = {}
        """By address, the answer that says why a call can never be served."""
        self.tries: dict[str, int] = {}
        """By address, how many batches brought no reply to a call."""
        self.landed: dict[str, list[UsageTotals]] = {}
        """By model, what each batch came to, in the order in which they landed."""
        self.room: dict[str, float] = {}
        """By model, tokens in its queue at most."""
        try:
            self._open()
        except OSError as exc:
            raise unwritable(self._file, exc) from exc

    def calls(self, batch: Submission) -> Path:
        """The file of a batch's calls: canonical JSON, one a line."""
        return self.folder / f"{batch.mark}.calls"

    def intend(self, batch: Submission) -> None:
        self._write({"intend": asdict(batch)})

    def submitted(self, mark: str, id: str, *, guessed: bool = False) -> None:
        """guessed: whether the batch may be another's, as its results will tell."""
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
        """faults: answers of lines that are never served, by address. again: those to ask again."""
        told = {address: [status, body.decode()] for address, (status, body) in faults.items()}
        self._write({"landed": id, "account": account, "faults": told, "again": list(again)})

    def learn(self, model: str, tokens: float) -> None:
        self._write({"room": model, "tokens": tokens})

    def forgive(self) -> None:
        if self.faults:
            self._write({"forgiven": len(self.faults)})

    def _open(self) -> None:
        self.folder.mkdir(exist_ok=True)
        size = 0
        for line in whole_lines(self._file):
            try:
                self._apply(orjson.loads(line))
            except (orjson.JSONDecodeError, ValidationError, LookupError, TypeError) as exc:
                raise RunFolderError(
                    f"{self._file}: cannot be read: {exc}; with it moved away, calls that are out "
                    "in batches are asked, and paid, again"
                ) from exc
            size += len(line)
        if self._file.exists():
            # The last line may have been cut off.
            os.truncate(self._file, size)
        kept = {self.calls(batch).name for batch in (*self.intended.values(), *self.out.values())}
        for file in self.folder.iterdir():
            if file.name not in (JOURNAL, *kept):
                file.unlink()

    def _write(self, told: dict[str, Any]) -> None:
        line = orjson.dumps(told)
        append_line(self._file, line)
        self._apply(orjson.loads(line))

    def _apply(self, told: dict[str, Any]) -> None:
        match told:
            case {"intend": batch}:
                made = Submission(**batch)
                self.intended[made.mark] = made
                self.began = made.at if self.began is None else self.began
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
                raise LookupError(f"a step that this version does not know: {[*told][:1]}")
