"""The batch endpoints of vendors, over the vendors' own clients.

OpenAI takes a file of calls, and returns two files of results. Anthropic takes all calls in one
request, and returns one file. Every request here is safe to repeat, except `create`."""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

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
"""Maximum difference in seconds between clocks of one vendor."""
MAX_LISTED = 10_000
"""Maximum number of batches of an account to search."""
TRANSFER_TIMEOUT = 3600.0
"""Timeout (s) of the transfer of one file."""
MAX_WAIT = 60.0
"""Maximum seconds between two tries."""
INCONCLUSIVE = (TransientError, LookupError, TypeError, ValueError, AttributeError)
"""Faults that may pass, and answers that cannot be read."""
MARK = "oversight"
"""Metadata key of our mark."""
_CHUNK = 2**18
_GATEWAY = frozenset((408, 502, 504, 520, 521, 522, 523, 524))
"""Statuses of gateways without the vendor's answer: the request may have been served."""
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
}
"""By error type of Anthropic, the HTTP status of a live call. All others may pass, as a 500."""
_ENDS: dict[Lost, tuple[str, ...]] = {
    "Expired": ("batch_expired", "expired"),
    "Cancelled": ("batch_cancelled", "canceled", "cancelled", "failed"),
    "Missing": ("completed",),
}
_LOST = {word: lost for lost, words in _ENDS.items() for word in words}
"""By the vendors' words for lines without a result, and for batches that have ended."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as its vendor describes it."""

    id: str
    created: float
    """Seconds since 1970 by the vendor's clock."""
    status: str
    ended: bool
    lines: int | None
    """None if the vendor does not count them, as for `completed`."""
    completed: int | None
    """Lines with a result so far. The files of an ended batch must hold as many."""
    mark: str | None = None
    """Our mark; empty for another user's batch, None if the vendor shows no mark."""
    files: tuple[str, ...] = ()
    absent: Lost = "Missing"
    """Fate of lines that the results do not mention."""
    fault: ErrorAnswer | None = None
    """Why the whole batch was refused, and no line asked."""


class LineResult(NamedTuple):
    """The result of one line: the HTTP status and the body of a live call, or neither if lost."""

    custom_id: str
    status: int = 0
    body: bytes = b""
    lost: Lost | None = None


