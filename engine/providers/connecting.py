"""Creates providers: a wire over the plain transport or over a vendor's client library."""

from functools import partial

from ..errors import ProviderDown
from .anthropic_wire import AnthropicWire
from .catalogue import entry
from .openai_wire import OpenAIWire
from .provider import HttpProvider, OnLimits, Provider
from .responses_wire import ResponsesWire
from .settings import Settings
from .transport import Transport
from .wire import Wire


def connect(settings: Settings, on_limits: OnLimits | None = None) -> Provider:
    """The provider as a bare `Ask`, without limits, retries or store. Close it when done.
    on_limits: called after each answer with the rate limits that the server states."""
    return (entry(settings.provider).connect or http_provider)(settings, on_limits)


_CLOUDS = ("bedrock", "vertex")
"""Clouds that expect the version in the body of a call, and the model's name in its URL."""
_ANTHROPIC = ("anthropic", "foundry", *_CLOUDS)
_SDKS = ("openai", "azure", *_ANTHROPIC)
"""Providers that use their vendors' client libraries; all others use the plain transport."""


def wire_of(settings: Settings) -> Wire:
    """The wire of a provider, for single calls and deferred ones."""
    name, models = settings.provider, settings.models
    if name in _ANTHROPIC:
        return AnthropicWire(name, models, settings.option("version"), name in _CLOUDS)
    wire = ResponsesWire if settings.api == "responses" else OpenAIWire
    return wire(name, models, own=entry(name).own)


def http_provider(settings: Settings, on_limits: OnLimits | None) -> Provider:
    """A provider over HTTP. Unknown providers use the OpenAI wire."""
    wire = wire_of(settings)
    if settings.provider in _SDKS:
        return HttpProvider(wire, partial(_sdk_transport, settings), on_limits)
    auth = wire.auth(settings.key) if settings.key else {}
    plain = partial(http_transport, settings, settings.base_url, auth)
    return HttpProvider(wire, plain, on_limits)


def http_transport(settings: Settings, base_url: str, auth: dict[str, str]) -> Transport:
    """The plain transport to an address. auth: headers of every request."""
    from .http_client import PlainTransport

    return PlainTransport(settings, base_url, auth)


def _sdk_transport(settings: Settings) -> Transport:
    import httpx2

    from .http_client import HttpClient
    from .sdk import SdkTransport, anthropic_client, openai_client

    name = settings.provider
    client = anthropic_client if name in _ANTHROPIC else openai_client
    try:
        http = HttpClient(settings, keep_alive=30.0, tls=httpx2.create_ssl_context())
    except OSError as exc:
        why = f"no certificates where SSL_CERT_FILE or SSL_CERT_DIR says: {exc}; mend or unset it"
        raise ProviderDown(f"{name}: {why}").unsent() from exc
    return SdkTransport(name, partial(client, settings), http, as_tree=name in _CLOUDS)
