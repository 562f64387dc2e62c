"""The cache: an `Ask` that pays for a call at most once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .call import Ask, Call, Exchange, Identity, endpoint_tag, store_key
from .entry import LEAST_SHARED, StoreEntry, make_ready, new_entry, stored_reply
from .errors import DamagedEntry, ReplayMiss, StoreError
from .reply import Reply
from .shared_results import SharedResults
from .store import Reader, Store
from .writer import Kept, Writer

if TYPE_CHECKING:
    from .reasoning import Tags

Mode: TypeAlias = Literal["use", "refresh", "replay", "off"]
"""`use` what is stored and ask for the rest; `refresh` asks for each call once more; `replay`
never asks; `off` neither reads nor writes."""

TagsOf: TypeAlias = "Callable[[str], Tags | None]"
"""The tags of a model's thoughts that somebody has named; None: those of `TAGS` are all."""


def no_tags(model: str) -> None:
    """`TagsOf` where nobody has named any."""


YIELD_EVERY = 256
"""Hits after which the event loop gets a turn: a run served from the store must handle signals."""
REPLIES_IN_MEMORY = 4096
"""Most recent replies kept in memory, about 10 MB: the worlds and rows of one problem repeat calls
within a short while, and reading one from the store takes 30 times as long."""
SIMULATED = "simulated -"
"""Origin of a refreshed reply that no server gave."""
EXPLAINED_MISSES = 3
"""Misses for which the nearest recorded call is looked up; each may take a second."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """How a cache's calls were answered; those neither stored, shared nor new failed or wait."""

    asked: int
    stored: int
    """Answered from the store."""
    shared: int
    """Joined a flight that another caller had started."""
    new: int
    """Paid for: asked once, and stored unless the mode is `off`."""
    unsaved: int = 0
    """Paid for and lost, because the store could not save them."""


class _Flight(Struct, eq=False):
    """One call on the wire, and the callers who wait for it: cancelling one of them cancels neither
    the flight nor another."""

    call: Call
    key: str
    address: str
    identity: str
    waiting: list["asyncio.Future[Reply]"]
    task: "asyncio.Task[None] | None" = None