class BatchEndpoint(ABC):
    """The batch endpoint of one provider. Requests through `asked` raise the faults of live calls,
    and INCONCLUSIVE for answers to another question."""

    most_lines: int
    most_bytes: int
    """Limits of one batch."""
    frame: tuple[bytes, bytes, bytes] = b"", b"", b""
    """Bytes before all lines, between two lines, and after all lines."""
    window: float = 24 * 3600.0
    """Seconds after which the vendor ends every batch."""
    connect: ClassVar[Callable[..., Any]]
    """Makes the vendor's client."""
    path: ClassVar[str] = "batches"
    """Attribute of that client with its batches."""

    def __init__(self, settings: Settings, wire: Wire, stop_token: StopToken) -> None:
        self.settings, self.wire, self.secret = settings, wire, Secret(settings.key)
        self._stop = stop_token
        self._http: httpx2.AsyncClient | None = None
        self._clock: tuple[float, float] | None = None
        """The last Date header (s since 1970), and its arrival by `time.monotonic`."""

    @abstractmethod
    def line(self, custom_id: str, body: bytes) -> bytes:
        """One call in the format of a batch. body: of the live request."""

    @abstractmethod
    async def upload(self, body: BinaryIO, size: int) -> str:
        """Upload the calls for `create`; the name of the upload."""

    @abstractmethod
    async def create(self, batch: Batch, body: BinaryIO, size: int, uploaded: str) -> str:
        """Make a batch; its id. If this raises, the vendor may have made it."""

    @abstractmethod
    def streamed(self, file: str) -> Any:
        """The streamed answer of the vendor's client with a file of results."""

    @abstractmethod
    def read(self, line: bytes) -> LineResult:
        """Parse one line of results. LookupError, TypeError, ValueError, AttributeError."""

    @abstractmethod
    def _state(self, answer: Any) -> BatchState: ...

    @cached_property
    def _client(self) -> Any:
        import httpx2  # not needed if the store has all replies

        # Each request has its own connection, so a late answer cannot be taken for another one.
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(TRANSFER_TIMEOUT, connect=60.0, read=600.0),
            limits=httpx2.Limits(max_keepalive_connections=0),
            headers={"accept-encoding": "identity"},
            proxy=self.settings.proxy or None,
            event_hooks={"response": [self._read_clock]},
            follow_redirects=False,
            trust_env=False,
        )
        client = type(self).connect(self.settings, self._http)
        return client.with_options(timeout=TRANSFER_TIMEOUT)

    @property
    def _batches(self) -> Any:
        return attrgetter(self.path)(self._client)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def state(self, id: str) -> BatchState:
        state = self._state(await self._batches.retrieve(id))
        if state.id != id:
            raise ValueError(f"asked about {id}, the vendor answered about {state.id!r:.80}")
        return state

    async def cancel(self, id: str) -> None:
        """Let the vendor begin no more lines. Finished ones are billed and have results."""
        await self._batches.cancel(id)

    async def candidates(self, batch: Batch) -> list[BatchState]:
        """Batches at the vendor that may be this one: the one with its mark, or, if the vendor
        shows no marks, any batch of its age and size."""
        states, listed = list[BatchState](), 0
        async for answer in self._batches.list(limit=100):
            state, listed = self._state(answer), listed + 1
            if state.mark == batch.mark:
                return [state]
            if state.created < batch.at - CLOCK_SLACK:
                break
            if listed > MAX_LISTED:
                raise ValueError("the list of batches does not end")
            if state.mark is None and state.lines in (None, batch.lines):
                states.append(state)
        return states

    async def download(self, file: str, into: BinaryIO, most_bytes: int) -> bool:
        """Append a file of results, whole or not at all; False if it is larger than allowed."""
        start, size, complete = into.tell(), 0, False
        try:
            async with self.streamed(file) as answer:
                async for chunk in answer.iter_bytes(_CHUNK):
                    size += len(chunk)
                    if size > most_bytes:
                        return False
                    into.write(chunk)
            complete = True
        finally:
            if not complete:
                into.truncate(into.seek(start))
        return True

    async def asked(self, request: Callable[..., Awaitable[T]], *args: Any) -> T:
        """As `sent`; a stop ends the request at once."""
        return await self._stop.until_stopped(self.sent(request, *args))

    async def sent(self, request: Callable[..., Awaitable[T]], *args: Any) -> T:
        """The vendor's answer to one of the requests above."""
        try:
            return await request(*args)
        except (EngineError, OSError):
            raise
        except Exception as exc:
            raise self._fault(exc) from None

    def now(self) -> float:
        """Seconds since 1970 by the vendor's clock, once an answer has stated it."""
        if self._clock is None:
            return time.time()
        return self._clock[0] + time.monotonic() - self._clock[1]

    async def _read_clock(self, answer: "httpx2.Response") -> None:
        try:
            instant = parsedate_to_datetime(answer.headers.get("date", ""))
            self._clock = instant.timestamp(), time.monotonic()
        except (ValueError, IndexError, OverflowError):
            return  # a server without a usable clock: ours stays

    def _fault(self, exc: Exception) -> Exception:
        """Our fault for an exception of the vendor's client. OutcomeUnknown if the vendor may have
        served the request."""
        import httpx2

        source, answer = self.settings.provider, getattr(exc, "response", None)
        if isinstance(answer, httpx2.Response) and not answer.is_success:
            content = self.secret.hidden(answer.content)
            fault = read_fault(source, answer.status_code, answer.headers, content)
            gateway = answer.status_code in _GATEWAY
            return OutcomeUnknown(str(fault)) if gateway else fault.error()
        cause = exc.__cause__ if isinstance(exc.__cause__, httpx2.HTTPError) else exc
        words = self.secret.hidden_in(f"{type(cause).__name__}: {cause}")
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            if "certificate" in words.lower():
                return ProviderDown(f"{source}: the certificate cannot be trusted: {words}")
            return Unreachable(f"{source}: no connection: {words}")
        library = type(exc).__module__.partition(".")[0]
        if isinstance(cause, httpx2.HTTPError) or library in ("openai", "anthropic"):
            return OutcomeUnknown(f"{source}: no complete answer: {words}")
        return exc


