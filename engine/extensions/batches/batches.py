"""A run in batches. One loop: collect the batches that are back, submit the missing calls, wait.

Work runs as far as stored replies go, and the missing calls go into the next batches, as many as
vendor, queue and budget allow. Unnamed files are in the folder of the batches, since memory and
/tmp may be too small for them."""

import asyncio
import gc
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from secrets import token_hex
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from msgspec import to_builtins

from ....cache.cache import CacheStatistics
from ....cache.call import Ask, Call
from ....cache.entry import read_call
from ....cache.reply import Reply
from ...display.text import counted
from ...errors import (
    BudgetReached,
    EngineError,
    Halt,
    InvalidRequest,
    Later,
    ModelNotFound,
    OutcomeUnknown,
    Overloaded,
    Pending,
    ProviderDown,
    RateLimited,
    RunFolderError,
    StoreFailed,
    TransientError,
    Unreachable,
    UsageError,
)
from ...models.accounting.ledger import Page
from ...models.limits.breaker import GIVE_UP
from ...providers.connecting import wire_of
from ...run.later import Addition, ExecutionWork, Passes
from ...run.schedule import Missing, Schedule, Work
from ...system.files import sync_folder, unwritable
from .endpoints import CLOCK_SLACK, ENDPOINTS, INCONCLUSIVE, BatchEndpoint, BatchState, backoff
from .journal import Batch, BatchJournal
from .results import Results, keys_of, price_of, result_bytes, worst_case

