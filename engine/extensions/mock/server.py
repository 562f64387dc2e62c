"""A mock server that behaves like the vendors', to rehearse sweeps and measure the engine.

It speaks all wires over real HTTP on the loopback interface. A `Responder` produces its replies and
a `Profile` its faults; its counts are at `/rehearsal/counts` and in `counts()`.
Replies are filler, or come from simulated models; requests may be refused, and replies spoilt."""

import asyncio
import gzip
import hashlib
import math
import random
import re
import ssl
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias
from urllib.parse import unquote

import orjson
from msgspec.structs import replace

from ....cache.call import Call
from ....cache.reply import Reply, Token, ToolCall, Usage
from ...errors import EngineError
from ...providers.simulated import SimulatedModels
from ..simulation.speech import Contents, filled
from .connection import Connection, ServerBudgets, ServerRequest
from .desk import ServerDesk
from .profile import (
    PROFILES,
    TOKENS,
    FaultKind,
    Profile,
    VendorRefusal,
    add_thoughts,
    vendor_model,
    vendor_refusal,
)
from .wires import (
    AnthropicServerWire,
    OpenAIServerWire,
    ResponsesServerWire,
    ServerWire,
    input_tokens,
    output_tokens,
)

_DRIP_INTERVAL = 0.4
"""Seconds between the bytes of a dripping answer; a read timeout longer than this never fires."""
_MB = 2**20
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"


def refuse(fault: FaultKind, connection: Connection, dialect: ServerWire, profile: Profile) -> bool:
    """Answer instead of a reply, at once and free; False if `fault` spoils a reply instead."""
    match fault:
        case "rate_limit" | "overloaded":
            status, body = dialect.complaint(fault)
            connection.answer(status, body, dialect.wait(profile.delay / profile.speed))
        case "server_error" | "unauthorized" | "quota" | "policy" | "too_long":
            connection.answer(*dialect.complaint(fault))
        case "html":
            connection.answer(502, _PAGE, "content-type: text/html\r\n")
        case "reset":
            connection.tear()
        case "stall":
            pass  # Never answered; the connection stays as it is until the client gives up.
        case _:
            return False
    return True


