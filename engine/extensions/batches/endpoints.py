"""The batch endpoints of vendors, over the vendors' own clients.

OpenAI's Batch API: a file of calls is uploaded, two files of results are downloaded. Anthropic's
Message Batches API: one request holds all calls, one file holds all results. Every request here,
except `create`, is safe to repeat.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, TypeVar

import orjson

from ...errors import EngineError, OutcomeUnknown, ProviderDown, TransientError, Unreachable
from ...models.limits.breaker import overlong_delay
from ...providers.fault import ErrorAnswer, read_fault
from ...providers.payload import text
from ...providers.sdk import anthropic_client, openai_client
from ...providers.settings import Settings
from ...providers.transport import Secret
from ...providers.wire import Wire
from ...stop import StopToken
from .journal import Batch

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

Lost: TypeAlias = Literal["Expired", "Cancelled", "Missing"]
"""Why a line has no result. Expired and cancelled lines are not billed; missing ones may be."""

CLOCK_SLACK = 120.0
"""Seconds that a vendor's own clocks may differ among each other."""
MAX_LISTED = 10_000
"""Batches of an account that are looked through."""
TRANSFER_TIMEOUT = 3600.0
"""Seconds for the transfer of one file."""
MAX_WAIT = 60.0
"""Maximum seconds between two tries."""
INCONCLUSIVE = (TransientError, LookupError, TypeError, ValueError, AttributeError)
"""Faults that may pass, and answers that cannot be read."""
MARK = "oversight"
"""Metadata key for our mark."""
_PIECE = 2**18
_PERHAPS_DONE = frozenset((408, 502, 504, 520, 521, 522, 523, 524))
"""Statuses of gateways that have not heard the vendor's answer."""
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
"""HTTP status of a live call with this error of Anthropic's; 500 for others."""
_LOST: dict[str, Lost] = {
    "batch_expired": "Expired",
    "batch_cancelled": "Cancelled",
    "expired": "Expired",
    "canceled": "Cancelled",
    "cancelled": "Cancelled",
    "failed": "Cancelled",
    "completed": "Missing",
}
"""The vendors' words for lines without a result, and for batches that have ended."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as the vendor describes it."""

    id: str
    created: float
    """Seconds since 1970 by the vendor's clock."""
    status: str
    """As the vendor names it."""
    ended: bool
    lines: int | None
    """None where the vendor does not count them."""
    done: int | None
    """Lines with a result so far; None where the vendor does not count them. Once the batch has
    ended, the files must hold as many."""
    mark: str | None = None
    """Our mark; empty for a batch of somebody else, None where the vendor shows no mark."""
    files: tuple[str, ...] = ()
    """Names for `download`, once the batch has ended."""
    absent: Lost = "Missing"
    """Fate of lines that the results do not mention."""
    fault: ErrorAnswer | None = None
    """Why the batch was refused as a whole; then no line was asked."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of one line."""

    custom_id: str
    status: int
    """HTTP status, as of a live call."""
    body: bytes
    lost: Lost | None = None
    """Why the line has no status and no body; None if it has them."""


