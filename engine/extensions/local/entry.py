"""The entry of the local model in the catalogue of providers."""

from ...providers.connecting import http_transport
from ...providers.openai_wire import OpenAIWire
from ...providers.provider import HttpProvider, OnLimits, Provider
from ...providers.settings import Settings
from ...providers.transport import Transport
from ...providers.vendors import Entry
from .weights import IDENTITY, MODEL, SLOTS, weights


def _connect(settings: Settings, on_limits: OnLimits | None) -> Provider:
    def transport() -> Transport:
        from .transport import LocalTransport

        return LocalTransport(lambda url: http_transport(settings, url, {}))

    return HttpProvider(OpenAIWire(settings.provider), transport, on_limits)


ENTRY = Entry(
    _connect,
    base_url="http://127.0.0.1",
    api=IDENTITY,
    models=(MODEL,),
    require=weights,
    concurrency=SLOTS,
)
