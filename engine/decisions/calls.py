"""Which rows of a run rest on which of its calls: found by replaying it from the store."""

from dataclasses import dataclass, field
from pathlib import Path

from oversight.cache.address import call_address, store_key
from oversight.cache.cache import Cache
from oversight.cache.call import Call, Identity
from oversight.cache.errors import ReplayMiss
from oversight.cache.reply import Reply, Usage
from oversight.cache.store import Store
from oversight.engine.runs.loaded_sweep import LoadedSweep
from oversight.engine.runs.replay import replay_cache
from oversight.engine.runs.run_folder import outcomes
from oversight.engine.runs.scheduler import attempt
from oversight.protocols.transcript import Verdict


@dataclass(slots=True)
class PaidCall:
    """A distinct call of a run."""

    model: str
    usage: Usage
    rows: int = 0
    """The rows that rest on it, as bits."""
    judging: bool = False
    """Whether a verdict was read from its reply."""


@dataclass(slots=True)
class RunCalls:
    """Every distinct call that cells ask, by its key in the store."""

    calls: dict[str, PaidCall] = field(default_factory=dict)
    missing: int = 0
    """Cells of which a call is not in the store, with all that they would have asked after it."""

    def shared(self, first: int, second: int, other: "RunCalls | None" = None) -> float | None:
        """Share of the calls of either row that both ask; None where neither asks any. other: the
        calls of the second row's run, if it is another."""
        ours = {key for key, call in self.calls.items() if call.rows >> first & 1}
        theirs = {key for key, call in (other or self).calls.items() if call.rows >> second & 1}
        either = len(ours | theirs)
        return len(ours & theirs) / either if either else None


async def calls_of_run(opened: LoadedSweep, folder: Path, store: Store) -> RunCalls:
    """The calls of all cells of a run folder that have an outcome."""
    sweep = opened.sweep
    numbers = {row.address: n for n, row in enumerate(sweep.rows)}
    done = {record.place for record in outcomes(folder)}
    identity = opened.models.identity_in(store)
    asked = _Asked(replay_cache(store, identity), identity)
    found = RunCalls(asked.seen)
    for cell in sweep.cells():
        if cell.place not in done:
            continue
        asked.row = 1 << numbers[cell.row.address]
        asked.keys.clear()
        try:
            outcome = await attempt(cell, asked)
        except ReplayMiss:
            found.missing += 1
            continue
        if isinstance(outcome, Verdict):
            for judgement in outcome.judgements:
                if key := asked.keys.get(judgement.call):
                    asked.seen[key].judging = True
    return found


class _Asked:
    """An `Ask` that notes what its cache answers, and for which row."""

    def __init__(self, cache: Cache, identity: Identity) -> None:
        self.seen: dict[str, PaidCall] = {}
        self.keys: dict[str, str] = {}
        """Of the cell under way, by address."""
        self.row = 0
        self._cache = cache
        self._identity = identity

    async def __call__(self, call: Call) -> Reply:
        reply = await self._cache(call)
        address = reply.call or call_address(call)
        key = store_key(address, self._identity(call))
        paid = self.seen.get(key)
        if paid is None:
            paid = self.seen[key] = PaidCall(call.model, reply.usage)
        paid.rows |= self.row
        self.keys[address] = key
        return reply