class BatchEndpoint(ABC):
    """The batch endpoint of one provider. Behind `asked` it raises the faults of live calls, and
    the others of INCONCLUSIVE for an answer to something else."""

    most_lines: int
    most_bytes: int
    """Maximum size of one batch."""
    frame: tuple[bytes, bytes, bytes] = b"", b"", b""
    """Bytes that are uploaded before all lines, between two, and after all."""
    window: float = 24 * 3600.0
    """Seconds within which the vendor ends a batch, whatever becomes of its lines."""

    def __init__(self, settings: Settings, wire: Wire, stop_token: StopToken) -> None:
        self.settings, self.wire, self.secret = settings, wire, Secret(settings.key)
        self._stop = stop_token
        self._http: httpx2.AsyncClient | None = None
        self._clock: tuple[float, float] | None = None
        """The last Date header, in seconds since 1970, and when it came, by `time.monotonic`."""

    @abstractmethod
    def line(self, custom_id: str, body: bytes) -> bytes:
        """One call in the format of a batch. body: of the live request."""

    @abstractmethod
    async def upload(self, body: BinaryIO, size: int) -> str:
        """Upload what `create`, which alone makes a batch, refers to; its name."""

    @abstractmethod
    async def create(self, batch: Batch, body: BinaryIO, size: int, uploaded: str) -> str:
        """Make a batch; the vendor's id of it. When this raises, it may have been made."""

    @abstractmethod
    def streamed(self, file: str) -> Any:
        """The streamed answer of the vendor's client with a file of results."""

    @abstractmethod
    def read(self, line: bytes) -> LineResult:
        """One line of the results; LookupError, TypeError or ValueError for any other."""

    @property
    @abstractmethod
    def _client(self) -> Any: ...

    @property
    def _api(self) -> Any:
        """The batches of the vendor's client."""
        return self._client.batches

    @abstractmethod
    def _state(self, answer: Any) -> BatchState:
        """A batch, from an answer of the vendor's client."""

    async def state(self, id: str) -> BatchState:
        state = self._state(await self._api.retrieve(id))
        if state.id != id:
            raise ValueError(f"asked about {id}, the vendor answered about {state.id!r:.80}")
        return state

    async def cancel(self, id: str) -> None:
        """Have the vendor begin no more lines. Finished ones are billed and have results."""
        await self._api.cancel(id)

    async def candidates(self, lost: Batch) -> list[BatchState]:
        """Batches that may be one whose submission was not answered: the one that shows its mark,
        or else those that are not older and may be as large, where the vendor shows no marks."""
        states, listed = list[BatchState](), 0
        async for answer in self._api.list(limit=100):
            state, listed = self._state(answer), listed + 1
            if state.mark == lost.mark:
                return [state]
            if state.created < lost.at - CLOCK_SLACK:
                break
            if listed > MAX_LISTED:
                raise ValueError("the list of batches does not end")
            if state.mark is None and state.lines in (None, lost.lines):
                states.append(state)
        return states

    async def download(self, file: str, into: BinaryIO, cap: int) -> bool:
        """Append a file of results, whole or not at all; False if it has more than `cap` bytes."""
        start = size = into.tell()
        try:
            async with self.streamed(file) as answer:
                async for piece in answer.iter_bytes(_PIECE):
                    size += len(piece)
                    if size - start > cap:
                        break
                    into.write(piece)
        except BaseException:
            into.truncate(into.seek(start))
            raise
        if size - start > cap:
            into.truncate(into.seek(start))
        return size - start <= cap

    async def asked(self, request: Callable[..., Awaitable[T]], *args: Any) -> T:
        """As `sent`; a stop ends the request at once."""
        return await self._stop.until_stopped(self.sent(request, *args))

    async def sent(self, request: Callable[..., Awaitable[T]], *args: Any) -> T:
        """The vendor's answer to one of the requests above. A gateway's error is an OutcomeUnknown:
        the vendor may have served the request."""
        try:
            return await request(*args)
        except (EngineError, OSError):
            raise
        except Exception as exc:
            raise self._fault(exc) from None

    def now(self) -> float:
        """Seconds since 1970 by the vendor's clock, as far as an answer has stated it."""
        if self._clock is None:
            return time.time()
        instant, arrived = self._clock
        return instant + time.monotonic() - arrived

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    def http(self) -> "httpx2.AsyncClient":
        """The HTTP client below the vendor's. Each request has its own connection: a late answer to
        another cannot be taken for the right one."""
        if self._http is None:
            import httpx2  # not needed where the store has all replies

            self._http = httpx2.AsyncClient(
                timeout=httpx2.Timeout(TRANSFER_TIMEOUT, connect=60.0, read=600.0),
                limits=httpx2.Limits(max_keepalive_connections=0),
                headers={"accept-encoding": "identity"},
                proxy=self.settings.proxy or None,
                event_hooks={"response": [self._read_clock]},
                follow_redirects=False,
                trust_env=False,
            )
        return self._http

    async def _read_clock(self, answer: "httpx2.Response") -> None:
        try:
            instant = parsedate_to_datetime(answer.headers.get("date", ""))
            self._clock = instant.timestamp(), time.monotonic()
        except (ValueError, IndexError, OverflowError):
            return  # a server without a usable clock: ours stays

    def _fault(self, exc: Exception) -> Exception:
        """Our fault for an exception of the vendor's client, or of its answers."""
        import httpx2

        source, answer = self.settings.provider, getattr(exc, "response", None)
        if isinstance(answer, httpx2.Response) and not answer.is_success:
            content = self.secret.hidden(answer.content)
            fault = read_fault(source, answer.status_code, answer.headers, content)
            perhaps = answer.status_code in _PERHAPS_DONE
            return OutcomeUnknown(str(fault)) if perhaps else fault.error()
        cause = exc.__cause__ if isinstance(exc.__cause__, httpx2.HTTPError) else exc
        words = self.secret.hidden_in(f"{type(cause).__name__}: {cause}")
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            if "certificate" in words.lower():
                return ProviderDown(f"{source}: the certificate cannot be trusted: {words}")
            return Unreachable(f"{source}: no connection: {words}")
        if isinstance(cause, httpx2.HTTPError) or type(exc).__module__.startswith(
            ("openai", "anthropic")
        ):
            return OutcomeUnknown(f"{source}: no complete answer: {words}")
        return exc