class OpenAIEndpoint(BatchEndpoint):
    """OpenAI's Batch API. Its list shows our mark in the metadata of each batch."""

    most_lines, most_bytes = 50_000, 200 * 10**6
    connect = openai_client

    def line(self, custom_id: str, body: bytes) -> bytes:
        head = {"custom_id": custom_id, "method": "POST", "url": f"/v1{self.wire.path}"}
        # Batches are not streamed, and refuse the field.
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
        answer = await self._batches.create(
            input_file_id=uploaded,
            endpoint=f"/v1{self.wire.path}",
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
        custom_id = text(result["custom_id"])
        if answer := result.get("response"):
            return LineResult(custom_id, int(answer["status_code"]), orjson.dumps(answer["body"]))
        error = result["error"]
        if lost := _LOST.get(error.get("code")):
            return LineResult(custom_id, lost=lost)
        # The error is the batch's, not a reply of the model's endpoint.
        return LineResult(custom_id, 500, orjson.dumps({"error": error}))

    def _state(self, answer: Any) -> BatchState:
        status, counts = text(answer.status), answer.request_counts
        lines = counts.total if counts else None
        completed = counts.completed + counts.failed if counts else None
        if status == "completed":
            # A batch that ran to its end has a result for each line, whatever it counts.
            completed = completed or lines
        mark, created = (answer.metadata or {}).get(MARK, ""), float(answer.created_at)
        files = tuple(filter(None, (answer.output_file_id, answer.error_file_id)))
        ended, lost = status in _LOST, _LOST.get(status, "Missing")
        fault = self._refusal(answer) if status == "failed" else None
        id = _id(answer)
        return BatchState(id, created, status, ended, lines, completed, mark, files, lost, fault)

    def _refusal(self, answer: Any) -> ErrorAnswer:
        code, message, line = "", "the batch failed without a reason", ""
        for error in ((answer.errors and answer.errors.data) or [])[:1]:
            code, message = error.code or "", error.message or message
            line = f" (line {error.line})" if error.line else ""
        error = {"code": code, "message": self.secret.hidden_in(message + line)}
        return read_fault(self.settings.provider, 400, {}, orjson.dumps({"error": error}))


class AnthropicEndpoint(BatchEndpoint):
    """Anthropic's Message Batches API. Only the results show whose a batch is."""

    most_lines, most_bytes = 100_000, 256 * 10**6
    frame = b'{"requests":[', b",", b"]}"
    connect, path = anthropic_client, "messages.batches"

    def line(self, custom_id: str, body: bytes) -> bytes:
        return b'{"custom_id":"%s","params":%s}' % (custom_id.encode(), body)

    async def upload(self, body: BinaryIO, size: int) -> str:
        # Nothing is uploaded. The answer states the vendor's time, which dates our batch.
        await self._batches.list(limit=1)
        return ""

    async def create(self, batch: Batch, body: BinaryIO, size: int, uploaded: str) -> str:
        from anthropic.types.messages import MessageBatch

        # The typed method would hold all calls in memory, and encode each of them again.
        body.seek(0)
        answer = await self._client.post(
            "/v1/messages/batches",
            cast_to=MessageBatch,
            content=_chunks(body),
            options={"headers": {"content-type": "application/json", "content-length": str(size)}},
        )
        if (lines := self._state(answer).lines) not in (None, batch.lines):
            raise ValueError(f"{batch.lines:,} calls were sent, and the answer is about {lines:,}")
        return _id(answer)

    def streamed(self, file: str) -> Any:
        return self._batches.with_streaming_response.results(file)

    def read(self, line: bytes) -> LineResult:
        entry = orjson.loads(line)
        custom_id, result = text(entry["custom_id"]), entry["result"]
        match result["type"]:
            case "succeeded":
                return LineResult(custom_id, 200, orjson.dumps(result["message"]))
            case "errored":
                status = _STATUS.get(result["error"]["error"]["type"], 500)
                return LineResult(custom_id, status, orjson.dumps(result["error"]))
            case "expired" | "canceled" as status:
                return LineResult(custom_id, lost=_LOST[status])
            case unknown:
                raise ValueError(f"a result of an unknown type: {unknown!r:.80}")

    def _state(self, answer: Any) -> BatchState:
        counts, status, id = answer.request_counts, text(answer.processing_status), _id(answer)
        numbers = {name: int(n) for name, n in counts.to_dict().items()} if counts else {}
        lines = sum(numbers.values()) if numbers else None
        completed = None if lines is None else lines - numbers["processing"]
        # Archived results cannot be downloaded any more.
        files = () if status != "ended" or answer.archived_at else (id,)
        created = answer.created_at.timestamp()
        return BatchState(id, created, status, status == "ended", lines, completed, None, files)


ENDPOINTS: dict[str, type[BatchEndpoint]] = {
    "openai": OpenAIEndpoint,
    "anthropic": AnthropicEndpoint,
}
"""By provider."""


def backoff(tries: int, fault: Exception | None = None) -> float:
    """Seconds before the next try, after `tries` failures. Halt if the vendor asks for too many."""
    delay = 0.0
    if isinstance(fault, TransientError):
        if halt := overlong_delay(fault):
            raise halt
        delay = fault.delay
    return max(min(MAX_WAIT, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0), delay)


def _id(answer: Any) -> str:
    if not isinstance(answer.id, str) or not answer.id:
        raise ValueError(f"the id of a batch is missing: {answer.id!r:.80}")
    return answer.id


async def _chunks(body: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(body.read, _CHUNK):
        yield chunk