def spoil(
    fault: FaultKind,
    connection: Connection,
    dialect: ServerWire,
    body: bytes,
    limits: str,
    profile: Profile,
) -> None:
    """Send a billed reply in an unusable form."""
    match fault:
        case "cut":
            head = f"content-length: {len(body)}\r\n{limits}"
            connection.begin(200, head, body[: len(body) // 2])
            connection.tear()
        case "half_json":
            connection.answer(200, body[: len(body) // 2], limits)
        case "error_in_200":
            connection.answer(200, dialect.complaint(fault)[1], limits)
        case "unknown_stop":
            data = orjson.loads(body)
            dialect.stop_oddly(data)
            connection.answer(200, orjson.dumps(data), limits)
        case "gzip_bomb":
            connection.answer(200, _bomb(), "content-encoding: gzip\r\n")
        case "huge":
            connection.begin(200, f"content-length: {40 * _MB + len(body)}\r\n")
            for _ in range(40):
                connection.write(b" " * _MB)
            connection.write(body)
            connection.finish()
        case "drip":
            connection.begin(200, f"transfer-encoding: chunked\r\n{limits}")
            drops = round(profile.drip / _DRIP_INTERVAL)
            _drip(connection, body, drops, _DRIP_INTERVAL / profile.speed)


def _drip(connection: Connection, body: bytes, drops: int, pause: float) -> None:
    if connection.closed:
        return
    if not drops:
        connection.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        connection.finish()
        return
    connection.write(b"1\r\n\n\r\n")
    asyncio.get_running_loop().call_later(pause, _drip, connection, body, drops - 1, pause)


@lru_cache(maxsize=1)
def _bomb() -> bytes:
    return gzip.compress(b" " * (64 * _MB))


Responder: TypeAlias = Callable[[Call], Reply]
"""Produces the model's reply to a call. The call's model has no provider prefix, and its draw is
empty since wires do not carry it. Must be quick: it blocks the server."""


_FILLER = " ".join(f"word{n % 10}" for n in range(60))
_WORD = Contents("word", agrees=True)


def filler(call: Call) -> Reply:
    """60 words; or JSON of its schema, a label with logprobs, or a tool call, as asked."""
    prompt = call.messages[-1].text if call.messages else ""
    if call.tools and f"Call the tool {call.tools[0].name}" in prompt:
        tool = call.tools[0]
        return Reply("", (ToolCall("call_0", tool.name, filled(tool.parameters, _WORD)),))
    if call.response_format is not None:
        return Reply(filled(call.response_format.schema, _WORD))
    if call.top_logprobs:
        shared = math.log(1 / call.top_logprobs)
        labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: call.top_logprobs]
        return Reply("A", logprobs=(Token("A", shared, tuple((c, shared) for c in labels)),))
    return Reply(_FILLER)


def simulated(provider: SimulatedModels) -> Responder:
    """A responder of simulated models. provider: has them by their names on the wire. Each
    repetition of a call is a new draw, as with real models."""
    times: Counter[str] = Counter()

    def answer(call: Call) -> Reply:
        address = call.address
        times[address] += 1
        # The server counts the tokens.
        return replace(provider.reply(call.drawn(times[address])), usage=Usage())

    return answer


_OPENAI, _ANTHROPIC, _RESPONSES = OpenAIServerWire(), AnthropicServerWire(), ResponsesServerWire()
_VERSION = b"anthropic-version"
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
"""Exceptions raised by an invalid body."""


class MockServer:
    """The server, as an async context manager: `async with MockServer() as server: server.url`.

    port: 0 takes a free one. tls: speaks HTTPS with it."""

    def __init__(
        self,
        profile: Profile = PROFILES["calm"],
        answer: Responder | None = None,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.profile = profile
        self.port = port
        self._answer = answer or filler
        self._tls = tls
        self._seed = profile.seed.to_bytes(8, "big", signed=True)
        self._meters: dict[str, ServerBudgets] = {}
        self._counts: Counter[str] = Counter()
        self._seen: Counter[bytes] = Counter()
        self._connections: set[Connection] = set()
        self._start: float | None = None
        self._thought = TOKENS if profile.thinking else 0
        self.desk = ServerDesk(profile.batch, profile.speed, profile.seed, self._line)

    @property
    def url(self) -> str:
        """Base URL of the Anthropic wire; the OpenAI one's is `url + "/v1"`."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def counts(self) -> dict[str, int]:
        """Counts since the start. requests: requests for a reply; each ends as one of `ok`, a
        fault's name, `nonsense` (not a readable call, or without a known answer), `unsupported`
        (the vendor would refuse it) and `abandoned` (the client was gone). repeats: requests equal
        to an earlier one. connections: connections opened. in_flight, peak: requests in flight, now
        and at most. input_tokens, output_tokens: of generated, and so billed, replies. batches,
        lines: see `ServerDesk`."""
        return {**self._counts, **self.desk.counts}

    async def __aenter__(self) -> "MockServer":
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(
            self._connect, "127.0.0.1", self.port, ssl=self._tls, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.tear()
        await self._server.wait_closed()

    def _connect(self) -> Connection:
        self._counts["connections"] += 1
        connection = Connection(self._serve, self._connections.discard)
        self._connections.add(connection)
        return connection

    def _serve(self, connection: Connection, request: ServerRequest) -> None:
        if request.path == "/rehearsal/counts":
            return connection.answer(200, orjson.dumps(self.counts()))
        spoken = _ANTHROPIC if "/messages/" in request.path else _OPENAI
        if self.desk.serve(connection, request, spoken):
            return None
        if request.method == "GET" and "/models/" in request.path:
            return self._tell_model(connection, request)
        dialect, model = _route(request.path)
        if dialect is None:
            return connection.answer(404, _OPENAI.bad_request(f"no such path: {request.path}"))
        self._counts["requests"] += 1
        try:
            call = self._call(dialect, request.body, model, request)
        except _NONSENSE as exc:
            return self._complain(connection, dialect, exc)
        if isinstance(call, VendorRefusal):
            self._counts["unsupported"] += 1
            return connection.answer(call.status, dialect.bad_request(call.message, call.code))
        self._reply(connection, dialect, call, request.body)

    def _line(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to one line of a batch."""
        dialect, model = _route(path)
        if dialect is None:
            return 404, _OPENAI.bad_request(f"no such path: {path}")
        try:
            call = self._call(dialect, body, model)
            if isinstance(call, VendorRefusal):
                return call.status, dialect.bad_request(call.message, call.code)
            reply = self._answer(call)
        except (*_NONSENSE, EngineError) as exc:
            return 400, dialect.bad_request(f"this request makes no sense: {exc!r}")
        self._counts["input_tokens"] += input_tokens(call)
        self._counts["output_tokens"] += output_tokens(reply) + self._thought
        return 200, self._written(dialect, call, reply, self.desk.counts["lines"])

    def _call(
        self, dialect: ServerWire, body: bytes, model: str, request: ServerRequest | None = None
    ) -> Call | VendorRefusal:
        """The call in a body, or its vendor's refusal where the profile has vendors' rules.
        request: None for a line of a batch. Raises _NONSENSE for an invalid body."""
        data = orjson.loads(body)
        if self.profile.vendors:
            host = request.path.split("/")[1] if request else ""
            version = request.headers.get(_VERSION, b"") if request else b""
            model_name = model or data["model"]
            if refusal := vendor_refusal(dialect.endpoint, data, model_name, host, version):
                return refusal
        return dialect.call(data, model)

    def _written(self, dialect: ServerWire, call: Call, reply: Reply, number: int) -> bytes:
        """A reply as it is sent."""
        body, forms = dialect.reply(call, reply, number), self.profile.thinking
        if forms and reply.outcome != "refused":
            form = forms[int(call.address[:8], 16) % len(forms)]
            add_thoughts(body, dialect.endpoint, call, form)
        return orjson.dumps(body)

    def _reply(self, connection: Connection, dialect: ServerWire, call: Call, body: bytes) -> None:
        now, counts = self._loop.time(), self._counts
        digest = hashlib.blake2b(body, digest_size=16, key=self._seed).digest()
        counts["repeats"] += self._seen[digest] > 0
        fate = random.Random(digest + self._seen[digest].to_bytes(8, "big"))
        self._seen[digest] += 1
        fault = self._fault(fate.random(), now)
        if fault is not None and refuse(fault, connection, dialect, self.profile):
            counts[fault] += 1
            return
        try:
            reply = self._answer(call)
        except EngineError as exc:
            return self._complain(connection, dialect, exc)
        if fault == "refusal":
            reply = Reply("I would rather not.", outcome="refused")
        written = output_tokens(reply) + self._thought
        limits = self._admit(connection, dialect, call, input_tokens(call) + written, now)
        if limits is None:
            counts["rate_limit"] += 1
            return
        counts["input_tokens"] += input_tokens(call)
        counts["output_tokens"] += written
        counts["in_flight"] += 1
        counts["peak"] = max(counts["peak"], counts["in_flight"])
        content, profile = self._written(dialect, call, reply, counts["requests"]), self.profile
        latency = profile.latency * math.exp(fate.gauss(0.0, profile.spread))
        wait = (latency + profile.per_token * written) / profile.speed
        deliver = partial(self._deliver, connection, dialect, content, limits, fault)
        if wait:
            self._loop.call_later(wait, deliver)
        else:
            deliver()

    def _deliver(
        self,
        connection: Connection,
        dialect: ServerWire,
        body: bytes,
        limits: str,
        fault: FaultKind | None,
    ) -> None:
        self._counts["in_flight"] -= 1
        if connection.closed:
            self._counts["abandoned"] += 1
        elif fault is None or fault == "refusal":
            self._counts[fault or "ok"] += 1
            connection.answer(200, body, limits)
        else:
            self._counts[fault] += 1
            spoil(fault, connection, dialect, body, limits, self.profile)

    def _tell_model(self, connection: Connection, request: ServerRequest) -> None:
        """Answer a request to the Models endpoint; 404 unless the profile has vendors' rules."""
        name = unquote(request.path.rpartition("/models/")[2])
        version = request.headers.get(_VERSION, b"")
        described = vendor_model(name, version) if self.profile.vendors else None
        if described is not None:
            return connection.answer(200, orjson.dumps(described))
        why = f"The model '{name}' does not exist"
        connection.answer(404, _OPENAI.bad_request(why, "model_not_found"))

    def _complain(self, connection: Connection, dialect: ServerWire, exc: Exception) -> None:
        self._counts["nonsense"] += 1
        reason = f"this request makes no sense: {type(exc).__name__}: {exc}"
        connection.answer(400, dialect.bad_request(reason))

    def _fault(self, chance: float, now: float) -> FaultKind | None:
        if self.profile.quota and self._counts["ok"] >= self.profile.quota:
            return "quota"
        if self._start is None:
            self._start = now
        return self.profile.fault(chance, (now - self._start) * self.profile.speed)

    def _admit(
        self, connection: Connection, dialect: ServerWire, call: Call, tokens: int, now: float
    ) -> str | None:
        """Header lines with the limits after this request; None if it was refused with a 429."""
        profile = self.profile
        meters = self._meters.get(call.model)
        if meters is None:
            limits = {"requests": profile.requests_per_minute, "tokens": profile.tokens_per_minute}
            meters = self._meters[call.model] = ServerBudgets(limits, 60.0 / profile.speed, now)
        wait = meters.admit(tokens, now)
        headers = "".join(dialect.limit(*reading) for reading in meters.read(now).items())
        if wait == math.inf:
            too_large = f"Request too large: Limit {profile.tokens_per_minute}, Requested {tokens}"
            connection.answer(*dialect.complaint("rate_limit", too_large), headers)
        elif wait:
            status, body = dialect.complaint("rate_limit")
            connection.answer(status, body, headers + dialect.wait(wait))
        return None if wait else headers


_ROUTES: tuple[tuple[str, ServerWire], ...] = (
    (r".*?(?:/deployments/(?P<model>[^/]*).*)?/chat/completions", _OPENAI),
    (r".*/responses", _RESPONSES),
    (r".*/messages", _ANTHROPIC),
    (r".*?/model/(?P<model>.*)/invoke", _ANTHROPIC),
    (r".*/(?P<model>.*):rawPredict", _ANTHROPIC),
)
"""The wire of a path, and the model that it names in the clouds' paths."""


def _route(path: str) -> tuple[ServerWire | None, str]:
    for pattern, wire in _ROUTES:
        if matched := re.fullmatch(pattern, path):
            return wire, matched.groupdict().get("model") or ""
    return None, ""
