"""The part of people in an execution: they answer when they like, so no cell is held back."""

from types import MappingProxyType
from typing import Any
from weakref import WeakSet

from ...models.directory import Directory
from ...run.later import Addition, Entry, ExecutionWork
from ...run.schedule import InOrder, Missing, Schedule, Work

NO_BATCH_BESIDE_PEOPLE = (
    "a batch is not waited for while people are: have models judge instead, and then people judge "
    "the transcripts, oversight human serve RUN; or ask the models live"
)


class Presence(Addition):
    asks = MappingProxyType({})
    alone = NO_BATCH_BESIDE_PEOPLE

    def schedule(self, missing: Missing[Work]) -> Schedule[Work, Any]:
        return InOrder(missing())

    async def end(self) -> None:
        """Nothing outlives this process."""

    async def close(self) -> None:
        """The pages close themselves."""


class PeopleEntry(Entry):
    def __init__(self) -> None:
        self.served = WeakSet[Directory]()
        """Directories of models with people whose pages this process serves."""

    def made(self, work: ExecutionWork) -> Addition | None:
        return Presence() if work.models.directory in self.served else None


ENTRY = PeopleEntry()
