"""The results of a batch: replies go into the store, faults to the cells or to the next batch."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from ....cache.cache import Cache
from ....cache.call import Call
from ....cache.entry import read_call
from ....cache.errors import StoreError
from ....cache.reply import Reply
from ...errors import (
    AllRefused,
    Halt,
    InvalidRequest,
    Malformed,
    ProviderDown,
    RunFolderError,
    StoreFailed,
    TransientError,
)
from ...models.accounting.ledger import Accounting, Page, fate
from ...models.accounting.prices import Price, charged
from ...models.limits.breaker import MAX_ALIKE, MAX_IN_A_ROW
from ...providers.provider import keyless, require_length
from ...system.files import open_plain
from ...tokens import CAUTION, prompt_tokens
from .endpoints import BatchEndpoint, LineResult, Lost
from .journal import Batch, BatchJournal

MAX_BATCHES, MAX_UNREAD = 8, 2
"""Batches without a reply to a call before its cell fails; fewer where each may have been billed,
since the reply cannot be read."""
STORED_TOGETHER = 256
"""Lines whose replies are stored together."""
_LINE_BYTES, _TOKEN_BYTES, _LOGPROB_BYTES = 2**16, 64, 2**12
"""Maximum size of a result: of its frame, of a token of the reply, and of one with logprobs."""
_NO_REPLY = b'{"error": {"message": "its batches ended without a reply to it"}}'

log = logging.getLogger(__name__)


class Results:
    """The lines of one batch that has ended. None is final before the journal has them."""

    def __init__(
        self,
        batch: Batch,
        endpoint: BatchEndpoint,
        journal: BatchJournal,
        accounting: Accounting,
        origin: str,
    ) -> None:
        """origin: see `Reply.origin`."""
        self.batch = batch
        self.page = Page(batch.model, price_of(accounting, batch.model))
        """Sums over all lines."""
        self.dearest = 0.0
        """Dollars of the dearest reply that cost more than its worst case; 0 if none did."""
        self.faults: dict[str, tuple[int, bytes]] = {}
        """By address, the answers to calls that can never be served."""
        self.again: list[str] = []
        """Addresses of calls without a reply that may get one next time."""
        self.halt: Halt | None = None
        """The first reason in any line to ask nothing more."""
        self._endpoint, self._origin, self._tries = endpoint, origin, journal.tries
        self._quarantine, self._calls = accounting.quarantine, journal.file(batch.mark)
        self._causes: set[str] = set()
        self._malformed = 0

    def places(self, results: BinaryIO) -> tuple[dict[str, int], int]:
        """(where the result of each call begins, by custom id; how many readable lines belong to
        other batches). results: as downloaded, in any order; a line may come twice."""
        ids = {self.batch.custom_id(key.hex()) for key in keys_of(self._calls)}
        places, others, unread, first, at = dict[str, int](), 0, 0, "", results.seek(0)
        for line in results:
            try:
                custom_id = self._endpoint.read(line).custom_id
                others += custom_id not in ids
                if custom_id in ids:
                    places.setdefault(custom_id, at)
            except (LookupError, TypeError, ValueError, AttributeError) as exc:
                # Its call counts as missing, unless another line is about it.
                unread, first = unread + 1, first or repr(exc)
            at += len(line)
        if unread:
            log.warning("%d results of %s cannot be read: %s", unread, self.batch.mark, first)
        return places, others

    async def store(
        self, results: BinaryIO, places: Mapping[str, int], absent: Lost, cache: Cache
    ) -> None:
        """Store every reply; durable when this returns. StoreFailed, KeyEchoed. absent: fate of
        calls without a result."""
        with open_plain(self._calls) as calls:
            while part := list(islice(calls, STORED_TOGETHER)):
                replies = []
                for line in part:
                    call, result = read_call("", line.rstrip(b"\n")), LineResult("", 0, b"", absent)
                    at = places.get(self.batch.custom_id(call.address))
                    if at is not None:
                        results.seek(at)
                        result = self._endpoint.read(results.readline())
                    if (reply := self._reply(call, result)) is not None:
                        replies.append((call, reply))
                await _keep(cache, replies)
        self._doubt_all()

    def _reply(self, call: Call, result: LineResult) -> Reply | None:
        worst = worst_case(call, self.page.price)
        if result.lost is not None:
            missing = result.lost == "Missing"
            self.page.fault("unconfirmed" if missing else "failed", result.lost, worst)
            self._ask_again(call, MAX_BATCHES, 503, _NO_REPLY)
            return None
        provider, secret = self._endpoint.settings.provider, self._endpoint.secret
        repeats = secret.repeated(result.body)
        body = secret.hidden(result.body) if repeats else result.body
        try:
            reply = self._endpoint.wire.reply(result.status, {}, body)
            require_length(reply, call, provider, body)
            if repeats:
                keyless(reply, provider)
        except (Halt, TransientError, InvalidRequest) as exc:
            self.page.fault(fate(exc), type(exc).__name__, worst)
            self._failed(call, exc, result.status, body)
            return None
        self.page.count(reply, worst)
        if (cost := charged(reply.usage, self.page.price)) is not None and cost > worst > 0:
            self.dearest = max(self.dearest, cost)
        return structs.replace(reply, origin=self._origin)

    def _failed(self, call: Call, fault: Exception, status: int, body: bytes) -> None:
        if isinstance(fault, Halt):
            self.halt = self.halt or fault
        elif isinstance(fault, InvalidRequest):
            self.faults[call.address] = status, body
            self._causes.add(re.sub(r"\d+", "0", str(fault)))
        elif isinstance(fault, Malformed):
            self._malformed += 1
            if self._quarantine is not None:
                self._quarantine.keep(call, fault)
            self._ask_again(call, MAX_UNREAD, status, body)
        else:
            self._ask_again(call, MAX_BATCHES, status, body)

    def _ask_again(self, call: Call, most: int, status: int, body: bytes) -> None:
        """Leave a call to the next batch; after the last one allowed, this answer ends it."""
        if self._tries.get(call.address, 0) + 1 < most:
            self.again.append(call.address)
        else:
            self.faults[call.address] = status, body

    def _doubt_all(self) -> None:
        """Stop if most replies cannot be read, as the breaker does live, or if all lines of a batch
        were refused for one cause: the calls are not at fault."""
        provider = self._endpoint.settings.provider
        if self._malformed >= MAX_IN_A_ROW and 2 * self._malformed > self.batch.lines:
            self.halt = self.halt or ProviderDown(
                f"{self._malformed:,} of {self.batch.lines:,} replies of a batch at {provider} "
                "cannot be read, and may have been billed; they are in the quarantine of the run "
                "folder. Resume once the vendor has fixed it"
            )
        if len(self.faults) == self.batch.lines >= MAX_ALIKE and len(self._causes) == 1:
            (cause,) = self._causes
            self.faults.clear()
            self.halt = AllRefused(
                f"{cause}; all {self.batch.lines:,} calls of a batch at {provider} ended so. Fix "
                "it in the sweep file or at the vendor; they are asked again"
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


def keys_of(path: Path) -> Iterator[bytes]:
    """The address of each call of a file, as bytes. RunFolderError."""
    try:
        with open_plain(path) as file:
            yield from (hashlib.sha256(line.rstrip(b"\n")).digest() for line in file)
    except FileNotFoundError as exc:
        raise RunFolderError(f"{path} is missing: it holds calls that are out in a batch") from exc


def worst_case(call: Call, price: Price | None) -> float:
    """Maximum cost of a call in dollars; 0 if it has no price."""
    return 0.0 if price is None else price.worst(CAUTION * prompt_tokens(call), call.max_tokens)


def result_bytes(call: Call) -> int:
    """Maximum size of a call's line in the results."""
    token = _LOGPROB_BYTES if call.top_logprobs else _TOKEN_BYTES
    return _LINE_BYTES + call.max_tokens * token


def price_of(accounting: Accounting, model: str) -> Price | None:
    """Price of the calls of a model in batches."""
    return (price := accounting.prices.find(model)) and price.batched()
