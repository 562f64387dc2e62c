"""The batch endpoints of the vendors, over their own clients.

OpenAI's Batch API: a file of calls is uploaded, two files of results are downloaded. Anthropic's
Message Batches API: one request holds all calls, one file holds all results.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ...providers.fault import ErrorAnswer, read_fault
from ...providers.payload import text
from ...providers.sdk_clients import anthropic_client, openai_client
from .endpoint import (
    TRANSFER_TIMEOUT,
    BatchEndpoint,
    BatchState,
    LineResult,
    ListedBatch,
    Lost,
    named,
    require_id,
)
from .journal import Submission

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

MARK = "oversight"
"""Metadata key for our mark."""
_UNMARKED = "(none of ours)"
"""In place of the mark of a batch that was submitted by somebody else: ours all show one."""
_HOW_ENDED: dict[str, Lost] = {
    "completed": "Missing",
    "failed": "Cancelled",
    "expired": "Expired",
    "cancelled": "Cancelled",
}
_LOST: dict[str, Lost] = {"batch_expired": "Expired", "batch_cancelled": "Cancelled"}


class OpenAIEndpoint(BatchEndpoint):
    """Its list shows the mark of each batch in the metadata."""

    most_lines, most_bytes = 50_000, 200 * 10**6

    @cached_property
    def _client(self) -> "AsyncOpenAI":
        return openai_client(self.settings, self.http()).with_options(timeout=TRANSFER_TIMEOUT)

    def line(self, custom_id: str, body: bytes) -> bytes:
        head = {"custom_id": custom_id, "method": "POST", "url": self._endpoint}
        # No line of a batch is streamed, and the field is not among those that it may have.
        body = body.replace(b',"stream":false', b"")
        return orjson.dumps(head)[:-1] + b',"body":' + body + b"}\n"

    async def upload(self, file: Path) -> str:
        with file.open("rb") as body:
            form = "batch.jsonl", body, "application/jsonl"
            told = await self._client.files.create(file=form, purpose="batch")
        size = (await asyncio.to_thread(file.stat)).st_size
        if (told.bytes or size) != size:
            raise ValueError(f"the file has {size:,} bytes, and {told.bytes!r:.20} arrived")
        return named(told)

    async def create(self, batch: Submission, file: Path, uploaded: str) -> str:
        told = await self._client.batches.create(
            input_file_id=uploaded,
            endpoint=self._endpoint,
            completion_window="24h",
            metadata={MARK: batch.mark},
        )
        if (told.metadata or {MARK: batch.mark}).get(MARK) != batch.mark:
            raise ValueError("the answer to a submission is about another batch")
        return named(told)

    async def listed(self) -> AsyncIterator[ListedBatch]:
        async for told in self._client.batches.list(limit=100):
            lines = told.request_counts.total if told.request_counts else 0
            mark = (told.metadata or {}).get(MARK) or _UNMARKED
            yield ListedBatch(named(told), float(told.created_at), lines, mark)

    async def state(self, id: str) -> BatchState:
        told = await self._client.batches.retrieve(id)
        require_id(told, id)
        status, counts = text(told.status), told.request_counts
        done = counts.completed + counts.failed if counts else 0
        if status not in _HOW_ENDED:
            return BatchState(done, ended=False, status=status)
        # One that ran to its end has a result for each line, whatever else the counts say.
        whole = counts.total if counts and status == "completed" else 0
        return BatchState(
            done,
            True,
            tuple(file for file in (told.output_file_id, told.error_file_id) if file),
            (done or whole) if counts else None,
            _HOW_ENDED[status],
            self._refusal(told) if status == "failed" else None,
            status,
        )

    def streamed(self, file: str) -> AbstractAsyncContextManager[Any]:
        return self._client.files.with_streaming_response.content(file)

    def read(self, line: bytes) -> LineResult:
        told = orjson.loads(line)
        name, answer = text(told["custom_id"]), told.get("response")
        if answer:
            return LineResult(name, int(answer["status_code"]), orjson.dumps(answer["body"]))
        error = told["error"]
        if lost := _LOST.get(error.get("code")):
            return LineResult(name, 0, b"", lost)
        # The call was not answered; the error is the batch's, not a reply of the model's endpoint.
        return LineResult(name, 500, orjson.dumps({"error": error}))

    async def cancel(self, id: str) -> None:
        await self._client.batches.cancel(id)

    @property
    def _endpoint(self) -> Any:
        return f"/v1{self.wire.path}"

    def _refusal(self, told: Any) -> ErrorAnswer:
        errors = (told.errors and told.errors.data) or []
        code, message, at = "", "the batch failed, and nothing says why", ""
        for said in errors[:1]:
            code, message = said.code or "", said.message or message
            at = f" (line {said.line})" if said.line else ""
        message = self.secret.hidden_in(f"{message}{at}")
        error = orjson.dumps({"error": {"code": code, "message": message}})
        return read_fault(self.settings.provider, 400, {}, error)


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
_LOST_LINES: dict[str, Lost] = {"expired": "Expired", "canceled": "Cancelled"}


class AnthropicEndpoint(BatchEndpoint):
    """Its list shows no contents: whose a batch is can be seen in its results alone."""

    most_lines, most_bytes = 100_000, 256 * 10**6
    frame = b'{"requests":[', b",", b"]}"

    @cached_property
    def _client(self) -> "AsyncAnthropic":
        return anthropic_client(self.settings, self.http()).with_options(timeout=TRANSFER_TIMEOUT)

    def line(self, custom_id: str, body: bytes) -> bytes:
        return b'{"custom_id":"%s","params":%s}' % (custom_id.encode(), body)

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
            case kind if kind in _LOST_LINES:
                return LineResult(name, 0, b"", _LOST_LINES[kind])
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


ENDPOINTS: dict[str, type[BatchEndpoint]] = {
    "openai": OpenAIEndpoint,
    "anthropic": AnthropicEndpoint,
}
"""By provider."""
