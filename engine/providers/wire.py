"""A wire: how one family of servers wants a call written, and how its replies read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.errors import Malformed
from oversight.engine.providers.fault import inside_200, read_fault
from oversight.engine.providers.limit_headers import HeaderLimits
from oversight.engine.providers.payload import body_start, tree

Headers: TypeAlias = Mapping[str, str]
"""HTTP headers, looked up by lower-case name."""


class Wire(ABC):
    """Two pure functions, `body` and `reply`, and the headers and path that go with them.

    Wires are the only places that know the names of a provider's fields. They hold no key, open
    no connection and read no clock.
    """

    __slots__ = ()

    provider: str
    """As the user writes it."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Where calls are posted, below the provider's base URL."""

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """What every request carries, credentials apart."""

    @abstractmethod
    def auth(self, key: str) -> dict[str, str]:
        """The headers that prove who asks."""

    @abstractmethod
    def body(self, call: Call) -> bytes:
        """The call as the server wants it, in JSON. `draw` is ours alone and is not sent.

        ModelNotFound where the wire has no words for a parameter: nothing is dropped silently.
        InvalidRequest where a part of the call is no JSON.
        """

    @abstractmethod
    def read(self, data: dict[str, Any]) -> Reply:
        """The reply in the JSON of a 200. Unheard where it says what is unknown here; LookupError,
        TypeError, ValueError or AttributeError where it holds no reply."""

    def error(self, data: dict[str, Any]) -> object:
        """The error that stands in a 200 in place of a reply; falsy if there is none."""
        return data.get("error")

    @abstractmethod
    def limits(self, headers: Headers) -> HeaderLimits:
        """What the server says of its rate limits, on good and bad answers alike."""

    def reply(self, status: int, headers: Headers, body: bytes) -> Reply:
        """What the server said.

        Refusals, truncations and empty texts are replies, and so is a prompt that a policy
        turned down: its outcome is `refused`. All else raises what `oversight.engine.errors` has
        for it;
        a 200 that holds no reply raises Malformed with its bytes.
        """
        if not 200 <= status < 300:
            limits = self.limits(headers)
            return read_fault(self.provider, status, headers, limits, body).reply()
        data = tree(body, self.provider)
        if said := self.error(data):
            limits = self.limits(headers)
            return inside_200(self.provider, said, headers, limits, body).embedded_reply(body)
        try:
            return self.read(data)
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise Malformed(
                f"{self.provider} sent a 200 that holds no reply ({type(exc).__name__}: {exc}): "
                f"{body_start(body)}",
                body,
            ) from exc
