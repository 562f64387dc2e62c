"""A connection to a server: one request at a time, and its answer, parsed by llhttp.

HTTP/1.1 does not say which request an answer belongs to. So data without a pending request, or
after the end of an answer, ends the connection. A server or proxy may repeat an answer while the
next request is pending. Its body and headers then carry an id that was seen before: the answer is
stale."""

import asyncio
import math
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import cast

import httptools

from .transport import Origin, Response, Target

LATE = 0.5
"""Seconds. A deadline's timer that is later means that the process was suspended or busy."""
GRACE = 1.0
"""Seconds, in that case, to read answers that arrived in time and are paid for: event loops run
timers before they read sockets."""
LARGE = 2**18
"""Bytes. Only a few longer answers are read to their end at one time."""
MAX_HEAD = 2**16
REMEMBERED = 64
"""Requests of a connection whose answers are uncertain once it is out of step."""
_TIMED_OUT = (b"HTTP/1.1 408", b"HTTP/1.0 408")


class Came(Response, frozen=True, kw_only=True):
    """A received answer that was not read yet."""

    connection: "Connection"


class Answer(asyncio.Future[Came]):
    """The pending answer; see `Came`.

    Cancelling it closes the connection, even if it has arrived: nobody would read it."""

    connection: "Connection"

    def cancel(self, msg: object = None) -> bool:
        self.connection.transport.abort()
        return super().cancel(msg)


class Owner(ABC):
    """The owner of connections, which receives their events."""

    cap: int
    alarm: float
    """When overdue answers are looked for (loop time, s): one timer serves all connections."""

    @abstractmethod
    def watch(self, until: float) -> None:
        """Look for overdue answers at `until`, which is before `alarm`."""

    @abstractmethod
    def failed(self, connection: "Connection", answer: Answer, exc: Exception) -> None:
        """The answer failed, or was late."""

    @abstractmethod
    def unasked(self, connection: "Connection", *, timed_out: bool) -> None:
        """Data arrived without a pending request, or after an answer. timed_out: it is a 408, which
        load balancers send when they close an idle connection."""

    @abstractmethod
    def read_large(self, connection: "Connection") -> None:
        """An answer becomes large: let it wait for its turn."""

    @abstractmethod
    def lost(self, connection: "Connection") -> None:
        """The connection is closed."""


