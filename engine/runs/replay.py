"""Replaying: cells run again from recorded replies alone. No socket is ever opened."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import orjson

from ...cache.cache import EXPLAINED_MISSES, Cache
from ...cache.call import Ask, Call, Identity
from ...cache.errors import ReplayMiss
from ...cache.reply import Reply
from ...cache.store import Reader
from ..stop import StopToken
from ..sweeps.sweep import Cell
from .outcome import line
from .scheduler import CellOutcome, run_cells

REPLAY_LANES = 1
"""Nothing waits in a replay, and one cell after the other meets the same first miss each time."""


async def unreachable(call: Call) -> Reply:
    """The `Ask` behind a replay's cache. The cache raises before it would ask."""
    raise ReplayMiss(call.model, "", "nothing is asked in a replay")


def replay_cache(store: Reader, identity: Identity, *, explained: int = EXPLAINED_MISSES) -> Cache:
    """A cache that answers from `store` alone. explained: as `Cache` has it."""
    return Cache(store, unreachable, identity=identity, mode="replay", explained=explained)


async def replay_cells(
    cells: Iterable[Cell], store: Reader, identity: Identity, keep: Callable[[Cell, bytes], None]
) -> None:
    """Run cells again, and pass the line of each outcome to `keep`.

    ReplayMiss at the first call that was never recorded; StoreFailed at the first record that is
    damaged: a replay of a part must not pass for one of the whole.
    """
    cache = replay_cache(store, identity)

    def kept(cell: Cell, outcome: CellOutcome) -> None:
        keep(cell, line(cell, outcome))

    stop_token = StopToken()
    await run_cells(cells, cache, kept, lanes=REPLAY_LANES, stop_token=stop_token)
    stop_token.raise_if_stopped()


def difference(recorded: bytes, replayed: bytes) -> str:
    """What differs between two lines of one cell, as `probs: [0.2,0.8] recorded, [0.3,0.7] now`;
    empty if nothing does. Its id is of its settings, and says nothing of what came out."""
    then, now = orjson.loads(recorded), orjson.loads(replayed)
    for key in dict.fromkeys((*then, *now)):
        if key != "cell" and then.get(key) != now.get(key):
            shown = (
                f"{orjson.dumps(each[key]).decode():.200}" if key in each else "nothing"
                for each in (then, now)
            )
            return f"{key}: {next(shown)} recorded, {next(shown)} now"
    return ""


@dataclass(slots=True)
class CallRecorder:
    """An `Ask` that records the calls that its inner one answers."""

    inner: Ask
    answered: dict[str, tuple[Call, Reply]] = field(default_factory=dict)
    """Address -> call and reply, in the order of the replies."""

    async def __call__(self, call: Call) -> Reply:
        reply = await self.inner(call)
        self.answered[call.address] = (call, reply)
        return reply
