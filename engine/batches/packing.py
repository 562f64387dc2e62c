"""Packs calls into batches within the vendor's caps, the queue's room and the budget."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from ...cache.call import Call
from ..accounting.budget import Budget
from ..accounting.prices import Price
from ..system.files import sync_folder, unwritable
from ..tokens import CAUTION, prompt_tokens
from .endpoint import BatchEndpoint, Caps, Submission

BODY = ".body"
"""Suffix of the file that is uploaded."""


@dataclass
class BatchPacker:
    """Packs the calls of one model into batches."""

    model: str
    endpoint: BatchEndpoint
    folder: Path
    calls: Iterator[Call]
    caps: Caps
    price: Price | None
    budget: Budget | None
    lacked: float = 0.0
    """Dollars missing for the first call that no batch had a place for; 0 if none were."""

    def __post_init__(self) -> None:
        self._next = next(self.calls, None)

    @property
    def empty(self) -> bool:
        return self._next is None

    def rest(self) -> Iterator[Call]:
        """The calls that are in no batch."""
        while (call := self._next) is not None:
            self._next = next(self.calls, None)
            yield call

    def pack(self, room: float) -> Submission | None:
        """Write the files of the next batch; None where not even its first call has a place.

        room: tokens that its prompts may have; any room above 0 takes one call. The calls of the
        batch are durable when this returns. RunFolderError.
        """
        mark = token_hex(8)
        body, calls = self.folder / f"{mark}{BODY}", self.folder / f"{mark}.calls"
        lines, size, tokens, worst = 0, 0, 0.0, 0.0

        def fitting() -> Iterator[bytes]:
            nonlocal lines, size, tokens, worst
            while (call := self._next) is not None:
                line = self.endpoint.line(call.address, self.endpoint.wire.body(call))
                asked, most = prompt_tokens(call), worst_case(call, self.price)
                if self.budget is not None and not self.budget.fits(worst + most):
                    self.lacked = 0.0 if lines else most
                    return
                full = lines >= self.caps.lines or size + len(line) > self.caps.bytes
                if room <= 0 or (lines and (full or tokens + asked > room)):
                    return
                lines, size = lines + 1, size + len(line)
                tokens, worst = tokens + asked, worst + most
                kept.write(call.canonical + b"\n")
                yield line
                self._next = next(self.calls, None)

        try:
            with calls.open("wb") as kept, body.open("wb") as file:
                self.endpoint.write(fitting(), file)
                kept.flush()
                os.fsync(kept.fileno())
            sync_folder(self.folder)
            if lines:
                return Submission(mark, self.model, lines, time.time(), tokens, worst)
            calls.unlink()
            body.unlink()
        except OSError as exc:
            raise unwritable(calls, exc) from exc
        return None


def worst_case(call: Call, price: Price | None) -> float:
    """Maximum cost of a call in dollars; 0 if it has no price."""
    return 0.0 if price is None else price.worst(CAUTION * prompt_tokens(call), call.max_tokens)
