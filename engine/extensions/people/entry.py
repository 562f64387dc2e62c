"""People as the engine loads them: a provider that halts until pages are served, and their part in
an execution. They answer when they like, so no cell is held back."""

from types import MappingProxyType
from typing import Any
from weakref import WeakSet

from ....cache.call import Call
from ....cache.reply import Reply
from ...errors import Later
from ...models.directory import Directory
from ...providers.connecting import http_provider
from ...providers.provider import OnLimits, Provider
from ...providers.settings import Settings
from ...providers.vendors import Entry
from ...run import later
from ...run.schedule import InOrder, Missing, Schedule, Work

NO_BATCH = (
    "batches cannot be used while people answer: let models judge first, then let people judge the "
    "transcripts with oversight human serve RUN; or ask the models live"
)


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


PROVIDER = Entry(_connect, base_url="http://127.0.0.1", api="person", origin="person")


class Presence(later.Addition):
    asks = MappingProxyType({})
    alone = NO_BATCH

    def schedule(self, missing: Missing[Work]) -> Schedule[Work, Any]:
        return InOrder(missing())

    async def end(self) -> None:
        """Nothing outlives this process."""

    async def close(self) -> None:
        """The pages close themselves."""


class PeopleEntry(later.Entry):
    def __init__(self) -> None:
        self.served = WeakSet[Directory]()
        """Directories of models with people whose pages this process serves."""

    def made(self, work: later.ExecutionWork) -> later.Addition | None:
        return Presence() if work.models.directory in self.served else None


ENTRY = PeopleEntry()