class OpenAIEndpoint(BatchEndpoint):
    """Its list shows the mark of each batch in the metadata."""

    most_lines, most_bytes = 50_000, 200 * 10**6

    @cached_property
    def _client(self) -> Any:
        return openai_client(self.settings, self.http()).with_options(timeout=TRANSFER_TIMEOUT)

    @property
    def _endpoint(self) -> str:
        return f"/v1{self.wire.path}"

    def line(self, custom_id: str, body: bytes) -> bytes:
        head = {"custom_id": custom_id, "method": "POST", "url": self._endpoint}
        # No line of a batch is streamed, and a batch refuses the field.
        body = body.replace(b',"stream":false', b"")
        return orjson.dumps(head)[:-1] + b',"body":' + body + b"}\n"

    async def upload(self, body: BinaryIO, size: int) -> str:
        body.seek(0)
        form = "batch.jsonl", body, "application/jsonl"
        answer = await self._client.files.create(file=form, purpose="batch")
        if (answer.bytes or size) != size:
            raise ValueError(f"the file has {size:,} bytes, and {answer.bytes!r:.20} arrived")
        return _id(answer)

    async def create(self, batch: Batch, body: BinaryIO, size: int, uploaded: str) -> str:
        answer = await self._api.create(
            input_file_id=uploaded,
            endpoint=self._endpoint,
            completion_window="24h",
            metadata={MARK: batch.mark},
        )
        if (answer.metadata or {MARK: batch.mark}).get(MARK) != batch.mark:
            raise ValueError("the answer to a submission is about another batch")
        return _id(answer)

    def streamed(self, file: str) -> Any:
        return self._client.files.with_streaming_response.content(file)

    def read(self, line: bytes) -> LineResult:
        result = orjson.loads(line)
        name, answer = text(result["custom_id"]), result.get("response")
        if answer:
            return LineResult(name, int(answer["status_code"]), orjson.dumps(answer["body"]))
        error = result["error"]
        if lost := _LOST.get(error.get("code")):
            return LineResult(name, 0, b"", lost)
        # The call was not answered; the error is the batch's, not a reply of the model's endpoint.
        return LineResult(name, 500, orjson.dumps({"error": error}))

    def _state(self, answer: Any) -> BatchState:
        status, counts = text(answer.status), answer.request_counts
        lines = counts.total if counts else None
        done = counts.completed + counts.failed if counts else None
        if status == "completed":
            # A batch that ran to its end has a result for each line, whatever else it counts.
            done = done or lines
        files = answer.output_file_id, answer.error_file_id
        return BatchState(
            _id(answer),
            float(answer.created_at),
            status,
            status in _LOST,
            lines,
            done,
            (answer.metadata or {}).get(MARK, ""),
            tuple(file for file in files if file),
            _LOST.get(status, "Missing"),
            self._refusal(answer) if status == "failed" else None,
        )

    def _refusal(self, answer: Any) -> ErrorAnswer:
        code, message, at = "", "the batch failed without a reason", ""
        for error in ((answer.errors and answer.errors.data) or [])[:1]:
            code, message = error.code or "", error.message or message
            at = f" (line {error.line})" if error.line else ""
        message = self.secret.hidden_in(f"{message}{at}")
        body = orjson.dumps({"error": {"code": code, "message": message}})
        return read_fault(self.settings.provider, 400, {}, body)


