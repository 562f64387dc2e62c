"""Making providers: the wire of each over the plain transport, or over its vendor's own client."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from ..system.process import left
from . import sdk_clients
from .anthropic_wire import AnthropicWire
from .catalogue import entry
from .openai_wire import OpenAIWire
from .provider import HttpProvider, OnLimits, Provider
from .responses_wire import ResponsesWire
from .settings import Settings
from .transport import Transport
from .wire import Wire

WireOf: TypeAlias = Callable[[Settings], Wire]

FEW = 256
"""A provider that gets fewer connections than these, and fewer than were set, is named in a
warning."""

log = logging.getLogger(__name__)


def connect(settings: Settings, on_limits: OnLimits | None = None) -> Provider:
    """The provider as a bare `Ask`, without limits, retries or store. Close it when done.

    on_limits: called after each answer with the rate limits that the server states.
    """
    name = settings.provider
    make = entry(name).connect or _MAKERS.get(name, openai_provider)
    return make(settings, on_limits)


class Room:
    """The descriptors that are left for connections, divided among the providers of a run: a reply
    that no file is left to store would be paid for and lost."""

    def __init__(self, sharing: int = 0) -> None:
        """sharing: providers that will ask; any other gets half of what is left."""
        self._left = left()
        self._sharing = sharing

    def part(self, provider: str, wanted: int) -> int:
        """Connections that a provider may open, at least one; `wanted` at most."""
        share = max(self._left // (self._sharing or 2), 1)
        self._sharing = max(self._sharing - 1, 0)
        given = min(wanted, share)
        self._left -= given
        if given < min(wanted, FEW):
            log.warning(
                "%s gets %d connections at most, since this process may have few files open; "
                "for more: ulimit -n 4096",
                provider,
                given,
            )
        return given


def credentials(settings: Settings) -> dict[str, str]:
    """Authentication headers, for requests made without the vendor's client."""
    return batch_wire(settings).auth(settings.key)


def _openai_wire(settings: Settings) -> Wire:
    if settings.api == "responses":
        return ResponsesWire(settings.provider, settings.models)
    return OpenAIWire(settings.provider, settings.models, settings.extra)


def _anthropic_wire(settings: Settings) -> AnthropicWire:
    return AnthropicWire(settings.provider, settings.models, settings.option("version"))


def batch_wire(settings: Settings) -> Wire:
    """The wire for a line of a batch, which is the wire of the same provider's live calls."""
    return (_anthropic_wire if entry(settings.provider).dated else _openai_wire)(settings)


def _cloud_wire(settings: Settings) -> Wire:
    return replace(_anthropic_wire(settings), version_in_body=True)


def _azure(settings: Settings, on_limits: OnLimits | None) -> Provider:
    """Azure's v1 path, which is OpenAI's own API; or, for a dated version, the older path."""
    if settings.option("version") in ("", "v1"):
        return _sdk(_openai_wire, sdk_clients.azure_v1_client, settings, on_limits)
    return _sdk(_openai_wire, sdk_clients.azure_client, settings, on_limits, as_tree=True)


def _plain(write: WireOf, settings: Settings, on_limits: OnLimits | None) -> Provider:
    """A provider over the plain transport."""
    wire = write(settings)
    auth = wire.auth(settings.key) if settings.key else {}
    transport = partial(http_transport, settings, settings.base_url, auth)
    return HttpProvider(wire, transport, on_limits)


def openai_provider(settings: Settings, on_limits: OnLimits | None) -> Provider:
    """A provider that speaks OpenAI's wire over the plain transport."""
    return _plain(_openai_wire, settings, on_limits)


def http_transport(settings: Settings, base_url: str, auth: dict[str, str]) -> Transport:
    """The plain transport to an address. auth: headers that every request has."""
    from .http_client import PlainTransport

    return PlainTransport(settings, base_url, auth)


def _sdk(
    write: WireOf,
    client: Callable[[Settings, Any], Any],
    settings: Settings,
    on_limits: OnLimits | None,
    *,
    as_tree: bool = False,
) -> Provider:
    """A provider over its vendor's own client."""

    def transport() -> Transport:
        import httpx2

        from .http_client import HttpClient
        from .sdk_transport import SdkTransport

        http = HttpClient(settings, keep_alive=30.0, tls=httpx2.create_ssl_context())
        return SdkTransport(settings.provider, partial(client, settings), http, as_tree=as_tree)

    return HttpProvider(write(settings), transport, on_limits)


_MAKERS: dict[str, Callable[[Settings, OnLimits | None], Provider]] = {
    "openai": partial(_sdk, _openai_wire, sdk_clients.openai_client),
    "anthropic": partial(_sdk, _anthropic_wire, sdk_clients.anthropic_client),
    "azure": _azure,
    "foundry": partial(_sdk, _anthropic_wire, sdk_clients.foundry_client),
    "bedrock": partial(_sdk, _cloud_wire, sdk_clients.bedrock_client, as_tree=True),
    "vertex": partial(_sdk, _cloud_wire, sdk_clients.vertex_client, as_tree=True),
}
"""Those that are not reached over OpenAI's wire and the plain transport."""
