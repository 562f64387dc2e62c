"""Anthropic's Message Batches API: one request holds all calls, one file holds all results."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from ...providers.payload import text
from ...providers.sdk_clients import anthropic_client
from .endpoint import (
    TRANSFER_TIMEOUT,
    BatchEndpoint,
    BatchState,
    Caps,
    LineResult,
    ListedBatch,
    Lost,
    named,
    require_id,
)
from .journal import Submission

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_PIECE = 2**18
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "timeout_error": 408,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
"""HTTP status of a live call with this error; 500 for others."""
_NOT_RUN: dict[str, Lost] = {"expired": "Expired", "canceled": "Cancelled"}


class AnthropicEndpoint(BatchEndpoint):
    """Its list shows no contents: whose a batch is can be seen in its results alone."""

    caps = Caps(100_000, 256 * 10**6)

    @cached_property
    def _client(self) -> "AsyncAnthropic":
        return anthropic_client(self.settings, self.http()).with_options(timeout=TRANSFER_TIMEOUT)

    def line(self, custom_id: str, body: bytes) -> bytes:
        return b'{"custom_id":"%s","params":%s},' % (custom_id.encode(), body)

    def write(self, lines: Iterable[bytes], file: BinaryIO) -> None:
        file.write(b'{"requests":[')
        waiting = iter(lines)
        last = next(waiting, b"")
        for line in waiting:
            file.write(last)
            last = line
        file.write(last.removesuffix(b",") + b"]}")

    async def upload(self, file: Path) -> str:
        # Nothing is uploaded; but the age of a batch is told from others by the vendor's clock.
        await self._client.messages.batches.list(limit=1)
        return ""

    async def create(self, batch: Submission, file: Path, uploaded: str) -> str:
        from anthropic.types.messages import MessageBatch

        # The typed method would hold all calls in memory, and write each of them anew.
        size = str((await asyncio.to_thread(file.stat)).st_size)
        told = await self._client.post(
            "/v1/messages/batches",
            cast_to=MessageBatch,
            content=_pieces(file),
            options={"headers": {"content-type": "application/json", "content-length": size}},
        )
        if (lines := sum(_counts(told).values())) != batch.lines:
            raise ValueError(f"{batch.lines:,} calls were sent, and the answer is of {lines:,}")
        return named(told)

    async def listed(self) -> AsyncIterator[ListedBatch]:
        async for told in self._client.messages.batches.list(limit=100):
            yield ListedBatch(named(told), told.created_at.timestamp(), sum(_counts(told).values()))

    async def state(self, id: str) -> BatchState:
        told = await self._client.messages.batches.retrieve(id)
        require_id(told, id)
        counts, status = _counts(told), text(told.processing_status)
        done = sum(counts.values()) - counts["processing"]
        if status != "ended":
            return BatchState(done, ended=False, status=status)
        # Results that were archived cannot be had any more.
        return BatchState(done, True, () if told.archived_at else (id,), done, status=status)

    def streamed(self, file: str) -> AbstractAsyncContextManager[Any]:
        return self._client.messages.batches.with_streaming_response.results(file)

    def read(self, line: bytes) -> LineResult:
        told = orjson.loads(line)
        name, result = text(told["custom_id"]), told["result"]
        match result["type"]:
            case "succeeded":
                return LineResult(name, 200, orjson.dumps(result["message"]))
            case "errored":
                error = result["error"]
                status = _STATUS.get(error["error"]["type"], 500)
                return LineResult(name, status, orjson.dumps(error))
            case kind if kind in _NOT_RUN:
                return LineResult(name, 0, b"", _NOT_RUN[kind])
            case kind:
                raise ValueError(f"a result of a type unknown here: {kind!r:.80}")

    async def cancel(self, id: str) -> None:
        await self._client.messages.batches.cancel(id)


def _counts(told: Any) -> dict[str, int]:
    return {name: int(n) for name, n in told.request_counts.to_dict().items()}


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as body:
        while piece := body.read(_PIECE):
            yield piece
