"""The results of a batch: replies go into the store, faults to the cells or to the next batch."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from ....cache.cache import Cache
from ....cache.call import Call
from ....cache.codec import read_call
from ....cache.errors import StoreError
from ....cache.reply import Reply
from ...errors import (
    AllRefused,
    Halt,
    InvalidRequest,
    Malformed,
    ProviderDown,
    StoreFailed,
    TransientError,
)
from ...models.accounting.ledger import Page, fate
from ...models.accounting.prices import Price, charged
from ...models.accounting.quarantine import Quarantine
from ...models.limits.breaker import MAX_IN_A_ROW
from ...models.limits.halts import MAX_ALIKE
from ...providers.provider import keyless, require_length
from ...system.files import open_plain
from ...tokens import CAUTION, prompt_tokens
from .endpoint import BatchEndpoint, LineResult, Lost
from .journal import Submission

MAX_BATCHES, MAX_UNREAD = 8, 2
"""How many batches a call goes into that bring no reply, before its cell fails; fewer where each
may have been billed, since what came cannot be read."""
STORED_TOGETHER = 256
"""Lines whose replies are stored together."""

_NO_REPLY = b'{"error": {"message": "its batches ended without a reply to it"}}'

log = logging.getLogger(__name__)


@dataclass
class BatchResults:
    """One batch that has ended, line by line. Nothing of it is final before the journal has it."""

    batch: Submission
    calls: Path
    """The file of the batch's calls."""
    endpoint: BatchEndpoint
    price: Price | None
    """Price of calls in batches."""
    quarantine: Quarantine | None
    origin: str
    """Origin of the batch's replies; see `Reply.origin`."""
    tries: Mapping[str, int]
    """By address, how many batches before this one brought no reply to a call."""
    dearest: float = 0.0
    """Dollars of the dearest reply that cost more than its worst case; 0 if none did."""
    faults: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """By address, the answers to calls that can never be served."""
    again: list[str] = field(default_factory=list)
    """Addresses of calls without a reply that may get one next time."""
    halt: Halt | None = None
    """The first reason in any line to ask nothing more."""

    def __post_init__(self) -> None:
        self.page = Page(self.batch.model, self.price)
        """Sums over all lines."""
        self._causes: set[str] = set()
        self._malformed = 0

    def readable(self, results: Path) -> tuple[int, int]:
        """(ours, others): how many different lines of the batch the results hold, and how many
        lines that can be read and are none of it."""
        ids, ours, others = self._custom_ids(), set[str](), 0
        for result in self._lines(results):
            if result.custom_id in ids:
                ours.add(result.custom_id)
            else:
                others += 1
        return len(ours), others

    async def store(self, results: Path, absent: Lost, cache: Cache) -> None:
        """Store every reply; durable when this returns. StoreFailed, KeyRepeated.

        results: as downloaded, in any order; lines may be missing or come twice. absent: fate of
        those that are missing.
        """
        left = self._custom_ids()
        with open_plain(self.calls) as asked:
            lines = self._lines(results)
            while part := list(islice(lines, STORED_TOGETHER)):
                kept = []
                for result in part:
                    offset = left.pop(result.custom_id, None)
                    if offset is None:
                        continue
                    call = _call_at(asked, offset)
                    if (reply := self._reply(call, result)) is not None:
                        kept.append((call, reply))
                await _keep(cache, kept)
            for custom_id, offset in left.items():
                self._reply(_call_at(asked, offset), LineResult(custom_id, 0, b"", absent))
        self._doubt_all()

    def _custom_ids(self) -> dict[str, int]:
        """By custom id, where each call of the batch begins in its file."""
        return {self.batch.custom_id(key.hex()): at for key, at in offsets(self.calls).items()}

    def _lines(self, results: Path) -> Iterator[LineResult]:
        unread, first = 0, ""
        for _, line in lines_at(results):
            try:
                yield self.endpoint.read(line)
            except (LookupError, TypeError, ValueError, AttributeError) as exc:
                # Its call counts as missing, unless another line is about it.
                unread, first = unread + 1, first or repr(exc)
        if unread:
            log.warning(
                "%d lines of the results of %s cannot be read: %s", unread, self.batch.mark, first
            )

    def _reply(self, call: Call, result: LineResult) -> Reply | None:
        worst = worst_case(call, self.price)
        if result.lost is not None:
            missing = result.lost == "Missing"
            self.page.fault("ambiguous" if missing else "failed", result.lost, worst)
            self._ask_again(call, MAX_BATCHES, 503, _NO_REPLY)
            return None
        secret = self.endpoint.secret
        repeats = secret.repeated(result.body)
        body = secret.hidden(result.body) if repeats else result.body
        try:
            reply = self.endpoint.wire.reply(result.status, {}, body)
            require_length(reply, call, self.endpoint.settings.provider, body)
            if repeats:
                keyless(reply, self.endpoint.settings.provider)
        except Halt as halt:
            self.page.fault(fate(halt), type(halt).__name__, worst)
            self.halt = self.halt or halt
        except TransientError as exc:
            self.page.fault(fate(exc), type(exc).__name__, worst)
            most = MAX_BATCHES
            if isinstance(exc, Malformed):
                most = MAX_UNREAD
                self._malformed += 1
                if self.quarantine is not None:
                    self.quarantine.keep(call, exc)
            self._ask_again(call, most, result.status, body)
        except InvalidRequest as exc:
            self.page.fault(fate(exc), type(exc).__name__, worst)
            self.faults[call.address] = result.status, body
            self._causes.add(re.sub(r"\d+", "0", str(exc)))
        else:
            self.page.count(reply, worst)
            if (cost := charged(reply.usage, self.price)) is not None and cost > worst > 0:
                self.dearest = max(self.dearest, cost)
            return replace(reply, origin=self.origin)
        return None

    def _ask_again(self, call: Call, most: int, status: int, body: bytes) -> None:
        """Leave a call to the next batch, or its cell with this answer after so many."""
        if self.tries.get(call.address, 0) + 1 < most:
            self.again.append(call.address)
        else:
            self.faults[call.address] = status, body

    def _doubt_all(self) -> None:
        """Stop where most replies cannot be read, as the breaker does live, or all lines of a batch
        were refused for one cause: the calls are not at fault."""
        if self._malformed >= MAX_IN_A_ROW and 2 * self._malformed > self.batch.lines:
            self.halt = self.halt or ProviderDown(
                f"{self._malformed:,} of {self.batch.lines:,} replies of a batch at "
                f"{self.endpoint.wire.provider} cannot be read, and may have been billed; what "
                "came is in the quarantine of the run folder. Go on once the vendor has mended it"
            )
        if len(self.faults) == self.batch.lines >= MAX_ALIKE and len(self._causes) == 1:
            what = self.endpoint.wire.provider
            (cause,) = self._causes
            self.faults.clear()
            self.halt = AllRefused(
                f"{cause}; all {self.batch.lines:,} calls of a batch at {what} ended so. Mend what "
                "it names in the sweep file or at the vendor; they are asked again"
            )


async def _keep(cache: Cache, replies: list[tuple[Call, Reply]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for call, reply in replies:
                group.create_task(cache.keep(call, reply))
    except ExceptionGroup as faults:
        first = faults.exceptions[0]
        if isinstance(first, StoreError):
            raise StoreFailed(f"{first}; the results can be fetched again") from first
        raise


def _call_at(file: BinaryIO, offset: int) -> Call:
    file.seek(offset)
    return read_call("", file.readline().rstrip(b"\n"))


def worst_case(call: Call, price: Price | None) -> float:
    """Maximum cost of a call in dollars; 0 if it has no price."""
    return 0.0 if price is None else price.worst(CAUTION * prompt_tokens(call), call.max_tokens)


def lines_at(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of each line of a file, without newlines."""
    offset = 0
    with open_plain(path) as file:
        for line in file:
            yield offset, line.rstrip(b"\n")
            offset += len(line)


def offsets(path: Path) -> dict[bytes, int]:
    """Where each call of a file begins, by the bytes of its address."""
    return {hashlib.sha256(line).digest(): offset for offset, line in lines_at(path)}