MIN_POLL, MAX_POLL = 0.5, 60.0
"""Seconds between two polls of batches."""
POLL_FRACTION = 0.05
"""Pause between two polls, as a fraction of the time waited so far."""
SETTLE = 180.0
"""Seconds to look for a batch that the vendor said it could not make."""
NOT_FOUND_SECONDS = 120.0
"""Seconds for which a vendor may deny a batch that it has made, or lack lines of its results."""
LAST_SECONDS = 3.0
"""Seconds that a stop leaves a vendor to answer a submission."""
QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a queue without room for a batch."""
log = logging.getLogger(__name__)


class BatchRefused(Halt):
    """A batch endpoint refuses a whole batch, or does not know it any more."""


class _Short(BatchRefused):
    """An ended batch lacks results, or is unknown to the vendor. Both may pass."""


class Outbox:
    """An `Ask` for one model, behind the cache: it gets the calls that have no stored reply.

    Raises Pending for a call that is out or noted, the vendor's fault for one that can never be
    served, and the wire's error for one that it cannot express. Notes are on disk, since a pass may
    lack more calls than fit into memory."""

    def __init__(
        self, model: str, endpoint: BatchEndpoint, journal: BatchJournal, live: Ask | None
    ) -> None:
        """live: asked for calls that are in no batch yet; None: they go into the next one."""
        self.model, self.endpoint = model, endpoint
        self.notes: BinaryIO | None = None
        """The noted calls, one per line, in the order in which they were asked."""
        self._journal, self._live = journal, live
        self._noted, self._out = set[bytes](), set[bytes]()

    def reset(self) -> None:
        """Begin a pass: forget the notes, and read which calls are out."""
        self.close()
        batches = (b for b in self._journal.pending.values() if b.model == self.model)
        self._noted.clear()
        self._out = {key for batch in batches for key in keys_of(self._journal.file(batch.mark))}

    async def __call__(self, call: Call) -> Reply:
        address, key = call.address, bytes.fromhex(call.address)
        if key in self._out or key in self._noted:
            raise Pending(address)
        if (fault := self._journal.faults.get(address)) is not None:
            return self.endpoint.wire.reply(fault[0], {}, fault[1])
        if self._live is not None:
            return await self._live(call)
        # A call that the wire cannot express fails here, not inside a batch.
        self.endpoint.wire.body(call)
        try:
            self.notes = self.notes or TemporaryFile(dir=self._journal.folder)  # noqa: SIM115
            self.notes.write(call.canonical + b"\n")
        except OSError as exc:
            raise StoreFailed(str(unwritable(self._journal.folder, exc))) from exc
        self._noted.add(key)
        raise Pending(address)

    def close(self) -> None:
        if self.notes is not None:
            self.notes.close()
            self.notes = None


class Batches(Addition):
    """Asks some models in batches, and the others live. Batches that are out are always collected;
    a submission without an answer stays uncollected until its fate is known."""

    def __init__(self, work: ExecutionWork, batched: Sequence[str]) -> None:
        models, accounting = work.models, work.models.accounting
        self.journal, self.budget = BatchJournal(work.folder), accounting.budget
        if self.budget is not None and self.budget.tokens:
            raise UsageError(
                "--max-tokens applies to live calls alone: limit batches by --max-cost"
            )
        self.passes = 0
        """Passes of this session in which some call was missing."""
        self._work, self._stop, self._accounting = work, models.stop_token, accounting
        self._begun = False
        self._pause = MIN_POLL
        """Seconds until the next poll."""
        self._endpoints: dict[str, BatchEndpoint] = {}
        """By provider and API, made on first use."""
        self._completed: dict[str, int] = {}
        """By mark of a batch that is out, the number of lines that the vendor has done."""
        self._dearest: dict[str, float] = {}
        """By model, dollars of the most expensive line above its worst case: the minimum to
        reserve for the next one."""
        self._problems: dict[str, tuple[float, str]] = {}
        """By mark or provider, the first loop time (s) and the cause of a problem that lasts."""
        self._others: set[tuple[str, str]] = set()
        """(mark, id) of batches that could have been one of ours, and are not."""
        self._most_out: dict[str, int] = {}
        """By model with a full queue, the number of lines that may be out together."""
        self._full = 0
        """How often in a row a queue had no room."""
        pending = self.journal.pending.values()
        self.asks: dict[str, Outbox] = {}
        for model in dict.fromkeys((*batched, *(batch.model for batch in pending))):
            live = None if model in batched else models.live
            self.asks[model] = Outbox(model, self._endpoint(model), self.journal, live)
        if work.forgives and self.journal.faults:
            self.journal.note(forgiven=len(self.journal.faults))
        # After a kill, the ledger may lack the last completed batches.
        for model, completed in self.journal.completed.items():
            entered = work.entered[model].accounts_added if model in work.entered else 0
            for account in completed[entered:]:
                self._settle(0.0, account.counted, account.unconfirmed)
                accounting.ledger.page(model, accounting.prices.find(model)).add_account(account)
        if self.budget is not None:
            self.budget.held += sum(batch.worst for batch in pending)

    async def close(self) -> None:
        for outbox in self.asks.values():
            outbox.close()
        for endpoint in self._endpoints.values():
            await endpoint.close()

    def counted(self, calls: CacheStatistics) -> CacheStatistics:
        """New replies alone: each pass asks again for replies that earlier ones stored."""
        return replace(calls, asked=calls.new, stored=0, shared=0)

    @property
    def pending(self) -> str:
        out, unknown = self.journal.out, self.journal.uncollected
        parts = [f"{counted(len(out), 'batch', 'batches')} of {_calls(out.values())}"] * bool(out)
        if unknown:
            submissions = counted(len(unknown), "submission")
            parts.append(f"{submissions} of {_calls(unknown.values())} without an answer")
        return " and ".join(parts)

    def lines(self, live: Sequence[str]) -> Sequence[str]:
        waits = [f"waiting: {why}" for why in dict.fromkeys(w for _, w in self._problems.values())]
        if pending := self.pending:
            completed = sum(self._completed.values())
            waits.insert(0, f"pass {self.passes}: {pending}; {completed:,} done there")
        return [*waits, *live]

    def schedule(self, missing: Missing[Work]) -> Schedule[Work, Any]:
        return Passes(missing, self._next_pass)

    async def _next_pass(self) -> bool:
        with self._halting():
            if self._begun:
                # Attempts that ended as Pending leave their conversations in cycles of frames.
                gc.collect()
                self._stop.raise_if_stopped()
                noted = [outbox for outbox in self.asks.values() if outbox.notes is not None]
                self.passes += bool(noted)
                for outbox in noted:
                    await self._submit_all(outbox)
                await self._wait()
            else:
                self._begun = True
                await self._collect()
            for outbox in self.asks.values():
                outbox.reset()
        return self._stop.halt is None

    async def _wait(self) -> None:
        """Wait until something is new, or nothing is out."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.journal.pending:
            self._pause = min(max(POLL_FRACTION * (loop.time() - began), MIN_POLL), MAX_POLL)
            if await self._collect():
                return
            if self._work.settings.no_wait:
                raise Later(f"{self.pending} in flight")
            await self._stop.sleep(self._pause)

    async def end(self) -> None:
        """Cancel what is out, and collect what is paid for. Until a batch has ended, its calls stay
        with it. Batches that may be another user's are left alone."""
        cancelled = set[str]()
        with self._halting():
            while out := self.journal.out:
                for id in out.keys() - cancelled:
                    # The vendor refuses to cancel an ended batch, perhaps by a 409.
                    with suppress(InvalidRequest, ModelNotFound, *INCONCLUSIVE):
                        endpoint = self._endpoint(out[id].model)
                        await endpoint.asked(endpoint.cancel, id)
                        cancelled.add(id)
                if not await self._collect():
                    await self._stop.sleep(MIN_POLL)

    @contextmanager
    def _halting(self) -> Iterator[None]:
        """Stop the run for a fault that ends the work on its batches."""
        try:
            yield
        except RunFolderError as fault:
            self._stop.stop(StoreFailed(str(fault)))
        except OSError as exc:
            self._stop.stop(StoreFailed(str(unwritable(self.journal.folder, exc))))
        except Halt as halt:
            self._stop.stop(halt)

    async def _collect(self) -> bool:
        """Look at each pending batch, and collect those that have ended. True if anything is new:
        replies, or calls that may go out again."""
        news, halt, down = False, None, set[str]()
        for batch in list(self.journal.pending.values()):
            endpoint, id = self._endpoint(batch.model), self.journal.ids.get(batch.mark)
            provider = endpoint.settings.provider
            if provider in down:
                continue
            try:
                step = self._check(endpoint, batch, id) if id else self._look_for(endpoint, batch)
                news = await step or news
                self._problems.pop(batch.mark, None)
                self._problems.pop(provider, None)
            except (Halt, InvalidRequest, *INCONCLUSIVE) as exc:
                self._stop.raise_if_stopped()
                # Other batches are collected before the run stops. A vendor that is down is waited
                # for once, not for each batch.
                halt = halt or self._halt_for(endpoint, batch, exc)
                down |= {provider} if isinstance(exc, TransientError) else set()
        if halt is not None:
            raise halt
        return news

    def _halt_for(self, endpoint: BatchEndpoint, batch: Batch, fault: Exception) -> Halt | None:
        """The Halt for a fault at a batch; None if the batch is looked at again."""
        if (
            isinstance(fault, (InvalidRequest, ModelNotFound))
            and batch.mark in self.journal.pending
        ):
            id = self.journal.ids.get(batch.mark, batch.mark)
            fault = _Short(
                f"{fault}. The vendor has not known the batch {id} for a while: it was submitted "
                "with another key, or another project or address; restore that, and the same "
                "command collects it"
            )
        if not isinstance(fault, _Short):
            return fault if isinstance(fault, Halt) else self._retry(endpoint, batch, fault)
        if self._lasts(batch.mark, str(fault)) < NOT_FOUND_SECONDS:
            return None
        most = f", ${batch.worst:.2f} at most" if batch.worst else ""
        return BatchRefused(
            f"{fault}. Another folder on the same store does not know the batch: there its calls "
            f"are asked again, and may be paid twice{most}"
        )

    def _retry(
        self, endpoint: BatchEndpoint, batch: Batch, fault: Exception, tries: int = 1
    ) -> Halt | None:
        """None, with the next try after `_pause`; or the Halt for a fault that lasts too long."""
        provider, transient = endpoint.settings.provider, isinstance(fault, TransientError)
        try:
            self._pause = max(self._pause, backoff(tries, fault))
        except ProviderDown as halt:
            return halt
        why = str(fault) if isinstance(fault, EngineError) else f"an answer cannot be read: {fault}"
        why = f"{provider}: {' '.join(why.split())[:160]}"
        if self._lasts(provider if transient else batch.mark, why) + self._pause <= GIVE_UP:
            return None
        return ProviderDown(f"no answer for {GIVE_UP / 60:.0f} minutes; last: {fault!r}")

    def _lasts(self, name: str, why: str) -> float:
        """Note a problem; the seconds since it was first noted."""
        now = asyncio.get_running_loop().time()
        since, _ = self._problems.get(name, (now, ""))
        self._problems[name] = since, why
        return now - since

    async def _look_for(self, endpoint: BatchEndpoint, batch: Batch) -> bool:
        """Look for an unanswered submission at the vendor. True if its calls are free again."""
        mark, denied, undecided = batch.mark, f"{batch.mark} denied", False
        for state in await endpoint.asked(endpoint.candidates, batch):
            if state.id in self.journal.ids.values() or (mark, state.id) in self._others:
                continue
            ours = state.mark == mark or await self._is_ours(endpoint, batch, state)
            if ours:
                self.journal.note(submitted=mark, id=state.id)
                self._problems.pop(denied, None)
                return False
            undecided = undecided or ours is None
        why = f"{endpoint.settings.provider}: a denied submission may appear yet"
        settled = mark in self.journal.denied and self._lasts(denied, why) >= SETTLE
        passed = endpoint.now() > batch.at + endpoint.window + CLOCK_SLACK
        if undecided or not (settled or passed):
            return False
        self._problems.pop(denied, None)
        self._free(batch, "it was never made")
        return True

    async def _is_ours(
        self, endpoint: BatchEndpoint, batch: Batch, state: BatchState
    ) -> bool | None:
        """Whether a batch of the account is this one, by the custom ids in its results; None while
        they cannot be read."""
        if not state.ended:
            return None
        with TemporaryFile(dir=self.journal.folder) as file:
            await self._download(endpoint, batch, state, file)
            offsets, others = self._results(endpoint, batch).offsets(file)
        if others:
            self._others.add((batch.mark, state.id))
        return not others if offsets or others else None

    async def _check(self, endpoint: BatchEndpoint, batch: Batch, id: str) -> bool:
        """Look at a batch that is out, and collect it if it has ended. True if it has."""
        state = await endpoint.asked(endpoint.state, id)
        self._completed[batch.mark] = state.completed or 0
        if not state.ended:
            return False
        if state.fault is not None:
            queued = self._lines_out(batch.model)
            self._free(batch, str(state.fault))
            if state.fault.code == QUEUE_FULL:
                return await self._queue_full(batch.model, queued)
            error = state.fault.error()
            if isinstance(error, Halt):
                raise error
            raise BatchRefused(f"{error}; no call of that batch was asked")
        results = self._results(endpoint, batch)
        with TemporaryFile(dir=self.journal.folder) as file:
            await self._download(endpoint, batch, state, file)
            offsets, _ = results.offsets(file)
            needed, count = batch.lines, "no count"
            if state.completed is not None:
                needed = min(needed, state.completed)
                count = f"{state.completed:,} by the vendor's count"
            if len(offsets) < needed:
                raise _Short(
                    f"the batch {id} of {batch.model} has ended ({state.status}), and "
                    f"{len(offsets):,} of its {batch.lines:,} lines can be read ({count}). "
                    "Downloading again brought no more; nothing is asked again. The same command "
                    "looks again"
                )
            await results.store(file, offsets, state.absent, self._work.cache)
        self._enter(results)
        return True

    async def _download(
        self, endpoint: BatchEndpoint, batch: Batch, state: BatchState, into: BinaryIO
    ) -> None:
        for name in state.files:
            if not await endpoint.asked(endpoint.download, name, into, batch.most_bytes):
                log.warning("the results of %s are larger than its calls allow", state.id)

    async def _queue_full(self, model: str, queued: int) -> bool:
        """Halve what may be out. True if nothing of ours is in the queue, after a pause: others
        fill it, or the batch alone was too large."""
        self._most_out[model] = queued // 2
        if self._lines_out(model):
            return False
        self._full += 1
        await self._stop.sleep(backoff(self._full))
        return True

    def _enter(self, results: Results) -> None:
        """Enter a batch, whose replies are stored, into journal and ledger."""
        batch, page, account = results.batch, results.page, results.page.account()
        self._dearest[batch.model] = max(results.dearest, self._dearest.get(batch.model, 0.0))
        faults = {key: [status, body.decode()] for key, (status, body) in results.faults.items()}
        self.journal.note(
            collected=batch.mark, account=to_builtins(account), faults=faults, again=results.again
        )
        self._accounting.ledger.page(batch.model, page.price).add_account(account)
        self._full = 0
        self._settle(batch.worst, account.counted, account.unconfirmed)
        self._completed.pop(batch.mark, None)
        self.journal.delete_files(batch.mark)
        if results.halt is not None:
            raise results.halt

    def _free(self, batch: Batch, why: str) -> None:
        """Enter that no call of a batch was asked."""
        self._completed.pop(batch.mark, None)
        self.journal.cancel(batch, why)
        self._settle(batch.worst, 0.0)

    def _settle(self, worst: float, spent: float, unconfirmed: float = 0.0) -> None:
        """Free the dollars that were held for a batch. spent: its cost in dollars; unconfirmed: the
        part of it that may not have been billed."""
        if self.budget is not None:
            # Reset, since calls would wait for a rounding error to be settled.
            self.budget.held = self.budget.held - worst if self.journal.pending else 0.0
            self.budget.spent += spent
            self.budget.unconfirmed += unconfirmed

    def _endpoint(self, model: str) -> BatchEndpoint:
        settings = self._work.models.directory.settings_of(model)
        name = f"{settings.provider} {settings.api}"
        if name not in self._endpoints:
            endpoint = ENDPOINTS[settings.provider]
            self._endpoints[name] = endpoint(settings, wire_of(settings), self._stop)
        return self._endpoints[name]

    def _results(self, endpoint: BatchEndpoint, batch: Batch) -> Results:
        accounting, model = self._accounting, batch.model
        page = Page(model, price_of(accounting, model))
        origin = f"batch {endpoint.settings.base_url} {self._work.cache.token}".rstrip()
        return Results(batch, endpoint, self.journal, accounting.quarantine, page, origin)

    def _lines_out(self, model: str) -> int:
        return sum(batch.lines for batch in self.journal.out.values() if batch.model == model)

    async def _submit_all(self, outbox: Outbox) -> None:
        """Submit the noted calls, as far as queue and budget have room."""
        assert outbox.notes is not None
        outbox.notes.seek(0)
        while True:
            self._stop.raise_if_stopped()
            room = outbox.endpoint.most_lines
            if (most := self._most_out.get(outbox.model)) is not None:
                # One call always goes into an empty queue.
                room = min(room, max(most, 1) - self._lines_out(outbox.model))
            with TemporaryFile(dir=self.journal.folder) as body:
                batch, size, lacked = self._pack(outbox, outbox.notes, body, room)
                if batch.lines:
                    if self.budget is not None:
                        self.budget.held += batch.worst
                    await self._submit(outbox.endpoint, batch, body, size)
            if lacked and self.budget is not None and not self.journal.pending:
                raise BudgetReached(self.budget.reached(lacked))
            if lacked or not batch.lines:
                return

    def _pack(
        self, outbox: Outbox, notes: BinaryIO, body: BinaryIO, room: int
    ) -> tuple[Batch, int, float]:
        """(the next batch; bytes of its body; dollars that the budget lacks for one more call). The
        calls of the batch are durable, as `packing`, when this returns. OSError."""
        endpoint, price, lacked = outbox.endpoint, price_of(self._accounting, outbox.model), 0.0
        mark, lines, worst, most_bytes = token_hex(8), 0, 0.0, 2**20
        opening, between, closing = endpoint.frame
        batch = Batch(mark, outbox.model, 0, endpoint.now())
        size = body.write(opening)
        with self.journal.file(mark, "packing").open("wb") as packing:
            while lines < room and (noted := notes.readline()):
                call = read_call("", noted.rstrip(b"\n"))
                line = endpoint.line(batch.custom_id(call.address), endpoint.wire.body(call))
                line = between + line if lines else line
                cost = max(worst_case(call, price), self._dearest.get(outbox.model, 0.0))
                if self.budget is not None and not self.budget.fits(worst + cost):
                    lacked = cost
                if lacked or (lines and size + len(line + closing) > endpoint.most_bytes):
                    notes.seek(-len(noted), os.SEEK_CUR)
                    break
                size += body.write(line)
                packing.write(noted)
                lines, worst = lines + 1, worst + cost
                most_bytes += result_bytes(call)
            packing.flush()
            os.fsync(packing.fileno())
        sync_folder(self.journal.folder)
        if not lines:
            self.journal.delete_files(mark)
        size += body.write(closing)
        # A full disk is found here: while the body is sent, it looks like a fault of the vendor.
        body.flush()
        return replace(batch, lines=lines, worst=worst, most_bytes=most_bytes), size, lacked

    async def _submit(
        self, endpoint: BatchEndpoint, batch: Batch, body: BinaryIO, size: int
    ) -> None:
        """Submit a batch. It is uncollected until it is certain whether the vendor made it."""
        tries, uploaded = 0, None
        try:
            while True:
                try:
                    if uploaded is None:
                        uploaded = await endpoint.asked(endpoint.upload, body, size)
                    batch = replace(batch, at=endpoint.now())
                    self.journal.send(batch)
                    id = await self._created(endpoint, batch, body, size, uploaded)
                    self._problems.pop(endpoint.settings.provider, None)
                    return self.journal.note(submitted=batch.mark, id=id)
                except INCONCLUSIVE as exc:
                    if uploaded is not None and not isinstance(exc, (RateLimited, Unreachable)):
                        raise
                    tries, self._pause = tries + 1, 0.0
                    if (halt := self._retry(endpoint, batch, exc, tries)) is not None:
                        raise halt from exc
                    await self._stop.sleep(self._pause)
        except Overloaded:
            self.journal.note(denied=batch.mark)
        except (InvalidRequest, ModelNotFound) as exc:
            self._free(batch, str(exc))
            raise BatchRefused(f"{exc}; no call of {batch.model} went out") from exc
        except INCONCLUSIVE as exc:
            log.warning("a batch may have been made, or not: %r", exc)
        except Halt as halt:
            self._free(batch, str(halt))
            raise

    async def _created(
        self, endpoint: BatchEndpoint, batch: Batch, body: BinaryIO, size: int, uploaded: str
    ) -> str:
        """The id of the batch that is made. After a stop, the vendor has a moment to answer."""
        making = asyncio.create_task(endpoint.sent(endpoint.create, batch, body, size, uploaded))
        try:
            with suppress(Halt):
                await self._stop.until_stopped(asyncio.wait((making,)))
            await asyncio.wait((making,), timeout=LAST_SECONDS)
            if not making.done():
                raise OutcomeUnknown("the run was stopped before the vendor answered")
            return making.result()
        finally:
            if making.cancel():
                await asyncio.wait((making,))


def _calls(batches: Iterable[Batch]) -> str:
    return counted(sum(batch.lines for batch in batches), "call")
