"""The port to a vendor's batch endpoint, over the vendor's own client: submit, find, poll, read
results, cancel; and retries of these, all of which are safe to repeat."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from ...errors import EngineError, OutcomeUnknown, ProviderDown, TransientError, Unreachable
from ...models.limits.breaker import GIVE_UP
from ...models.limits.halts import overlong_delay
from ...providers.fault import ErrorAnswer, read_fault
from ...providers.secret import Secret
from ...providers.settings import Settings
from ...providers.wire import Wire
from ...stop import StopToken
from ...system.files import unwritable
from .journal import Submission

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
"""Seconds between two tries at most."""
INCONCLUSIVE = (TransientError, LookupError, TypeError, ValueError, AttributeError)
"""Faults that may pass, and answers that cannot be read."""
_PIECE = 2**18
_PERHAPS_DONE = frozenset((408, 502, 504, 520, 521, 522, 523, 524))
"""Statuses with which something in front of the vendor says that it has not heard the answer."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch at the vendor."""

    done: int
    """Lines with a result so far, where the vendor says so before the end."""
    ended: bool
    files: tuple[str, ...] = ()
    """What `download` takes, once it has ended."""
    results: int | None = None
    """Lines that those files must hold, by the vendor's own counts; None where it has none."""
    absent: Lost = "Missing"
    """Fate of lines that the results do not mention."""
    fault: ErrorAnswer | None = None
    """Why the batch was refused as a whole; then no line was asked."""
    status: str = ""
    """As the vendor names it."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of one line."""

    custom_id: str
    status: int
    """HTTP status, as of a live call."""
    body: bytes
    lost: Lost | None = None
    """Why there is neither status nor body; None where there are."""


@dataclass(frozen=True, slots=True)
class ListedBatch:
    """One entry of the vendor's list."""

    id: str
    created: float
    """Seconds since 1970 by the vendor's clock."""
    lines: int
    mark: str = ""
    """Our mark, where the vendor shows it."""


