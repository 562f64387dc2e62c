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
"""`use`: read the store and ask for the rest; `refresh`: ask for each call once more; `replay`:
never ask; `off`: neither read nor write."""

TagsOf: TypeAlias = "Callable[[str], Tags | None]"
"""Extra reasoning tags of a model; None: only the default `TAGS`."""


def no_tags(model: str) -> None:
    """`TagsOf` without extra tags."""


YIELD_EVERY = 256
"""Hits between two turns of the event loop: a run served from the store must handle signals."""
REPLIES_IN_MEMORY = 4096
"""Most recent replies kept in memory, about 10 MB. The worlds and rows of one problem repeat calls,
and reading one from the store takes 30 times as long."""
SIMULATED = "simulated -"
"""Origin of a refreshed reply that did not come from a server."""
EXPLAINED_MISSES = 3
"""Misses for which the nearest recorded call is looked up; each lookup may take a second."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """How a cache's calls were answered. The remaining ones failed or are waiting."""

    asked: int
    stored: int
    """Answered from the store."""
    shared: int
    """Joined a call that was already in flight."""
    new: int
    """Paid for, and stored unless the mode is `off`."""
    unsaved: int = 0
    """Paid for and lost, because the store could not save them."""


class _Flight(Struct, eq=False):
    """One call on the wire and its waiting callers. Cancelling a caller leaves the flight and the
    others alone."""

    call: Call
    key: str
    address: str
    identity: str
    waiting: list["asyncio.Future[Reply]"]
    task: "asyncio.Task[None] | None" = None


