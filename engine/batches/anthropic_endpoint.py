"""Anthropic's Message Batches API: one request holds all calls, one file holds all results."""

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import orjson

from ..providers.payload import text
from .endpoint import (
    BatchEndpoint,
    BatchState,
    Caps,
    LineResult,
    Lost,
    Submission,
)

PATH = "/v1/messages/batches"
MAX_CLOCK_SKEW = 3600.0
"""Seconds by which the clocks may differ, including the time of a request."""
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
    """The list of batches does not show their contents: a batch whose id never reached us is found
    by age and size, and confirmed by the custom ids of its results."""

    caps = Caps(100_000, 256 * 10**6)
    shows_marks = False

    def line(self, address: str, body: bytes) -> bytes:
        return b'{"custom_id":"%s","params":%s},' % (address.encode(), body)

    def write(self, lines: Iterable[bytes], file: BinaryIO) -> None:
        file.write(b'{"requests":[')
        waiting = iter(lines)
        last = next(waiting, b"")
        for line in waiting:
            file.write(last)
            last = line
        file.write(last.removesuffix(b",") + b"]}")

    async def submit(self, mark: str, file: Path) -> str:
        return text((await self.http.ask("POST", PATH, file=file))["id"])

    async def find(self, lost: Submission, known: Collection[str]) -> str | None:
        async for batch in self.http.listed(PATH, "after_id"):
            apart = datetime.fromisoformat(text(batch["created_at"])).timestamp() - lost.at
            if apart < -MAX_CLOCK_SKEW:
                return None
            size = sum(map(int, batch["request_counts"].values()))
            if apart <= MAX_CLOCK_SKEW and size == lost.lines and batch["id"] not in known:
                return text(batch["id"])
        return None

    async def state(self, id: str) -> BatchState:
        told = await self.http.ask("GET", f"{PATH}/{id}")
        counts = {name: int(count) for name, count in told["request_counts"].items()}
        done = sum(counts.values()) - counts["processing"]
        if told["processing_status"] != "ended":
            return BatchState(done, ended=False)
        # Results that were archived cannot be had any more.
        return BatchState(done, True, () if told.get("archived_at") else (f"{PATH}/{id}/results",))

    def read(self, line: bytes) -> LineResult:
        told = orjson.loads(line)
        address, result = text(told["custom_id"]), told["result"]
        match result["type"]:
            case "succeeded":
                return LineResult(address, 200, orjson.dumps(result["message"]))
            case "errored":
                error = result["error"]
                status = _STATUS.get(error["error"]["type"], 500)
                return LineResult(address, status, orjson.dumps(error))
            case kind if kind in _NOT_RUN:
                return LineResult(address, 0, b"", _NOT_RUN[kind])
            case kind:
                raise ValueError(f"a result of a type unknown here: {kind!r:.80}")

    async def cancel(self, id: str) -> None:
        await self.http.ask("POST", f"{PATH}/{id}/cancel")