class BatchEndpoint(ABC):
    """The batch endpoint of one provider. Behind `asked` it raises the faults of live calls, and
    LookupError, TypeError, ValueError or AttributeError for an answer that is not what was asked
    for."""

    most_lines: int
    most_bytes: int
    """Maximum size of one batch."""
    frame: tuple[bytes, bytes, bytes] = b"", b"", b""
    """What is uploaded before all lines, between two, and after all."""
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
    async def upload(self, file: Path) -> str:
        """Whatever precedes `create`, which alone makes a batch; what `create` needs of it."""

    @abstractmethod
    async def create(self, batch: Submission, file: Path, uploaded: str) -> str:
        """Make a batch; the vendor's id of it. When this raises, it may have been made."""

    @abstractmethod
    def listed(self) -> AsyncIterator[ListedBatch]:
        """The account's batches, the newest first."""

    @abstractmethod
    async def state(self, id: str) -> BatchState: ...

    @abstractmethod
    def streamed(self, file: str) -> AbstractAsyncContextManager[Any]:
        """The vendor's client's streamed answer with a file of results."""

    @abstractmethod
    def read(self, line: bytes) -> LineResult:
        """One line of the results; LookupError, TypeError or ValueError for any other."""

    @abstractmethod
    async def cancel(self, id: str) -> None:
        """Have the vendor begin no more of its lines. Finished ones are billed and have results."""

    async def candidates(self, lost: Submission, since: float) -> list[ListedBatch]:
        """Batches that may be one whose submission was not answered: the one that shows its mark,
        or else those without a mark that are as large and not older.

        since: when it was submitted, by the vendor's clock. What shows no mark may be anybody's.
        """
        found, seen = list[ListedBatch](), 0
        async for batch in self.listed():
            seen += 1
            if batch.mark == lost.mark:
                return [batch]
            if batch.created < since - CLOCK_SLACK:
                break
            if seen > MAX_LISTED:
                raise ValueError("the list of batches does not end")
            if not batch.mark and batch.lines == lost.lines:
                found.append(batch)
        return found

    async def download(self, file: str, into: Path, cap: int) -> bool:
        """Append a file of results, whole or not at all; False if it has more than `cap` bytes.
        RunFolderError."""
        left = cap
        try:
            with into.open("ab") as kept:
                start = kept.tell()
                try:
                    async with self.streamed(file) as answer:
                        async for piece in answer.iter_bytes(_PIECE):
                            left -= len(piece)
                            if left < 0:
                                kept.truncate(start)
                                return False
                            kept.write(piece)
                except BaseException:
                    kept.truncate(start)
                    raise
        except OSError as exc:
            raise unwritable(into, exc) from exc
        return True

    async def retried(self, request: Callable[..., Awaitable[T]], *args: Any) -> T:
        """The result of a request; ProviderDown once it has failed for `GIVE_UP` seconds.

        InvalidRequest and any Halt pass; a stop ends the request at once.
        """
        waited, tries = 0.0, 0
        while True:
            try:
                return await self._stop.until_stopped(self.asked(request, *args))
            except INCONCLUSIVE as exc:
                fault = exc
            tries += 1
            waited += (wait := backoff(tries, fault))
            if waited > GIVE_UP:
                raise ProviderDown(f"no answer for {GIVE_UP / 60:.0f} minutes; last: {fault!r}")
            await self._stop.sleep(wait)

    async def asked(self, request: Callable[..., Awaitable[T]], *args: Any) -> T:
        """What the vendor answers to one of the requests above. A gateway's error is an
        OutcomeUnknown: the vendor may have served the request."""
        try:
            return await request(*args)
        except EngineError:
            raise
        except Exception as exc:
            raise self._fault(exc) from None

    def now(self) -> float:
        """Seconds since 1970 by the vendor's clock, as far as an answer has stated it."""
        if self._clock is None:
            return time.time()
        stated, came = self._clock
        return stated + time.monotonic() - came

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    def http(self) -> "httpx2.AsyncClient":
        """What the vendor's client sends with. Each request has a connection of its own: no late
        answer to another can be taken for its own."""
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
            stated = parsedate_to_datetime(answer.headers.get("date", ""))
            self._clock = stated.timestamp(), time.monotonic()
        except (ValueError, IndexError, OverflowError):
            return  # a server without a usable clock: ours stays

    def _fault(self, exc: Exception) -> Exception:
        """What an exception of the vendor's client, or of its answers, is here."""
        import httpx2

        source, answer = self.settings.provider, getattr(exc, "response", None)
        if isinstance(answer, httpx2.Response) and not answer.is_success:
            said = self.secret.hidden(answer.content)
            fault = read_fault(source, answer.status_code, answer.headers, said)
            perhaps = answer.status_code in _PERHAPS_DONE
            return OutcomeUnknown(str(fault)) if perhaps else fault.error()
        cause = exc.__cause__ if isinstance(exc.__cause__, httpx2.HTTPError) else exc
        told = self.secret.hidden_in(f"{type(cause).__name__}: {cause}")
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            if "certificate" in told.lower():
                return ProviderDown(f"{source}: its certificate is not to be trusted: {told}")
            return Unreachable(f"{source}: no connection: {told}")
        if isinstance(cause, httpx2.HTTPError) or type(exc).__module__.startswith(
            ("openai", "anthropic")
        ):
            return OutcomeUnknown(f"{source}: no whole answer: {told}")
        return exc


def backoff(tries: int, fault: Exception | None = None) -> float:
    """Seconds before the next try, after so many that failed. Raises a Halt for a long wait."""
    asked = fault.delay if isinstance(fault, TransientError) else 0.0
    if isinstance(fault, TransientError) and (halt := overlong_delay(fault)):
        raise halt
    return max(min(MAX_WAIT, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0), asked)


def named(told: Any) -> str:
    """The id of what a vendor tells of. ValueError if it has none."""
    if not isinstance(told.id, str) or not told.id:
        raise ValueError("an answer names no id")
    return told.id


def require_id(told: Any, id: str) -> None:
    if told.id != id:
        raise ValueError(f"asked about {id}, the vendor answered about {told.id!r:.80}")