class AnthropicEndpoint(BatchEndpoint):
    """Its list shows no contents: only the results show whose a batch is."""

    most_lines, most_bytes = 100_000, 256 * 10**6
    frame = b'{"requests":[', b",", b"]}"

    @cached_property
    def _client(self) -> Any:
        return anthropic_client(self.settings, self.http()).with_options(timeout=TRANSFER_TIMEOUT)

    @property
    def _api(self) -> Any:
        return self._client.messages.batches

    def line(self, custom_id: str, body: bytes) -> bytes:
        return b'{"custom_id":"%s","params":%s}' % (custom_id.encode(), body)

    async def upload(self, body: BinaryIO, size: int) -> str:
        # Nothing is uploaded. But only an answer states the vendor's time, by which the age of a
        # batch tells it from others.
        await self._api.list(limit=1)
        return ""

    async def create(self, batch: Batch, body: BinaryIO, size: int, uploaded: str) -> str:
        from anthropic.types.messages import MessageBatch

        # The typed method would hold all calls in memory, and encode each of them again.
        body.seek(0)
        answer = await self._client.post(
            "/v1/messages/batches",
            cast_to=MessageBatch,
            content=_pieces(body),
            options={"headers": {"content-type": "application/json", "content-length": str(size)}},
        )
        if (lines := self._state(answer).lines) not in (None, batch.lines):
            raise ValueError(f"{batch.lines:,} calls were sent, and the answer is about {lines:,}")
        return _id(answer)

    def streamed(self, file: str) -> Any:
        return self._api.with_streaming_response.results(file)

    def read(self, line: bytes) -> LineResult:
        entry = orjson.loads(line)
        name, result = text(entry["custom_id"]), entry["result"]
        match result["type"]:
            case "succeeded":
                return LineResult(name, 200, orjson.dumps(result["message"]))
            case "errored":
                error = result["error"]
                status = _STATUS.get(error["error"]["type"], 500)
                return LineResult(name, status, orjson.dumps(error))
            case "expired" | "canceled" as kind:
                return LineResult(name, 0, b"", _LOST[kind])
            case kind:
                raise ValueError(f"a result of an unknown type: {kind!r:.80}")

    def _state(self, answer: Any) -> BatchState:
        counts, status, id = answer.request_counts, text(answer.processing_status), _id(answer)
        numbers = {name: int(n) for name, n in counts.to_dict().items()} if counts else {}
        lines = sum(numbers.values()) if numbers else None
        done = None if lines is None else lines - numbers["processing"]
        # Archived results cannot be downloaded any more.
        files = () if status != "ended" or answer.archived_at else (id,)
        created = answer.created_at.timestamp()
        return BatchState(id, created, status, status == "ended", lines, done, None, files)


def backoff(tries: int, fault: Exception | None = None) -> float:
    """Seconds before the next try, after some that failed. Raises a Halt for a long wait."""
    delay = fault.delay if isinstance(fault, TransientError) else 0.0
    if isinstance(fault, TransientError) and (halt := overlong_delay(fault)):
        raise halt
    return max(min(MAX_WAIT, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0), delay)


def reason(provider: str, fault: Exception) -> str:
    """A fault in one short line."""
    words = str(fault) if isinstance(fault, EngineError) else f"an answer cannot be read: {fault}"
    return f"{provider}: {' '.join(words.split())[:160]}"


def _id(answer: Any) -> str:
    """The id in a vendor's answer. ValueError if it has none."""
    if not isinstance(answer.id, str) or not answer.id:
        raise ValueError(f"the id of a batch is missing: {answer.id!r:.80}")
    return answer.id


async def _pieces(body: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(body.read, _PIECE):
        yield piece


ENDPOINTS: dict[str, type[BatchEndpoint]] = {
    "openai": OpenAIEndpoint,
    "anthropic": AnthropicEndpoint,
}
"""By provider."""