class Cache:
    """Answers from the store; asks `inner` on a miss, once, however many wait for it.

    A reply is handed out only when it is durable, stamped with the address of its
    call. An exception of `inner` reaches everyone who waits for that call and is not stored.

    The way of a call that is not stored: `__call__` begins a flight, `_look_up` does not find it,
    `_pay` asks, `_keep` hands the reply to the writer, `_durable` hears from it, and `_landed`
    tells all who wait. Each look into the store takes a snapshot of it, which is dear while it is
    written: so as long as calls are missed, those of one turn of the event loop are looked up
    together; as long as they are found, each at once.

    Cancelling some or all of the waiting callers does not cancel the flight: it lands and is saved.
    """

    def __init__(
        self,
        store: Reader,
        inner: Ask,
        *,
        identity: Identity,
        mode: Mode = "use",
        clock: Callable[[], float] = time.time,
        origin: Callable[[Call], str] = lambda call: "",
        run_id: str = "",
        explained: int = EXPLAINED_MISSES,
        paid: set[str] | None = None,
        shared: Callable[[Call], str] = lambda call: "",
        tags: TagsOf = no_tags,
    ) -> None:
        """identity: tells the endpoint that answers a call; replies are shared under one alone.

        origin: how and from which address a new reply comes; see `Reply.origin`.

        run_id: of the run that asks. A refresh does not ask again for what an earlier session of it
        has stored, which is known by this id and by no clock.

        explained: how many misses of a replay name the nearest recorded call, which takes a search
        among thousands.

        clock: seconds since 1970; only ever recorded. The caller closes the store.

        paid: gets the address of every call that is paid for; its owner takes them out again.

        shared: how a call's prompt begins, as far as many calls have it; a store may keep it once.

        tags: of a model's thoughts, beside those by which every reply is split. They are no part of
        what is stored: what was stored before they were named is split by them as well.

        Raises: TypeError for a Reader that is no Store in a mode that stores replies; StoreError
        for a store that does not take what is written.
        """
        self._store = store
        self._inner = inner
        self._identity = identity
        self._mode = mode
        self._reads_all = mode in ("use", "replay")
        self._clock = clock
        self._origin = origin
        self.token = f"{run_id}-refresh" if mode == "refresh" and run_id else run_id
        """What the origin of a reply that is stored here ends with."""
        self._explained = explained
        self._paid = paid
        self._beginning = shared
        self._tags = tags
        self._writer: Writer | None = None
        if mode in ("use", "refresh"):
            if not isinstance(store, Store):
                raise TypeError(f"mode {mode!r} stores replies, and {store!r} only reads them")
            store.require_rights()
            self._writer = Writer(store, replaces=mode == "refresh")
            self._put = self._writer.put if store.waits_for_disk else self._writer.put_at_once
        make_ready()
        self._flights: dict[str, _Flight] = {}
        self._missing = False
        """Whether the store lacked what it was last asked for."""
        self._sought: list[_Flight] = []
        """Flights of calls that may be stored."""
        self._refreshed: set[str] = set()
        self._recent: OrderedDict[str, Reply] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that it belongs to, from its first flight on: looking it up is a system call in
        Python 3.11."""
        self.shared_results = SharedResults(self._repeated) if mode != "off" else None
        """What has been made of its replies, which are durable, for cells that have it in common;
        None where each cell is to ask for itself."""
        self._closed = False
        self._asked = self._stored = self._shared = self._new = self._missed = self._unsaved = 0

    async def __call__(self, call: Call) -> Reply:
        """ReplayMiss, DamagedEntry, StoreFull, StoreError, or whatever `inner` raises."""
        self._asked += 1
        address = call.address
        identity = self._identity(call)
        key = address + endpoint_tag(identity)
        landing: asyncio.Future[Reply]
        flight = self._flights.get(key)
        if flight is not None:
            self._shared += 1
            landing = asyncio.get_running_loop().create_future()
            flight.waiting.append(landing)
            return await landing
        reads = self._reads_all or self._may_read(key)
        together = reads and self._missing and self._writer is not None and not self._closed
        if reads:
            reply = self._recent.get(key)
            if reply is None and not together:
                value = self._store.get(key)
                self._missing = value is None
                if value is not None:
                    reply = self._handed_out(key, call, stored_reply(key, value, address))
            if reply is not None:
                self._stored += 1
                if not self._stored % YIELD_EVERY:
                    await asyncio.sleep(0)
                return reply
        if self._mode == "replay":
            raise self._miss(call, address, identity)
        if self._closed:
            raise StoreError("the cache is closed: nothing more is asked")
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        landing = loop.create_future()
        flight = self._flights[key] = _Flight(call, key, address, identity, [landing])
        if together:
            if not self._sought:
                loop.call_soon(self._look_up)
            self._sought.append(flight)
        else:
            flight.task = loop.create_task(self._pay(flight))
        return await landing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """`close` at the end of the body, `abandon` if it raised or was cancelled."""
        await (self.close() if kind is None else self.abandon())

    async def keep(self, call: Call, reply: Reply) -> None:
        """Store a reply that came another way than through `inner`, durably when this returns; what
        is stored already stays. StoreFull, StoreError, DamagedEntry.
        """
        identity = self._identity(call)
        key = store_key(call.address, identity)
        if not self._may_read(key) or self._store.get(key) is None:
            landing = asyncio.get_running_loop().create_future()
            self._keep(_Flight(call, key, call.address, identity, [landing]), reply)
            await landing

    @property
    def statistics(self) -> CacheStatistics:
        return CacheStatistics(self._asked, self._stored, self._shared, self._new, self._unsaved)

    def forget(self, keys: Iterable[str]) -> None:
        """Ask again for what was deleted from the store, and for all that follows from it."""
        for key in keys:
            self._recent.pop(key, None)
        if self.shared_results is not None:
            self.shared_results = SharedResults(self._repeated)

    def held(self, model: str) -> int:
        """Callers who wait for replies of a model."""
        flights = self._flights.values()
        return sum(len(each.waiting) for each in flights if each.call.model == model)

    @property
    def waits(self) -> bool:
        """Whether a reply that is not stored is under way."""
        return bool(self._flights)

    async def close(self) -> None:
        """Let every flight land and save it. What is stored can still be read afterwards."""
        self._look_up()
        self._closed = True
        if flying := [each.task for each in self._flights.values() if each.task]:
            await asyncio.wait(flying)
        if self._writer is not None:
            await self._writer.end()

    async def abandon(self) -> None:
        """Cancel the flights, which may have been paid, and save those that had landed."""
        self._sought.clear()
        for flight in self._flights.values():
            if flight.task:
                flight.task.cancel()
        try:
            await self.close()
        finally:
            # A task that is cancelled before it begins does not land its flight.
            for flight in [*self._flights.values()]:
                self._landed(flight, asyncio.CancelledError())

    def _repeated(self, notes: list[object], joined: bool) -> None:
        """Count calls that were not asked again, since what follows from their replies was at hand,
        or under way."""
        calls = [*map(type, notes)].count(Exchange)
        self._asked += calls
        if joined:
            self._shared += calls
        else:
            self._stored += calls

    def _may_read(self, key: str) -> bool:
        if self._mode == "refresh":
            return key in self._refreshed or self._was_refreshed(key)
        return self._reads_all

    def _was_refreshed(self, key: str) -> bool:
        """Whether an earlier part of this refresh has stored it; then it is noted as refreshed."""
        if not self.token:
            return False
        try:
            value = self._store.get(key)
            origin = "" if value is None else stored_reply(key, value, "").origin
        except DamagedEntry:
            return False
        if fresh := origin.endswith(f" {self.token}"):
            self._refreshed.add(key)
        return fresh

    def _handed_out(self, key: str, call: Call, reply: Reply) -> Reply:
        """A reply, as all who asked get it; it stays in memory for a while."""
        if tags := self._tags(call.request.model):
            reply = reply.split(tags)
        self._recent[key] = reply
        if len(self._recent) > REPLIES_IN_MEMORY:
            self._recent.popitem(last=False)
        return reply

    def _look_up(self) -> None:
        """Land the flights of calls that are stored, and begin the others."""
        flights, self._sought = self._sought, []
        if not flights:
            return
        assert self._loop is not None, "it has flights"
        try:
            found = self._store.get_many([flight.key for flight in flights])
        except Exception as fault:
            for flight in flights:
                self._landed(flight, fault)
            return
        self._missing = len(found) < len(flights)
        for flight in flights:
            key = flight.key
            if (value := found.get(key)) is None:
                flight.task = self._loop.create_task(self._pay(flight))
                continue
            try:
                if isinstance(value, DamagedEntry):
                    raise value
                reply = stored_reply(key, value, flight.address)
                self._stored += 1
                self._landed(flight, self._handed_out(key, flight.call, reply))
            except Exception as fault:
                self._landed(flight, fault)

    async def _pay(self, flight: _Flight) -> None:
        """Ask, and hand the reply to the writer, which has it handed out."""
        # One coroutine: what waits beneath it is resumed through every frame above.
        try:
            call = flight.call
            reply = await self._inner(call)
            origin = self._origin(call)
            if origin or (self._mode == "refresh" and self.token):
                origin = f"{origin or SIMULATED} {self.token}".rstrip()
                if reply.origin:
                    # A provider may answer twice with one object, which others hold by now.
                    reply = replace(reply, origin=origin)
                else:
                    # In place: nobody else has it yet, and each copy would take its time.
                    force_setattr(reply, "origin", origin)
                force_setattr(reply, "call", flight.address)
            self._keep(flight, reply)
        except BaseException as fault:
            self._landed(flight, fault)
            if not isinstance(fault, Exception):
                raise

    def _keep(self, flight: _Flight, reply: Reply) -> None:
        """Have a reply made durable, and then handed out. StoreError for one that cannot be."""
        if reply.call != flight.address:
            reply = replace(reply, call=flight.address)
        kept = partial(self._durable, flight, reply)
        if self._writer is None:
            return kept(None)
        call, key = flight.call, flight.key
        record = new_entry(key, call, reply, flight.identity, int(self._clock()))
        try:
            self._put((key, partial(self._packed, record, call), kept))
        except StoreError:
            self._unsaved += 1
            raise

    def _durable(self, flight: _Flight, reply: Reply, kept: Kept) -> None:
        """Hand out a reply that is durable, or the fault for which it is not."""
        what: Reply | BaseException = reply
        try:
            if isinstance(kept, BaseException):
                self._unsaved += 1
                what = kept
            else:
                if self._mode == "refresh":
                    self._refreshed.add(flight.key)
                if kept is not None:
                    # Another process stored one first. A replay will meet that one: so do these.
                    reply = stored_reply(flight.key, kept, flight.address)
                self._new += 1
                if self._paid is not None:
                    self._paid.add(flight.address)
                what = self._handed_out(flight.key, flight.call, reply)
        except Exception as fault:
            what = fault
        self._landed(flight, what)

    def _landed(self, flight: _Flight, what: Reply | BaseException) -> None:
        """Tell all who wait for a flight."""
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        for landing in flight.waiting:
            if landing.done():
                continue
            if isinstance(what, Reply):
                landing.set_result(what)
            elif isinstance(what, asyncio.CancelledError):
                landing.cancel()
            else:
                landing.set_exception(what)
        # A fault's traceback holds this object, which would hold the fault.
        flight.waiting.clear()

    def _packed(self, record: StoreEntry, call: Call) -> bytes:
        shared = self._beginning(call) if record.call_size >= LEAST_SHARED else ""
        return record.packed(shared).to_bytes()

    def _miss(self, call: Call, address: str, identity: str) -> ReplayMiss:
        self._missed += 1
        if self._missed > self._explained:
            return ReplayMiss(call.model, address)
        from .call_diff import nearest_recorded

        nearest = nearest_recorded(self._store, call, identity)
        return ReplayMiss(call.model, address, str(nearest))
