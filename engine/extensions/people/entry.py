"""The provider of people, which halts until their pages are served."""

from ....cache.call import Call
from ....cache.reply import Reply
from ...errors import Later
from ...providers.connecting import http_provider
from ...providers.provider import OnLimits, Provider
from ...providers.settings import Settings
from ...providers.vendors import Entry


class AbsentPeople(Provider):
    """Halts at the first call, so that only stored replies can be used. `oversight human serve`
    replaces it while it serves pages."""

    async def __call__(self, call: Call) -> Reply:
        why = f"{call.model}: people answer in the browser"
        raise Later(why, "oversight human serve", "serve their pages with")

    async def close(self) -> None:
        """Nothing to release."""


def _connect(settings: Settings, on_limits: OnLimits | None) -> Provider:
    """At another address, the provider is a server that stands in for people."""
    return AbsentPeople() if settings.vendors_own else http_provider(settings, on_limits)


ENTRY = Entry(_connect, base_url="http://127.0.0.1", api="person", origin="person")
