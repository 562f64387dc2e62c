"""The results of a batch: replies go into the store, faults to the cells or to the next batch."""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from ....cache.cache import Cache
from ....cache.call import Call
from ....cache.entry import read_call
from ....cache.errors import StoreError
from ....cache.reply import Reply
from ....protocols.errors import gather_deterministic
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
from ...models.accounting.budget import Quarantine
from ...models.accounting.ledger import Accounting, Page, fate
from ...models.accounting.prices import Price, charged
from ...models.limits.breaker import MAX_ALIKE, MAX_IN_A_ROW
from ...providers.provider import keyless, require_length
from ...system.files import open_plain
from ...tokens import CAUTION, prompt_tokens
from .endpoints import INCONCLUSIVE, BatchEndpoint, LineResult, Lost
from .journal import Batch, BatchJournal

MAX_BATCHES, MAX_UNREAD = 8, 2
"""Batches without a reply to a call before its cell fails; and with an unreadable reply, which may
be billed each time."""
STORED_TOGETHER = 256
"""Lines whose replies are stored together."""
_LINE_BYTES, _TOKEN_BYTES, _LOGPROB_BYTES = 2**16, 64, 2**12
"""Maximum size of a result without its reply; per token; and per token with logprobs."""
_NO_REPLY = b'{"error": {"message": "its batches ended without a reply to it"}}'
log = logging.getLogger(__name__)


@dataclass
class Results:
    """The lines of one batch that has ended. None is final before the journal has them."""

    batch: Batch
    endpoint: BatchEndpoint
    journal: BatchJournal
    quarantine: Quarantine | None
    page: Page
    """Sums over all lines."""
    origin: str
    """See `Reply.origin`."""
    dearest: float = 0.0
    """Dollars of the most expensive reply above its worst case; 0 if all cost less."""
    faults: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """By address, the answers to calls that can never be served."""
    again: list[str] = field(default_factory=list)
    """Addresses of calls for the next batch."""
    halt: Halt | None = None
    """The first reason in any line to stop the run."""
    _causes: set[str] = field(default_factory=set)
    _malformed: int = 0

    @property
    def _calls(self) -> Path:
        return self.journal.file(self.batch.mark)

    def offsets(self, results: BinaryIO) -> tuple[dict[str, int], int]:
        """(offset of the result of each call, by custom id; number of readable lines of other
        batches). results: as downloaded, in any order; a line may occur twice."""
        ids = {self.batch.custom_id(key.hex()) for key in keys_of(self._calls)}
        offsets, others, offset = dict[str, int](), 0, results.seek(0)
        unread, reason = 0, ""
        for line in results:
            try:
                custom_id = self.endpoint.read(line).custom_id
                others += custom_id not in ids
                if custom_id in ids:
                    offsets.setdefault(custom_id, offset)
            except INCONCLUSIVE as exc:
                # Its call counts as missing, unless another line answers it.
                unread, reason = unread + 1, reason or repr(exc)
            offset += len(line)
        if unread:
            log.warning("%d results of %s cannot be read: %s", unread, self.batch.mark, reason)
        return offsets, others

    async def store(
        self, results: BinaryIO, offsets: Mapping[str, int], absent: Lost, cache: Cache
    ) -> None:
        """Store every reply; durable when this returns. StoreFailed, KeyEchoed. absent: fate of
        calls without a result."""
        with open_plain(self._calls) as calls:
            while chunk := list(islice(calls, STORED_TOGETHER)):
                replies = []
                for line in chunk:
                    call, result = read_call("", line.rstrip(b"\n")), LineResult("", lost=absent)
                    offset = offsets.get(self.batch.custom_id(call.address))
                    if offset is not None:
                        results.seek(offset)
                        result = self.endpoint.read(results.readline())
                    if (reply := self._reply(call, result)) is not None:
                        replies.append(cache.keep(call, reply))
                try:
                    await gather_deterministic(*replies)
                except StoreError as exc:
                    raise StoreFailed(f"{exc}; the results can be fetched again") from exc
        self._question_all()

    def _reply(self, call: Call, result: LineResult) -> Reply | None:
        worst = worst_case(call, self.page.price)
        if result.lost is not None:
            missing = result.lost == "Missing"
            self.page.fault("unconfirmed" if missing else "failed", result.lost, worst)
            self._ask_again(call, MAX_BATCHES, 503, _NO_REPLY)
            return None
        provider, secret = self.endpoint.settings.provider, self.endpoint.secret
        repeats = secret.repeated(result.body)
        body = secret.hidden(result.body) if repeats else result.body
        try:
            reply = self.endpoint.wire.reply(result.status, {}, body)
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
        return structs.replace(reply, origin=self.origin)

    def _failed(self, call: Call, fault: Exception, status: int, body: bytes) -> None:
        if isinstance(fault, Halt):
            self.halt = self.halt or fault
        elif isinstance(fault, InvalidRequest):
            self.faults[call.address] = status, body
            self._causes.add(re.sub(r"\d+", "0", str(fault)))
        elif isinstance(fault, Malformed):
            self._malformed += 1
            if self.quarantine is not None:
                self.quarantine.keep(call, fault)
            self._ask_again(call, MAX_UNREAD, status, body)
        else:
            self._ask_again(call, MAX_BATCHES, status, body)

    def _ask_again(self, call: Call, most: int, status: int, body: bytes) -> None:
        """Leave a call to the next batch; after the last one allowed, this answer is final."""
        if self.journal.tries.get(call.address, 0) + 1 < most:
            self.again.append(call.address)
        else:
            self.faults[call.address] = status, body

    def _question_all(self) -> None:
        """Stop if most replies are unreadable, or if every line was refused for one cause: then the
        calls are not at fault."""
        provider, lines = self.endpoint.settings.provider, self.batch.lines
        if self._malformed >= MAX_IN_A_ROW and 2 * self._malformed > lines:
            self.halt = self.halt or ProviderDown(
                f"{self._malformed:,} of {lines:,} replies of a batch at {provider} cannot be "
                "read, and may have been billed; they are in the quarantine of the run folder. "
                "Resume once the vendor has fixed it"
            )
        if len(self.faults) == lines >= MAX_ALIKE and len(self._causes) == 1:
            self.faults.clear()
            self.halt = AllRefused(
                f"{self._causes.pop()}; all {lines:,} calls of a batch at {provider} ended so. Fix "
                "it in the sweep file or at the vendor; they are asked again"
            )


def keys_of(path: Path) -> Iterator[bytes]:
    """The address of each call in a file, as bytes. RunFolderError."""
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
    return _LINE_BYTES + call.max_tokens * (_LOGPROB_BYTES if call.top_logprobs else _TOKEN_BYTES)


def price_of(accounting: Accounting, model: str) -> Price | None:
    """Price of a model in batches."""
    return (price := accounting.prices.find(model)) and price.deferred()
