"""Handing in the calls that are missing, in batches: as many as vendor, queue and budget have room
for."""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from ....cache.call import Ask, Call
from ....cache.codec import read_call
from ....cache.reply import Reply
from ...errors import (
    BatchRefused,
    BudgetReached,
    Halt,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    Pending,
    ProviderDown,
    RateLimited,
    StoreFailed,
    Unreachable,
)
from ...stop import StopToken
from ...system.files import sync_folder, unwritable
from .dispatch import Dispatch
from .endpoint import INCONCLUSIVE, backoff
from .journal import Submission
from .results import lines_at, offsets, worst_case

LAST_SECONDS = 3.0
"""Seconds that a stop leaves a vendor to answer a submission."""
MAX_SUBMISSIONS = 6
"""Attempts to submit one batch, as long as none is known to have made it."""
_LINE_BYTES, _TOKEN_BYTES, _LOGPROB_BYTES = 2**16, 64, 2**12
"""Maximum size of a result: of its frame, of a token of the reply, and of one with logprobs."""

log = logging.getLogger(__name__)


class Outbox:
    """An `Ask` for one model, behind the cache: it gets the calls that have no stored reply, and
    hands them in.

    Raises Pending for a call that is out or noted, the vendor's fault for one that can never be
    served, and what the wire raises for one that it cannot express. Notes are kept on disk: a wave
    may lack more calls than memory should hold.
    """

    def __init__(
        self, books: Dispatch, model: str, stop_token: StopToken, live: Ask | None
    ) -> None:
        """live: asked for what is in no batch yet; None: it goes into the next one."""
        self._books, self._journal, self._stop = books, books.journal, stop_token
        self._model, self._endpoint, self._live = model, books.endpoint(model), live
        self._path = self._journal.file(hashlib.sha256(model.encode()).hexdigest()[:16], "noted")
        self._noted: set[bytes] = set()
        self._out: set[bytes] = set()
        self._file: BinaryIO | None = None
        self._unanswered: set[str] = set()
        """Marks of batches whose submission a stop cut off."""
        self._next: Call | None = None
        """The first call that is in no batch yet."""
        self._lacked = 0.0
        """Dollars missing for the first call that no batch had a place for; 0 if none were."""

    def reset(self) -> None:
        """Begin a wave: forget the notes, and read which calls are out."""
        self._noted.clear()
        self._out.clear()
        for batch in self._journal.pending:
            if batch.model == self._model:
                self._out.update(offsets(self._journal.file(batch.mark)))
        self.close()

    async def __call__(self, call: Call) -> Reply:
        address = call.address
        digest = bytes.fromhex(address)
        if digest in self._out or digest in self._noted:
            raise Pending(address)
        if (fault := self._journal.faults.get(address)) is not None:
            return self._endpoint.wire.reply(fault[0], {}, fault[1])
        if self._live is not None:
            return await self._live(call)
        # A call that the wire cannot express fails here, as it would live, not inside a batch.
        self._endpoint.wire.body(call)
        try:
            if self._file is None:
                self._file = self._path.open("wb")
            self._file.write(call.canonical + b"\n")
        except OSError as exc:
            raise StoreFailed(str(unwritable(self._path, exc))) from exc
        self._noted.add(digest)
        raise Pending(address)

    @property
    def noted(self) -> int:
        """How many calls are noted. No `__len__`: an `Ask` is never false."""
        return len(self._noted)

    def _calls(self) -> Iterator[Call]:
        """The noted calls, in the order in which they were asked."""
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as exc:
                raise unwritable(self._path, exc) from exc
            yield from (read_call("", line) for _, line in lines_at(self._path))

    def close(self) -> None:
        """Delete the notes."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._path.unlink(missing_ok=True)

    async def submit(self) -> None:
        """Submit the noted calls, as far as queue and budget have room. Raises only Halts and
        RunFolderErrors.

        BudgetReached where they have room for none, and nothing is out that may leave some.
        """
        books, calls, self._lacked = self._books, self._calls(), 0.0
        self._next = next(calls, None)
        while self._next is not None:
            self._stop.raise_if_stopped()
            batch = self._pack(calls)
            if batch is None:
                break
            books.reserve(batch.worst)
            await self._submit(batch)
        if self._lacked and books.budget is not None and not self._journal.pending:
            raise BudgetReached(books.budget.reached(self._lacked))

    def _pack(self, calls: Iterator[Call]) -> Submission | None:
        """Write the files of the next batch; None where not even its first call has a place. The
        calls of the batch are durable when this returns, and it is intended. RunFolderError."""
        books, endpoint, model = self._books, self._endpoint, self._model
        if (room := books.room(model)) <= 0:
            return None
        price, least = books.price(model), books.dearest.get(model, 0.0)
        batch = Submission(token_hex(8), model, 0, time.time(), most_bytes=2**20)
        packing, body = (self._journal.file(batch.mark, name) for name in ("packing", "body"))
        opening, between, closing = endpoint.frame
        try:
            with packing.open("wb") as kept, body.open("wb") as file:
                size = file.write(opening)
                while (call := self._next) is not None:
                    line = endpoint.line(batch.custom_id(call.address), endpoint.wire.body(call))
                    worst = max(worst_case(call, price), least)
                    if books.budget is not None and not books.budget.fits(batch.worst + worst):
                        self._lacked = 0.0 if batch.lines else worst
                        break
                    larger = size + len(between + line + closing)
                    if batch.lines and (batch.lines >= room or larger > endpoint.most_bytes):
                        break
                    size += file.write(between + line if batch.lines else line)
                    kept.write(call.canonical + b"\n")
                    batch = replace(
                        batch,
                        lines=batch.lines + 1,
                        worst=batch.worst + worst,
                        most_bytes=batch.most_bytes + result_bytes(call),
                    )
                    self._next = next(calls, None)
                file.write(closing)
                kept.flush()
                os.fsync(kept.fileno())
            if not batch.lines:
                self._journal.delete_files(batch)
                return None
            # A batch is intended before its calls have their name: without one, none was sent.
            self._journal.intend(batch)
            packing.rename(self._journal.file(batch.mark))
            sync_folder(self._journal.folder)
        except OSError as exc:
            raise unwritable(packing, exc) from exc
        return batch

    async def _submit(self, batch: Submission) -> None:
        """Submit a batch. While nothing proves whether the vendor made it, it is a liability."""
        endpoint, body, tries = self._endpoint, self._journal.file(batch.mark, "body"), 0
        try:
            uploaded = await endpoint.retried(endpoint.upload, body)
            while True:
                self._journal.send(batch.mark, endpoint.now())
                try:
                    id = await self._created(batch, body, uploaded)
                    return self._journal.note(submitted=batch.mark, id=id)
                except (RateLimited, Unreachable) as exc:
                    tries += 1
                    if tries > MAX_SUBMISSIONS:
                        raise ProviderDown(f"{exc}; a batch could not be handed in") from exc
                    await self._stop.sleep(backoff(tries, exc))
        except Overloaded:
            self._journal.note(denied=batch.mark)
        except (InvalidRequest, ModelNotFound) as exc:
            self._books.drop(batch)
            raise BatchRefused(f"{exc}; no call of {batch.model} went out") from exc
        except INCONCLUSIVE as exc:
            log.warning("a batch may have been made, or not: %r", exc)
        except Halt:
            if batch.mark not in self._unanswered:
                self._books.drop(batch)
            raise
        finally:
            body.unlink(missing_ok=True)

    async def _created(self, batch: Submission, body: Path, uploaded: str) -> str:
        """The id of the batch that is made. A stop gives the vendor a moment to answer."""
        endpoint = self._endpoint
        making = asyncio.create_task(endpoint.asked(endpoint.create, batch, body, uploaded))
        try:
            return await self._stop.until_stopped(_result(making))
        except Halt:
            await asyncio.wait((making,), timeout=LAST_SECONDS)
            if not making.done():
                self._unanswered.add(batch.mark)
                raise
            return making.result()
        finally:
            if making.cancel():
                await asyncio.wait((making,))


async def _result(task: "asyncio.Task[str]") -> str:
    return await asyncio.shield(task)


def result_bytes(call: Call) -> int:
    """Maximum size of a call's line in the results."""
    token = _LOGPROB_BYTES if call.top_logprobs else _TOKEN_BYTES
    return _LINE_BYTES + call.max_tokens * token
