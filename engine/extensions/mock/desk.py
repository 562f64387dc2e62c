"""Both vendors' batch endpoints from the server's side, with their faults."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs

import orjson

from .connection import Connection, ServerRequest
from .profile import BatchProfile
from .wires import ServerWire

LineFate: TypeAlias = Literal[
    "ok", "expired", "cancelled", "missing", "errored", "overloaded", "garbled"
]
Serve: TypeAlias = Callable[[str, bytes], tuple[int, bytes]]
"""Answers one call: path and body in, status and body out."""

_FATES: tuple[LineFate, ...] = ("expired", "missing", "errored", "overloaded", "garbled")
"""Those with a share in the profile."""
_PATH = re.compile(
    r"/(?P<what>files|batches)(?:/(?P<id>[\w-]+))?(?:/(?P<then>content|results|cancel))?$"
)
IN_PROGRESS = 5.0
"""Simulated seconds that the lines in progress take at most once a batch is cancelled."""
_KIND: dict[str, str] = {"chat": "batch_", "messages": "msgbatch_"}
"""How ids of batches begin, by the vendor's endpoint of live calls."""
_FIXED: dict[str, int] = {"errored": 400, "overloaded": 503}


@dataclass
class _Batch:
    id: str
    owner: bytes
    """API key that submitted it; requests with other keys do not see it."""
    lines: list[tuple[str, str, bytes]]
    """(custom id, path, body)"""
    made: float
    """Loop time (s)."""
    ends: float
    endpoint: str = ""
    mark: dict[str, str] = field(default_factory=dict)
    created: float = 0.0
    """Seconds since 1970."""
    refused: str = ""
    """Error code, if it failed as a whole; else empty."""
    expires: bool = False
    cancelled: float = 0.0
    """Loop time (s); 0 if it was not."""
    share: float = 1.0
    """Part of its lines that are done, or in progress, when it is cancelled."""
    results: list[tuple[str, LineFate, int, bytes]] | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request to a batch endpoint."""

    connection: Connection
    request: ServerRequest
    dialect: ServerWire
    owner: bytes

    def tell(self, data: dict[str, Any]) -> None:
        self.connection.answer(200, orjson.dumps(data))

    def refuse(self, status: int, why: str) -> None:
        self.connection.answer(status, self.dialect.bad_request(why))


class ServerDesk:
    """The batch endpoints: accepts batches, and answers their lines when they end.

    Its counts: `batches`, `lines`, `lines_ended` (lines of ended batches), `lines_` with each
    result, and `lines_twice` (lines submitted again while pending, or after they were answered)."""

    def __init__(self, profile: BatchProfile, speed: float, seed: int, serve: Serve) -> None:
        self.profile = profile
        self._speed = speed
        self._seed = seed
        self._serve_call = serve
        self._files: dict[str, bytes] = {}
        self._batches: dict[str, _Batch] = {}
        self._held: dict[str, LineFate | None] = {}
        """Custom id -> last result; None while it is pending."""
        self._times: Counter[str] = Counter()
        self._asked: Counter[tuple[str, str]] = Counter()
        """(kind of request, batch) -> how often it came."""
        self.counts: Counter[str] = Counter()

    @property
    def batches(self) -> tuple[_Batch, ...]:
        """All batches, in the order of their creation."""
        return tuple(self._batches.values())

    def serve(self, connection: Connection, request: ServerRequest, dialect: ServerWire) -> bool:
        """Answer a request to a batch endpoint; False if it is for another endpoint."""
        matched = _PATH.search(request.path)
        if matched is None:
            return False
        owner = request.headers.get(b"x-api-key") or request.headers.get(b"authorization", b"")
        incoming = _Asked(connection, request, dialect, owner)
        connection.ahead = self.profile.ahead
        chance = Random(f"{self._seed} {self.counts['desk_requests']}")
        self.counts["desk_requests"] += 1
        if chance.random() < self.profile.flaky:
            connection.answer(*dialect.complaint("server_error"))
            return True
        if self.profile.locked:
            connection.answer(*dialect.complaint("unauthorized"))
            return True
        match request.method, matched["what"], matched["id"], matched["then"]:
            case "POST", "files", None, None:
                name = f"file-{len(self._files)}"
                self._files[name] = _uploaded(request)
                incoming.tell({"id": name, "object": "file"})
            case "GET", "files", id, "content" if id in self._files:
                self._send(incoming, id.rpartition("-")[0], self._files[id])
            case "POST", "batches", None, None:
                self._make(incoming)
            case "GET", "batches", None, None:
                self._list(incoming)
            case _, "batches", id, then if id in self._batches and self._batches[id].owner == owner:
                self._about(incoming, self._batches[id], then)
            case _:
                incoming.refuse(404, "not found")
        return True

    def _make(self, incoming: _Asked) -> None:
        profile, chance = self.profile, Random(f"{self._seed} made {self.counts['desk_requests']}")
        submitted = orjson.loads(incoming.request.body)
        openai = incoming.dialect.endpoint == "chat"
        if openai:
            file = map(orjson.loads, self._files[submitted["input_file_id"]].splitlines())
            lines = [(line["custom_id"], line["url"], line["body"]) for line in file]
        else:
            entries = submitted["requests"]
            lines = [(entry["custom_id"], "/v1/messages", entry["params"]) for entry in entries]
        if chance.random() < profile.unmade:
            return incoming.connection.answer(*incoming.dialect.complaint("server_error"))
        if profile.lines and len(lines) > profile.lines:
            return incoming.refuse(413, "the batch has too many requests")
        ids = [custom for custom, _, _ in lines]
        if len(set(ids)) < len(ids) or not all(re.fullmatch(r"[\w-]{1,64}", id) for id in ids):
            return incoming.refuse(400, "custom_id: not unique, or none")
        now = self._now()
        batch = _Batch(
            f"{_KIND[incoming.dialect.endpoint]}{len(self._batches):04}",
            incoming.owner,
            [(custom, path, orjson.dumps(body)) for custom, path, body in lines],
            now,
            now + profile.delay / self._speed,
            submitted.get("endpoint", ""),
            submitted.get("metadata") or {},
            datetime.now(UTC).timestamp() + profile.ahead,
        )
        batch.tokens = sum(len(body) for _, _, body in batch.lines) // 4
        queued = sum(b.tokens for b in self._batches.values() if now < b.ends and not b.refused)
        if openai:
            if len({body["model"] for _, _, body in lines}) > 1:
                batch.refused = "mismatched_model"
            elif profile.enqueued and queued + batch.tokens > profile.enqueued:
                batch.refused = "token_limit_exceeded"
            else:
                batch.refused = profile.fails
        batch.expires = chance.random() < profile.expires
        self._batches[batch.id] = batch
        self.counts["batches"] += 1
        if batch.refused:
            self.counts["batches_refused"] += 1
        else:
            for custom in map(_call_of, ids):
                self.counts["lines"] += 1
                self.counts["lines_twice"] += self._held.get(custom, "expired") in (None, "ok")
                self._held[custom] = None
        if chance.random() < profile.deaf:
            return incoming.connection.tear()
        incoming.tell(self._shown(batch, incoming.dialect))

    def _list(self, incoming: _Asked) -> None:
        query = parse_qs(incoming.request.query)
        listed_from = self._now() - self.profile.unlisted / self._speed
        kind = _KIND[incoming.dialect.endpoint]
        ours = (batch for batch in reversed(self.batches) if batch.owner == incoming.owner)
        ids = [b.id for b in ours if b.id.startswith(kind) and b.made <= listed_from]
        after = query.get("after", query.get("after_id", [""]))[0]
        start = ids.index(after) + 1 if after else 0
        # Small pages, so that clients need to fetch several.
        page = ids[start : start + min(int(query.get("limit", ["20"])[0]), 5)]
        listing = [self._shown(self._batches[id], incoming.dialect) for id in page]
        incoming.tell({"data": listing, "has_more": start + len(page) < len(ids)})

    def _about(self, incoming: _Asked, batch: _Batch, then: str | None) -> None:
        if incoming.request.method == "GET":
            self._asked["about", batch.id] += 1
            if self._asked["about", batch.id] <= self.profile.denied:
                return incoming.refuse(404, "no such batch")
            others = [other for other in self._batches.values() if other is not batch]
            if then is None and others and self._asked["about", batch.id] <= self.profile.stale:
                return incoming.tell(self._shown(others[-1], incoming.dialect))
        if then == "cancel":
            now = self._now()
            if now < batch.ends and not batch.cancelled:
                batch.cancelled = now
                batch.share = (now - batch.made) / (batch.ends - batch.made)
                # Lines in progress are finished first.
                remaining = min(0.1 * self.profile.delay, IN_PROGRESS)
                batch.ends = min(batch.ends, now + remaining / self._speed)
        if then == "results":
            return self._send(incoming, batch.id, self._results_file(batch, incoming.dialect))
        incoming.tell(self._shown(batch, incoming.dialect))

    def _send(self, incoming: _Asked, batch: str, body: bytes) -> None:
        """Send results, spoiled where the profile says so."""
        self._asked["download", batch] += 1
        if self._asked["download", batch] > self.profile.downloads:
            return incoming.connection.answer(200, body, "content-type: application/x-jsonl\r\n")
        spoiled = {
            "cut": b"".join(body.splitlines(keepends=True)[:-1]),
            "empty": b"",
            "html": b"<html><body>come back later</body></html>",
            "error": incoming.dialect.bad_request("the file is not ready"),
        }
        incoming.connection.answer(200, spoiled.get(self.profile.spoiled, body))

    def _shown(self, batch: _Batch, dialect: ServerWire) -> dict[str, Any]:
        now, total = self._now(), len(batch.lines)
        ended = now >= batch.ends and not batch.refused
        fates = Counter(fate for _, fate, _, _ in self._ended(batch)) if ended else Counter()
        good = fates["ok"] + fates["garbled"] + fates["missing"]
        bad = fates["errored"] + fates["overloaded"]
        if dialect.endpoint == "messages":
            status = "ended" if ended else "canceling" if batch.cancelled else "in_progress"
            return {
                "id": batch.id,
                "type": "message_batch",
                "processing_status": status,
                "request_counts": {
                    "processing": 0 if ended else total,
                    "succeeded": good,
                    "errored": bad,
                    "canceled": fates["cancelled"],
                    "expired": fates["expired"],
                },
                "created_at": datetime.fromtimestamp(batch.created, UTC).isoformat(),
                "archived_at": None,
                "results_url": f"/v1/messages/batches/{batch.id}/results" if ended else None,
            }
        status = "cancelling" if batch.cancelled else "in_progress"
        if ended:
            status = "expired" if batch.expires else "cancelled" if batch.cancelled else "completed"
        elif not batch.refused:
            good = int(total * (now - batch.made) / max(batch.ends - batch.made, 1e-9))
        described: dict[str, Any] = {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "status": "failed" if batch.refused else status,
            "created_at": int(batch.created),
            "metadata": batch.mark,
            "request_counts": {"total": total, "completed": good, "failed": bad},
            "output_file_id": None,
            "error_file_id": None,
        }
        if batch.refused:
            message = f"the batch failed: {batch.refused}"
            error = {"code": batch.refused, "message": message, "line": None}
            return described | {"errors": {"data": [error]}}
        if ended:
            self._asked["shown", batch.id] += 1
            late = self.profile.spoiled == "no_file"
            if not (late and self._asked["shown", batch.id] <= self.profile.downloads):
                for name, answered in (("output_file_id", True), ("error_file_id", False)):
                    if body := self._results_file(batch, dialect, good=answered):
                        described[name] = f"{batch.id}-{name[:3]}"
                        self._files[described[name]] = body
        return described

    def _ended(self, batch: _Batch) -> list[tuple[str, LineFate, int, bytes]]:
        """The result of each line, decided when the batch has ended."""
        if batch.results is not None:
            return batch.results
        batch.results = []
        self.counts["lines_ended"] += len(batch.lines)
        completed = len(batch.lines) // (2 if batch.expires else 1)
        if batch.cancelled:
            # One line is always in progress.
            completed = 1 + int((completed - 1) * batch.share)
        for n, (custom, path, body) in enumerate(batch.lines):
            fate = self._fate(_call_of(custom))
            if n >= completed:
                fate = "expired" if batch.expires else "cancelled"
            status, content = 0, b""
            if fate == "garbled":
                status, content = 200, b'{"what": "is this?"}'
            elif fate == "ok":
                status, content = self._serve_call(path, body)
                fate = "ok" if status == 200 else "errored"
            self._times[_call_of(custom)] += 1
            self._held[_call_of(custom)] = fate
            self.counts[f"lines_{fate}"] += 1
            batch.results.append((custom, fate, status, content))
        Random(f"{self._seed} {batch.id}").shuffle(batch.results)
        return batch.results

    def _fate(self, custom: str) -> LineFate:
        chance = Random(f"{self._seed} {custom} {self._times[custom]}").random()
        for fate in _FATES:
            share: float = getattr(self.profile, fate)
            if chance < share:
                return fate
            chance -= share
        return "ok"

    def _results_file(self, batch: _Batch, dialect: ServerWire, good: bool | None = None) -> bytes:
        """good: whether to show lines with a reply, or those without; None: all of them."""
        written = _openai_line if dialect.endpoint == "chat" else _anthropic_line
        lines = []
        for custom, fate, status, body in self._ended(batch):
            replied = fate in ("ok", "garbled")
            if fate != "missing" and (good is None or good == replied):
                lines.append(orjson.dumps(written(custom, fate, status, body)))
        if self.profile.doubled:
            # As reported by users: duplicate lines, an unknown line and a truncated one.
            lines += [*lines[:2], b'{"custom_id": "nobody", "response": null}', b'{"custom_id": "c']
        return b"".join(line + b"\n" for line in lines)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _call_of(custom_id: str) -> str:
    """The common part of the custom ids of one call, in any batch."""
    return custom_id.rpartition("-")[0] or custom_id


def _openai_line(custom: str, fate: LineFate, status: int, body: bytes) -> dict[str, Any]:
    document: dict[str, Any] = {"id": f"req_{custom[:8]}", "custom_id": custom, "error": None}
    if fate in ("expired", "cancelled"):
        error = {"code": f"batch_{fate}", "message": f"This request was {fate}."}
        return document | {"response": None, "error": error}
    if fate in _FIXED and status in (0, 200):
        status = _FIXED[fate]
        error = {"message": f"this line is {fate}", "type": "", "code": ""}
        body = orjson.dumps({"error": error})
    return document | {
        "response": {"status_code": status, "request_id": "req", "body": orjson.loads(body)}
    }


def _anthropic_line(custom: str, fate: LineFate, status: int, body: bytes) -> dict[str, Any]:
    match fate:
        case "expired":
            result: dict[str, Any] = {"type": "expired"}
        case "cancelled":
            result = {"type": "canceled"}
        case "errored" | "overloaded":
            kind = "invalid_request_error" if fate == "errored" else "overloaded_error"
            error = {"type": "error", "error": {"type": kind, "message": f"this line is {fate}"}}
            result = {"type": "errored", "error": orjson.loads(body) if body else error}
        case _:
            result = {"type": "succeeded", "message": orjson.loads(body)}
    return {"custom_id": custom, "result": result}


def _uploaded(request: ServerRequest) -> bytes:
    """The file in a multipart form."""
    boundary_match = re.search(rb'boundary="?([^";]+)', request.headers[b"content-type"])
    assert boundary_match is not None, "files come in forms"
    for part in request.body.split(b"--" + boundary_match[1]):
        head, _, content = part.partition(b"\r\n\r\n")
        if b"filename=" in head:
            return content.removesuffix(b"\r\n")
    raise ValueError("the form has no file")