class Connection(asyncio.Protocol):
    def __init__(self, owner: Owner, origin: Origin, loop: asyncio.AbstractEventLoop) -> None:
        self.origin = origin
        self.time = loop.time
        self.idle_since = 0.0
        self.sent = 0.0
        """When the last request was sent (loop time, s)."""
        self.until = math.inf
        """When the pending answer is overdue (loop time, s)."""
        self._late = False
        self.answers = 0
        self.spent = False
        """Whether it must not be used again."""
        self.calls: deque[str] = deque(maxlen=REMEMBERED)
        """Addresses of the last calls."""
        self.size = 0
        self._owner = owner
        self._loop = loop
        self._answer: Answer | None = None
        self._begun = 0
        self._whole: Came | None = None
        self._headers: dict[str, str] = {}
        self._fields: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        # Called by the parser; both are methods in C.
        self.on_header = self._fields.__setitem__
        self.on_body = self._parts.append
        self._parser = httptools.HttpResponseParser(self)

    def ask(self, target: Target, body: bytes, deadline: float, about: str = "") -> Answer:
        """Send a request. The answer fails with an EngineError after `deadline` seconds."""
        self._answer = answer = Answer(loop=self._loop)
        answer.connection = self
        self._begun = self.size = 0
        self._headers = {}
        self.calls.append(about)
        self.sent = sent = self.time()
        self.until, self._late = sent + deadline, False
        if self.until < self._owner.alarm:
            self._owner.watch(self.until)
        self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (target.head, len(body), body))
        return answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self._owner.unasked(self, timed_out=data[:12] in _TIMED_OUT)
            return
        before, self.size = self.size, self.size + len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.on_message_complete()
        except httptools.HttpParserError as exc:
            # Data after a complete answer may be anything.
            if self._whole is None:
                # Its traceback would keep the received data in memory.
                self._fail(exc.with_traceback(None))
                return
        if self._whole is not None:
            self._end()
        elif self.size > self._owner.cap + MAX_HEAD:
            body = b"".join(self._parts)
            self._whole = Came(200, self._headers, body, sent=self.sent, connection=self)
            self.spent = True
            self._end()
        elif self.size > LARGE >= before:
            self._owner.read_large(self)

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_headers_complete(self) -> None:
        # Read now, since fields after a chunked body have another meaning.
        self._headers = headers = {}
        for name, value in self._fields.items():
            headers[name.lower().decode(errors="replace")] = value.decode(errors="replace")

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            # 100, 102 and 103 precede the answer. After 101 no more HTTP follows.
            self._begun -= 1
        elif self._whole is None:
            body = b"".join(self._parts)
            self._whole = Came(status, self._headers, body, sent=self.sent, connection=self)
            self.spent = not self._parser.should_keep_alive()
        self._fields.clear()
        self._parts.clear()

    def eof_received(self) -> None:
        """The server closes: this ends a body of unstated length."""
        length_headers = self._headers.keys() & {"content-length", "transfer-encoding"}
        if self._parts and self._answer is not None and not length_headers:
            status, body = self._parser.get_status_code(), b"".join(self._parts)
            self._whole = Came(status, self._headers, body, sent=self.sent, connection=self)
            self.spent = True
        if self._whole is not None:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        del self._parser, self.on_header, self.on_body  # breaks a reference cycle
        if self._answer is not None:
            self._fail(exc or ConnectionResetError("the server hung up"))
        self._owner.lost(self)

    def _end(self) -> None:
        answer, response = self._answer, self._whole
        assert answer is not None and response is not None
        self._answer = self._whole = None
        self._parts.clear()
        self.until = math.inf
        self.answers += 1
        if self._begun > 1:
            # For two messages, the parser has the status of the second.
            timed_out = self._begun == 2 and self._parser.get_status_code() == 408
            self._owner.unasked(self, timed_out=timed_out)
        if not answer.done():
            answer.set_result(response)

    def _fail(self, exc: Exception) -> None:
        answer, self._answer = self._answer, None
        self.until = math.inf
        self.transport.abort()
        if answer is not None and not answer.done():
            self._owner.failed(self, answer, exc)

    def overdue(self, now: float) -> None:
        """The deadline of the pending answer has passed (loop time, s)."""
        if self._late or now - self.until < LATE:
            self._fail(TimeoutError())
        else:
            self.until, self._late = now + GRACE, True


REMEMBERED_IDS = 2**15
"""Ids kept, the most recent ones: some minutes of the fastest server, while stale answers come
within seconds."""
PROVEN = 2
"""Different ids that show that a server identifies each answer. A server with few ids is recognized
by the first repeated id with other content."""
FRESH_REPEATS = 3
"""Repetitions in a row on fresh connections, where no answer can be stale, that show that ids are
not unique."""

_BODY_ID = re.compile(rb'"id"\s*:\s*"([\x21\x23-\x5b\x5d-\x7e]{20,200})"')
"""Shorter ids are counters, drawn from few, or constant: Ollama draws from 999."""
_WITHIN = 1024
"""Bytes at the start of a body that are searched for its id."""


class AnswerIds:
    """The ids of a server's last answers, from bodies or else headers."""

    def __init__(self) -> None:
        self.proven = False
        """Whether the last answer had an id that would reveal a repetition."""
        self._seen: dict[str, int] = {}
        """By id, a hash of its body."""
        self._fresh_repeats = 0
        self._shared = False
        """Whether different answers had the same id."""

    def repeated(self, headers: Mapping[str, str], body: bytes, fresh: bool) -> str:
        """The id of an answer that was seen before, on any connection; else empty. fresh: whether
        it is the first answer on its connection."""
        match = _BODY_ID.search(body, 0, _WITHIN)
        answer_id = match[1].decode() if match else headers.get("x-request-id", "")
        answer_id = answer_id or headers.get("request-id", "")
        hashes, content = self._seen, hash(body)
        before = hashes.get(answer_id)
        if before is None:
            self._fresh_repeats = 0 if fresh else self._fresh_repeats
            if answer_id:
                hashes[answer_id] = content
                if len(hashes) > REMEMBERED_IDS:
                    del hashes[next(iter(hashes))]
        else:
            self._fresh_repeats += fresh
            if before != content or self._fresh_repeats >= FRESH_REPEATS:
                self._shared = True
        self.proven = bool(answer_id) and len(hashes) >= PROVEN and not self._shared
        return "" if before is None or self._shared else answer_id
