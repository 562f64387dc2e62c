"""OpenAI's Batch API: a file of calls is uploaded, two files of results are downloaded."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from ...providers.fault import ErrorAnswer
from ...providers.payload import text
from ...providers.sdk_clients import openai_client
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
    from openai import AsyncOpenAI

MARK = "oversight"
"""Metadata key for our mark."""
_UNMARKED = "(none of ours)"
"""In place of the mark of a batch that was submitted by somebody else: ours all show one."""
_ENDED: dict[str, Lost] = {
    "completed": "Missing",
    "failed": "Cancelled",
    "expired": "Expired",
    "cancelled": "Cancelled",
}
_NOT_RUN: dict[str, Lost] = {"batch_expired": "Expired", "batch_cancelled": "Cancelled"}


class OpenAIEndpoint(BatchEndpoint):
    """Its list shows the mark of each batch in the metadata."""

    caps = Caps(50_000, 200 * 10**6)

    @cached_property
    def _client(self) -> "AsyncOpenAI":
        return openai_client(self.settings, self.http()).with_options(timeout=TRANSFER_TIMEOUT)

    def line(self, custom_id: str, body: bytes) -> bytes:
        head = {"custom_id": custom_id, "method": "POST", "url": self._endpoint}
        return orjson.dumps(head)[:-1] + b',"body":' + body + b"}\n"

    def write(self, lines: Iterable[bytes], file: BinaryIO) -> None:
        file.writelines(lines)

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
        if status not in _ENDED:
            return BatchState(done, ended=False, status=status)
        # One that ran to its end has a result for each line, whatever else the counts say.
        whole = counts.total if counts and status == "completed" else 0
        return BatchState(
            done,
            True,
            tuple(file for file in (told.output_file_id, told.error_file_id) if file),
            (done or whole) if counts else None,
            _ENDED[status],
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
        if lost := _NOT_RUN.get(error.get("code")):
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
        return ErrorAnswer(self.settings.provider, 400, code, message)
