"""OpenAI's Batch API: a file of calls is uploaded, two files of results are downloaded."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from ..providers.fault import ErrorAnswer
from ..providers.payload import text
from .endpoint import (
    BatchEndpoint,
    BatchState,
    Caps,
    LineResult,
    Lost,
    Submission,
)

MARK = "oversight"
"""Metadata key for our mark."""
MAX_CLOCK_SKEW = 86_400.0
"""Seconds by which the vendor's clock may be behind ours."""
_ENDED: dict[str, Lost] = {
    "completed": "Missing",
    "failed": "Cancelled",
    "expired": "Expired",
    "cancelled": "Cancelled",
}
_NOT_RUN: dict[str, Lost] = {"batch_expired": "Expired", "batch_cancelled": "Cancelled"}


class OpenAIEndpoint(BatchEndpoint):
    """Finds a batch whose id never reached us by the mark in its metadata."""

    caps = Caps(50_000, 200 * 10**6)

    def line(self, address: str, body: bytes) -> bytes:
        head = {"custom_id": address, "method": "POST", "url": self._endpoint}
        return orjson.dumps(head)[:-1] + b',"body":' + body + b"}\n"

    def write(self, lines: Iterable[bytes], file: BinaryIO) -> None:
        file.writelines(lines)

    async def submit(self, mark: str, file: Path) -> str:
        up = await self.http.ask("POST", "/files", file=file, purpose="batch")
        wanted = {
            "input_file_id": text(up["id"]),
            "endpoint": self._endpoint,
            "completion_window": "24h",
            "metadata": {MARK: mark},
        }
        return text((await self.http.ask("POST", "/batches", json=wanted))["id"])

    async def find(self, lost: Submission, known: Collection[str]) -> str | None:
        async for batch in self.http.listed("/batches", "after"):
            if (batch.get("metadata") or {}).get(MARK) == lost.mark:
                return text(batch["id"])
            if batch.get("created_at", lost.at) < lost.at - MAX_CLOCK_SKEW:
                return None
        return None

    async def state(self, id: str) -> BatchState:
        told = await self.http.ask("GET", f"/batches/{id}")
        status, counts = text(told["status"]), told.get("request_counts") or {}
        done = int(counts.get("completed", 0)) + int(counts.get("failed", 0))
        if status not in _ENDED:
            return BatchState(done, ended=False)
        files = [told.get("output_file_id"), told.get("error_file_id")]
        return BatchState(
            done,
            True,
            tuple(f"/files/{file}/content" for file in files if file),
            _ENDED[status],
            self._fault(told) if status == "failed" else None,
        )

    def read(self, line: bytes) -> LineResult:
        told = orjson.loads(line)
        address, answer = text(told["custom_id"]), told.get("response")
        if answer:
            return LineResult(address, int(answer["status_code"]), orjson.dumps(answer["body"]))
        error = told["error"]
        if lost := _NOT_RUN.get(error.get("code")):
            return LineResult(address, 0, b"", lost)
        # The call was not answered; the error is the batch's, not a reply of the model's endpoint.
        return LineResult(address, 500, orjson.dumps({"error": error}))

    async def cancel(self, id: str) -> None:
        await self.http.ask("POST", f"/batches/{id}/cancel", json={})

    @property
    def _endpoint(self) -> str:
        return f"/v1{self.wire.path}"

    def _fault(self, told: dict[str, Any]) -> ErrorAnswer:
        said = ((told.get("errors") or {}).get("data") or [{}])[0]
        at = f" (line {said['line']})" if said.get("line") else ""
        message = f"{said.get('message') or 'the batch failed, and nothing says why'}{at}"
        return ErrorAnswer(self.settings.provider, 400, said.get("code") or "", message)