class Cache:
    """Answers from the store and asks `inner` on a miss, once per call, however many callers wait.

    A reply is handed out only when it is durable, stamped with the call's address. An exception of
    `inner` reaches every waiting caller and is not stored.

    Path of a miss: `__call__` starts a flight, `_look_up` finds nothing, `_pay` asks, `_keep` hands
    the reply to the writer, `_durable` is its callback, and `_complete` wakes the callers. A lookup
    takes a snapshot of the store, which is expensive while it is written. So after a miss, the
    lookups of one turn of the event loop are batched; after a hit, each is done at once.

    Cancelling all waiting callers does not cancel the flight: its reply is saved."""

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
        """identity: the endpoint that answers a call; replies are shared only within one endpoint.
        origin: origin of a new reply; see `Reply.origin`. run_id: of this run. A refresh recognizes
        by it the replies that earlier sessions of the run have stored. explained: maximum misses
        that name the nearest recorded call, which takes a search. clock: seconds since 1970; only
        recorded. paid: collects the addresses of paid calls; its owner removes them. shared: the
        beginning of a call's prompt that many calls have; a store may keep it once. tags: reasoning
        tags of a model, in addition to the default ones, also for stored replies.

        The caller closes the store. TypeError for a read-only store in a mode that writes;
        StoreError for a store that does not accept writes."""
        self._store = store
        self._inner = inner
        self._identity = identity
        self._mode = mode
        self._reads_all = mode in ("use", "replay")
        self._clock = clock
        self._origin = origin
        self.token = f"{run_id}-refresh" if mode == "refresh" and run_id else run_id
        """Last word of the origin of replies stored here."""
        self._explained = explained
        self._paid = paid
        self._beginning = shared
        self._tags = tags
        self._writer: Writer | None = None
        if mode in ("use", "refresh"):
            if not isinstance(store, Store):
                raise TypeError(f"mode {mode!r} stores replies, but {store!r} is read-only")
            store.require_rights()
            self._writer = Writer(store, replaces=mode == "refresh")
            self._put = self._writer.put if store.waits_for_disk else self._writer.put_at_once
        make_ready()
        self._flights: dict[str, _Flight] = {}
        self._missing = False
        """Whether the last lookup missed a reply; if so, the next lookups are batched."""
        self._unsearched: list[_Flight] = []
        self._refreshed: set[str] = set()
        self._recent: OrderedDict[str, Reply] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop, cached since looking it up is a system call in Python 3.11."""
        self.shared_results = SharedResults(self._repeated) if mode != "off" else None
        """Results of work that follows from durable replies, reused between cells; None if each
        cell must ask for itself."""
        self._closed = False
        self._asked = self._stored = self._shared = self._new = self._missed = self._unsaved = 0

    async def __call__(self, call: Call) -> Reply:
        """Raises ReplayMiss, DamagedEntry, StoreFull, StoreError, and any exception of `inner`."""
        self._asked += 1
        address = call.address
        identity = self._identity(call)
        key = address + endpoint_tag(identity)
        future: asyncio.Future[Reply]
        flight = self._flights.get(key)
        if flight is not None:
            self._shared += 1
            future = asyncio.get_running_loop().create_future()
            flight.waiting.append(future)
            return await future
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
            raise StoreError("the cache is closed")
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        future = loop.create_future()
        flight = self._flights[key] = _Flight(call, key, address, identity, [future])
        if together:
            if not self._unsearched:
                loop.call_soon(self._look_up)
            self._unsearched.append(flight)
        else:
            flight.task = loop.create_task(self._pay(flight))
        return await future

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """`close` at the end of the body, `abandon` if it raised or was cancelled."""
        await (self.close() if kind is None else self.abandon())

    async def keep(self, call: Call, reply: Reply) -> None:
        """Store a reply that did not come through `inner`; durable on return. A stored reply is not
        replaced. Raises StoreFull, StoreError, DamagedEntry."""
        identity = self._identity(call)
        key = store_key(call.address, identity)
        if not self._may_read(key) or self._store.get(key) is None:
            future = asyncio.get_running_loop().create_future()
            self._keep(_Flight(call, key, call.address, identity, [future]), reply)
            await future

    @property
    def statistics(self) -> CacheStatistics:
        return CacheStatistics(self._asked, self._stored, self._shared, self._new, self._unsaved)

    def forget(self, keys: Iterable[str]) -> None:
        """Drop deleted replies, and all results that follow from replies, so that calls are asked
        again."""
        for key in keys:
            self._recent.pop(key, None)
        if self.shared_results is not None:
            self.shared_results = SharedResults(self._repeated)

    def held(self, model: str) -> int:
        """Number of callers that wait for replies of a model."""
        flights = self._flights.values()
        return sum(len(flight.waiting) for flight in flights if flight.call.model == model)

    @property
    def waits(self) -> bool:
        """Whether a call is in flight."""
        return bool(self._flights)

    async def close(self) -> None:
        """Wait for every flight and save its reply. The store can still be read afterwards."""
        self._look_up()
        self._closed = True
        if flying := [flight.task for flight in self._flights.values() if flight.task]:
            await asyncio.wait(flying)
        if self._writer is not None:
            await self._writer.end()

    async def abandon(self) -> None:
        """Cancel the flights, which may have been paid, and save the replies that have arrived."""
        self._unsearched.clear()
        for flight in self._flights.values():
            if flight.task:
                flight.task.cancel()
        try:
            await self.close()
        finally:
            # A task that is cancelled before it starts does not complete its flight.
            for flight in [*self._flights.values()]:
                self._complete(flight, asyncio.CancelledError())

    def _repeated(self, notes: list[object], joined: bool) -> None:
        """Count the calls of work that was reused, or joined while it ran."""
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
        """Whether an earlier session of this refresh has stored it; remembered in `_refreshed`."""
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
        """The reply as callers get it; it stays in memory for a while."""
        if tags := self._tags(call.request.model):
            reply = reply.split(tags)
        self._recent[key] = reply
        if len(self._recent) > REPLIES_IN_MEMORY:
            self._recent.popitem(last=False)
        return reply

    def _look_up(self) -> None:
        """Complete the flights of stored calls, and ask for the others."""
        flights, self._unsearched = self._unsearched, []
        if not flights:
            return
        assert self._loop is not None, "it has flights"
        try:
            values = self._store.get_many([flight.key for flight in flights])
        except Exception as fault:
            for flight in flights:
                self._complete(flight, fault)
            return
        self._missing = len(values) < len(flights)
        for flight in flights:
            key = flight.key
            if (value := values.get(key)) is None:
                flight.task = self._loop.create_task(self._pay(flight))
                continue
            try:
                if isinstance(value, DamagedEntry):
                    raise value
                reply = stored_reply(key, value, flight.address)
                self._stored += 1
                self._complete(flight, self._handed_out(key, flight.call, reply))
            except Exception as fault:
                self._complete(flight, fault)

    async def _pay(self, flight: _Flight) -> None:
        """Ask, and pass the reply to the writer."""
        # A single coroutine: every further frame would be resumed with each reply.
        try:
            call = flight.call
            reply = await self._inner(call)
            origin = self._origin(call)
            if origin or (self._mode == "refresh" and self.token):
                origin = f"{origin or SIMULATED} {self.token}".rstrip()
                if reply.origin:
                    # A provider may return one object twice, which other callers hold already.
                    reply = replace(reply, origin=origin)
                else:
                    # In place: nothing else refers to the reply yet, and copying takes time.
                    force_setattr(reply, "origin", origin)
                force_setattr(reply, "call", flight.address)
            self._keep(flight, reply)
        except BaseException as fault:
            self._complete(flight, fault)
            if not isinstance(fault, Exception):
                raise

    def _keep(self, flight: _Flight, reply: Reply) -> None:
        """Make a reply durable, then hand it out. Raises StoreError if that is impossible."""
        if reply.call != flight.address:
            reply = replace(reply, call=flight.address)
        callback = partial(self._durable, flight, reply)
        if self._writer is None:
            return callback(None)
        call, key = flight.call, flight.key
        entry = new_entry(key, call, reply, flight.identity, int(self._clock()))
        try:
            self._put((key, partial(self._packed, entry, call), callback))
        except StoreError:
            self._unsaved += 1
            raise

    def _durable(self, flight: _Flight, reply: Reply, result: Kept) -> None:
        """Hand out a durable reply, or the fault that kept it from being stored."""
        reply_or_fault: Reply | BaseException = reply
        try:
            if isinstance(result, BaseException):
                self._unsaved += 1
                reply_or_fault = result
            else:
                if self._mode == "refresh":
                    self._refreshed.add(flight.key)
                if result is not None:
                    # Another process stored a reply first: a replay will use that one, so use it
                    # here.
                    reply = stored_reply(flight.key, result, flight.address)
                self._new += 1
                if self._paid is not None:
                    self._paid.add(flight.address)
                reply_or_fault = self._handed_out(flight.key, flight.call, reply)
        except Exception as fault:
            reply_or_fault = fault
        self._complete(flight, reply_or_fault)

    def _complete(self, flight: _Flight, reply_or_fault: Reply | BaseException) -> None:
        """Wake the callers of a flight."""
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        for future in flight.waiting:
            if future.done():
                continue
            if isinstance(reply_or_fault, Reply):
                future.set_result(reply_or_fault)
            elif isinstance(reply_or_fault, asyncio.CancelledError):
                future.cancel()
            else:
                future.set_exception(reply_or_fault)
        # A fault's traceback refers to this object; clearing the list breaks the cycle.
        flight.waiting.clear()

    def _packed(self, entry: StoreEntry, call: Call) -> bytes:
        shared = self._beginning(call) if entry.call_size >= LEAST_SHARED else ""
        return entry.packed(shared).to_bytes()

    def _miss(self, call: Call, address: str, identity: str) -> ReplayMiss:
        self._missed += 1
        if self._missed > self._explained:
            return ReplayMiss(call.model, address)
        from .call_diff import nearest_recorded

        return ReplayMiss(call.model, address, str(nearest_recorded(self._store, call, identity)))
