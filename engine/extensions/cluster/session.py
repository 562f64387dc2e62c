"""The driver of a run on several processes: it deals out cells to workers, which are actors of Ray,
and writes the run."""

import asyncio
import logging
import os
import pickle
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field, replace
from operator import attrgetter
from typing import Any
from uuid import uuid4

from ....cache.cache import CacheStatistics
from ....cache.errors import install_command
from ....protocols.transcript import Failure
from ...errors import BudgetReached, Halt, RunFolderError, StoreFailed, UsageError
from ...models.accounting.budget import Budget
from ...models.accounting.ledger import UsageTotals, sum_usage
from ...run.events import MIXED, MixedReplies, add_event
from ...run.execution import RunSession
from ...run.failures import CRASH, first_fault
from ...run.record.values import RecordedCell
from ...run.run import Run
from ...run.run_folder import QUARANTINE
from ...run.schedule import Schedule
from ...run.settings import store_name
from ...run.worker import (
    EVERY,
    LIVES,
    Answer,
    CellWorker,
    Deal,
    Ended,
    Hand,
    Reached,
    Standing,
    Turn,
    code_of,
)
from ...sweep.code import CodeFile, code_files
from ...sweep.sweep import Cell

try:
    import ray
    from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayTaskError
except ImportError as exc:
    raise UsageError(f"several workers need Ray: {install_command('ray')}") from exc

PLACE = 60.0
"""Seconds in which the cluster must start a worker; then the run goes on without it."""
PAUSE, MAX_PAUSE = 0.25, 8.0
"""Seconds before a worker that cannot be reached is asked again. They double up to the last."""
OBJECTS = 2**27
"""Bytes of shared memory for Ray's objects, of which a run has few."""

log = logging.getLogger(__name__)


class NoWorkers(Halt):
    """Every worker is lost, and the cluster starts no other one."""


class Worker:
    def __init__(self, code: tuple[CodeFile, ...], setup: bytes) -> None:
        self._worker = CellWorker(code, setup)

    async def node(self) -> str:
        """The id of its node, which is a machine of the cluster."""
        return str(ray.get_runtime_context().get_node_id())

    async def open(self, node: str) -> Standing:
        return await self._worker.open(node)

    async def turn(self, turn: Turn) -> Answer:
        return await self._worker.turn(turn)


@dataclass(eq=False, kw_only=True)
class Member(Hand):
    actor: Any
    node: str
    life: str = field(default_factory=lambda: uuid4().hex)
    turns: int = 0
    received: int = 0
    """Events that have arrived."""
    stood: float = 0.0
    """Loop time (s) of the last turn that asked for its state."""


