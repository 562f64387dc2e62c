"""Providers: the `Ask` that sends a call. Limits, retries and the store are wrapped around it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from ...cache.call import Call
from ...cache.reply import Reply
from ..errors import EngineError, KeyEchoed, Malformed
from .fault import LIMIT_HEADERS, HeaderLimits, stated_limits
from .transport import HIDDEN, NOTHING, Response, Transport, forget
from .wire import Wire

OnLimits: TypeAlias = Callable[[str, HeaderLimits], None]
"""Callback with a model and the rate limits that its server states, whenever those change."""

CHARACTERS_A_TOKEN = 16
"""Maximum average characters per token of a reply: five times the value for plain English."""
LEAST_ROOM = 1_024
"""Characters that any reply may have, such as a gateway's refusal."""


class Provider(ABC):
    """An `Ask` that can be closed."""

    @abstractmethod
    async def __call__(self, call: Call) -> Reply:
        """The reply to one call, sent once. Raises: the errors of `oversight.engine.errors`."""

    async def quiet_down(self) -> None:
        """Wait a moment for unsolicited answers after the last ones."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Release all connections. Safe to call twice."""


class HttpProvider(Provider):
    """A wire over a transport. A call is `receive(call, await send(call))[0]`."""

    def __init__(
        self, wire: Wire, make: Callable[[], Transport], on_limits: OnLimits | None = None
    ) -> None:
        """make: creates the transport for the first call, so that a replay loads no client."""
        self._wire = wire
        self._make = make
        self._transport: Transport | None = None
        self._on_limits = on_limits
        self._path = wire.path
        self._headers = wire.headers()
        self._stated: dict[str, tuple[str | None, ...]] = {}
        """By model, the limit headers of the last answer."""

    async def __call__(self, call: Call) -> Reply:
        return self.receive(call, await self.send(call))[0]

    def send(self, call: Call) -> Awaitable[Response]:
        """Send a call. Raises: as `__call__`."""
        transport = self._transport
        if transport is None:
            transport = self._transport = self._make()
        try:
            body = self._wire.body(call)
        except EngineError as exc:
            exc.unsent()
            raise
        return transport.post(self._path, self._headers, body, call.address)

    def receive(self, call: Call, response: Response) -> tuple[Reply, float]:
        """The reply in the answer to a call, and `Response.sent`. Raises: as `__call__`."""
        assert self._transport is not None, "it has sent the call"
        sent = response.sent
        try:
            response = self._transport.read(response)
            headers = response.headers
            if self._on_limits is not None:
                model = call.request.model
                limits = tuple(map(headers.get, LIMIT_HEADERS))
                if limits != self._stated.get(model):
                    self._stated[model] = limits
                    self._on_limits(model, stated_limits(headers))
            reply = self._wire.reply(response.status, headers, response.body)
            require_length(reply, call, self._wire.provider, response.body)
        except BaseException as exc:
            # Do not keep the body in memory while the call waits for its retry.
            response, headers = NOTHING, {}
            forget(exc)
            raise
        if response.repeats_key:
            reply = keyless(reply, self._wire.provider)
        return reply, sent

    async def quiet_down(self) -> None:
        if self._transport is not None:
            await self._transport.quiet_down()

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()


def require_length(reply: Reply, call: Call, source: str, body: bytes) -> None:
    """Raise Malformed if a reply is longer than this many tokens can be: the server ignores the
    limit, and all readers of the reply would have to process it."""
    length = len(reply.text)
    for tool_call in reply.tool_calls:
        length += len(tool_call.arguments)
    most = max(LEAST_ROOM, call.request.max_tokens * CHARACTERS_A_TOKEN)
    if length > most:
        raise Malformed(
            f"{source} sent {length:,} characters to a call of {call.request.max_tokens:,} tokens",
            body,
        )


def keyless(reply: Reply, source: str) -> Reply:
    """The reply of an answer that repeated the key elsewhere. Raises KeyEchoed if the reply itself
    contains the key."""
    if HIDDEN.encode() in msgspec.json.encode(reply):
        raise KeyEchoed(
            f"{source} repeats the key in its replies; such a reply is neither stored nor "
            "changed. Replace the key, and ask the operator of the server, or of the proxy before "
            "it, why it repeats requests"
        )
    return reply