class RaySession(RunSession):
    """The cells of a run on Ray's actors, each of which has an equal part of every limit.

    A lost worker loses its calls in flight: other workers ask them again. Its part of the limits
    stays unused if it cannot be replaced."""

    holds_back = False  # a worker takes the cells of a problem in their order

    def __init__(self, run: Run, before: Mapping[str, UsageTotals], workers: int) -> None:
        """UsageError for a sweep that no other process can make."""
        super().__init__(run, before)
        loaded, accounting, settings = run.loaded, run.accounting(before), run.settings
        self._address = address = settings.ray
        self._budget = cap = accounting.budget
        self._dollars = None if cap is None else cap.cap - cap.spent
        # A folder is named as it is from here.
        settings = replace(settings, store=store_name(settings.store))
        quarantine = None if address else run.folder.path / QUARANTINE
        reached = Reached.here(loaded.models, loaded.sweep.models)
        ours = settings, run.folder.manifest.id, accounting, quarantine, workers
        try:
            self._packed = pickle.dumps((loaded.file, code_of(loaded.sweep), reached, *ours))
        except (AttributeError, ModuleNotFoundError, pickle.PicklingError, TypeError) as exc:
            raise UsageError(
                f"a worker cannot make this sweep: {exc}. With several workers, your protocols "
                "and settings must lie in a module that can be imported"
            ) from exc
        self._members: list[Member] = []
        self._actors: list[Any] = []
        self._standings: dict[str, Standing] = {}
        """The last one of each life."""
        self._reach: dict[str, float] = {}
        """Dollars that each life may have spent at most; the dead keep theirs."""
        self._serving = self._awaited = workers
        """Workers that are not given up; and those that must open before the first cell."""
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._stack = ExitStack()

    async def run(self) -> Halt | None:
        # Ray prints to stderr: stdout is for the result, which comes later.
        sys.stdout.flush()
        self._stack.callback(os.close, stdout := os.dup(1))
        self._stack.callback(os.dup2, stdout, 1)
        self._stack.callback(sys.stdout.flush)
        os.dup2(2, 1)
        # In another thread: Ray would replace our handlers of signals.
        await asyncio.to_thread(self._connect)
        self._stop_token.listen(self._stopped)
        return await super().run()

    async def close(self) -> None:
        for actor in self._actors:
            ray.kill(actor)
        await asyncio.to_thread(ray.shutdown)
        self._stack.close()
        await super().close()

    @property
    def statistics(self) -> CacheStatistics:
        every = [astuple(standing.calls) for standing in self._standings.values()]
        return CacheStatistics(*map(sum, zip((0, 0, 0, 0, 0), *every, strict=True)))

    def accounts(self) -> dict[str, UsageTotals]:
        # Calls of lost workers stay in flight until the ledger closes: they may have been billed.
        every: dict[str, list[UsageTotals]] = {}
        for standing in self._standings.values():
            for model, account in standing.accounts.items():
                every.setdefault(model, []).append(account)
        return {model: sum_usage(accounts) for model, accounts in every.items()}

    @property
    def in_flight(self) -> int:
        return sum(standing.in_flight for standing in self._alive())

    def lines(self) -> tuple[str, ...]:
        every = enumerate(self._alive(), 1)
        return tuple(f"worker {n}  {line}" for n, standing in every for line in standing.lines)

    def _alive(self) -> list[Standing]:
        return [self._standings[member.life] for member in self._members]

    def _connect(self) -> None:
        # Ray reports usage statistics to its vendor unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {"num_cpus": self._serving, "object_store_memory": OBJECTS}
        try:
            ray.init(
                self._address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=None if self._address else False,
                **({} if self._address else local),
            )
        except (ConnectionError, ValueError, RuntimeError) as exc:
            raise UsageError(f"--ray {self._address}: {exc}") from exc
        if self._address:
            free = int(ray.available_resources().get("CPU", 0))
            self._awaited = max(min(self._serving, free), 1)

    async def work(self, schedule: Schedule[Cell, RecordedCell]) -> None:
        self._deal = Deal(schedule, self._run.loaded.sweep, self._ended, self._serving)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._serving):
                    group.create_task(self._serve())
        except BaseExceptionGroup as faults:
            raise first_fault(faults) from None

    def _stopped(self) -> None:
        self._ready.set()
        if not self._members:
            self._over.set()

    async def _serve(self) -> None:
        """Keep one worker at work, and replace it when it dies, until the run is over."""
        why = f"the cluster started no worker within {PLACE:.0f} s"
        while self._stop_token.halt is None and not self._over.is_set():
            try:
                member = await self._opened()
            except UsageError as fault:
                if not self._ready.is_set():
                    raise
                member, why = None, str(fault)
            self._awaited -= 1
            if self._awaited <= 0:
                self._ready.set()
            if member is None:
                break
            await self._ready.wait()
            try:
                return await self._turns(member)
            except RayActorError as fault:
                await self._lose(member, fault)
        if self._stop_token.halt is None and not self._over.is_set():
            self._serving -= 1
            log.warning("%s: the run goes on with %d workers", why, self._serving)
            if not self._serving:
                self._stop_token.stop(NoWorkers(f"no worker is left: {why}"))

    async def _opened(self) -> Member | None:
        """A new worker; None if the cluster starts none in time, or the run is over before."""
        loop, pause = asyncio.get_running_loop(), PAUSE
        until, over = loop.time() + PLACE, asyncio.ensure_future(self._over.wait())
        kind = ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD")
        try:
            while (seconds := until - loop.time()) > 0:
                actor = kind.remote(code_files(), self._packed)
                self._actors.append(actor)
                node = asyncio.wrap_future(actor.node.remote().future())
                first = asyncio.FIRST_COMPLETED
                await asyncio.wait((node, over), timeout=seconds, return_when=first)
                if not node.done():
                    node.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
                    ray.kill(actor)
                    break
                try:
                    member = Member(actor=actor, node=await node)
                    nodes = await asyncio.to_thread(ray.nodes)
                    label = "{NodeManagerAddress} ({NodeManagerHostname})"
                    names = {machine["NodeID"]: label.format_map(machine) for machine in nodes}
                    name = names.get(member.node, member.node)
                    self._told(member, await actor.open.remote(f"node {name}"))
                except RayTaskError as fault:
                    raise fault.cause from None
                except RayActorError as fault:
                    log.info("a worker ended before it began: %s", fault)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, MAX_PAUSE)
                else:
                    self._members.append(member)
                    self._deal.join(member)
                    return member
            return None
        finally:
            over.cancel()

    async def _turns(self, member: Member) -> None:
        """Take turns with a worker until the run is over."""
        loop, deal = asyncio.get_running_loop(), self._deal
        while True:
            halt = self._stop_token.halt
            cells = await deal.take(member) if halt is None else []
            if deal.finished or (halt is not None and deal.idle):
                self._over.set()
            dollars, stand = None, loop.time() >= member.stood + EVERY
            if stand:
                member.stood, dollars = loop.time(), self._dollars_for(member)
            granted, member.granted = (*member.granted,), []
            member.turns += 1
            last = self._over.is_set()
            places = tuple((cell.place, deal.is_shared(cell)) for cell in cells)
            now = member.turns, member.received, places, granted, stand, dollars, halt, last
            answer = await self._answer(member, Turn(*now))
            if answer.standing is not None:
                if dollars is not None:
                    used = answer.standing.spent + answer.standing.reserved
                    self._reach[member.life] = max(dollars, used)
                self._told(member, answer.standing)
                self._stop_at_the_cap()
            await self._take(member, answer)
            if last:
                return

    async def _answer(self, member: Member, turn: Turn) -> Answer:
        """The answer to a turn; it is repeated while the worker cannot be reached. RayActorError
        once the worker is lost."""
        pause = PAUSE
        while True:
            try:
                answer: Answer = await member.actor.turn.remote(turn)
                return answer
            except RayTaskError as fault:
                raise fault.cause from None
            except ActorUnavailableError:
                if pause > MAX_PAUSE:
                    raise
                await asyncio.sleep(pause)
                pause *= 2

    async def _take(self, member: Member, answer: Answer) -> None:
        """Keep the cells that ended, and pass on claims."""
        member.received += len(answer.events)
        landed = []
        for event in answer.events:
            if isinstance(event, Ended):
                self._ended[event.place] = event.result is not None
                self._deal.record_result(member, event.place, event.result)
                landed += [event.result] if event.result is not None else []
            elif event.over:
                self._deal.release(member, event.call, event.paid)
            else:
                self._deal.claim(member, event.call)
        try:
            self._run.folder.group.put(*landed)
            await self._run.folder.group.room()
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))

    async def _lose(self, member: Member, fault: RayActorError) -> None:
        """Give the cells of a lost worker to others; one that ended several workers has failed."""
        self._members.remove(member)
        ray.kill(member.actor)
        alive = {node["NodeID"] for node in await asyncio.to_thread(ray.nodes) if node["Alive"]}
        by_itself = isinstance(fault, ActorDiedError) and member.node in alive
        how = "ended" if by_itself else "was lost with its machine"
        log.warning("a worker %s: its calls in flight are asked again", how)
        if (guilty := self._deal.lose(member, by_itself=by_itself)) is not None:
            why = f"its code ended {LIVES} workers; on the last one it was alone"
            failed = self._capture.cell(guilty, Failure(CRASH, why))
            self.keep(guilty, failed)
            self._deal.record_result(member, guilty.place, failed)

    def _told(self, member: Member, standing: Standing) -> None:
        last = self._standings.get(member.life)
        self._standings[member.life], member.room = standing, standing.room
        for provider, calls in standing.mixed[len(last.mixed) if last else 0 :]:
            # The next run asks for them again: by then every worker has forgotten them.
            add_event(self._run.folder.path, MIXED, MixedReplies(provider, calls))
        if standing.halt is not None:
            self._stop_token.stop(standing.halt)

    def _dollars_for(self, member: Member) -> float | None:
        """Total that a worker may spend: its spending, and an equal part of the rest of the cap.
        Where calls lack room, only the worker of the cheapest one gets more: the others give back
        their unused part. Until a worker states its spending again, its old limit counts too."""
        if self._dollars is None:
            return None
        standing = self._standings[member.life]
        used = standing.spent + standing.reserved
        elsewhere = sum(reach for life, reach in self._reach.items() if life != member.life)
        dollars = max(self._dollars - used - elsewhere, 0.0)
        lacking = [other for other in self._alive() if other.wants]
        if not lacking:
            more = dollars / len(self._members)
        elif standing is min(lacking, key=attrgetter("wants")):
            more = min(standing.wants, dollars)
        else:
            more = 0.0
        self._reach[member.life] = max(used + more, self._reach.get(member.life, 0.0))
        return used + more

    def _stop_at_the_cap(self) -> None:
        """Stop where a call does not fit that no other in flight can make room for."""
        alive, budget = self._alive(), self._budget
        wants = min((standing.wants for standing in alive if standing.wants), default=0.0)
        if budget is None or not wants or any(standing.reserved for standing in alive):
            return
        dead = self._reach.keys() - {member.life for member in self._members}
        lost = sum(self._reach[life] for life in dead)
        spent = budget.spent + lost + sum(standing.spent for standing in alive)
        if spent + wants > budget.cap:
            open_calls = sum(standing.unconfirmed for standing in alive)
            unconfirmed = budget.unconfirmed + lost + open_calls
            used = Budget(budget.cap, spent, unconfirmed, tokens=budget.tokens)
            self._stop_token.stop(BudgetReached(used.reached(wants)))
