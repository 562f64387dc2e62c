"""Replaying: cells run again from recorded replies alone. No socket is ever opened."""

from collections.abc import Callable, Iterable
from functools import partial

import orjson

from ...cache.cache import EXPLAINED_MISSES, Cache, TagsOf, no_tags
from ...cache.call import Call, Identity
from ...cache.errors import ReplayMiss
from ...cache.reply import Reply
from ...cache.store import Reader
from ..stop import StopToken
from ..sweep.sweep import Cell
from .lanes import REPLAY_LANES, NotedOutcome, attempt_noted, run_lanes
from .order import Plain
from .outcome import OutcomeRecord


async def unreachable(call: Call) -> Reply:
    """The `Ask` behind a replay's cache. The cache raises before it would ask."""
    raise ReplayMiss(call.model, "", "nothing is asked in a replay")


def replay_cache(
    store: Reader,
    identity: Identity,
    *,
    tags: TagsOf = no_tags,
    explained: int = EXPLAINED_MISSES,
) -> Cache:
    """A cache that answers from `store` alone. tags, explained: as `Cache` has them."""
    return Cache(
        store, unreachable, identity=identity, mode="replay", explained=explained, tags=tags
    )


async def replay_cells(
    cells: Iterable[Cell],
    store: Reader,
    identity: Identity,
    keep: Callable[[Cell, NotedOutcome], None],
    *,
    tags: TagsOf = no_tags,
) -> None:
    """Run cells again, and pass each outcome with its notes to `keep`.

    ReplayMiss at the first call that was never recorded; StoreFailed at the first record that is
    damaged: a replay of a part must not pass for one of the whole.
    """
    stop_token = StopToken()
    attempted = partial(attempt_noted, ask=replay_cache(store, identity, tags=tags))
    await run_lanes(Plain(cells), attempted, keep, lanes=REPLAY_LANES, stop_token=stop_token)
    stop_token.raise_if_stopped()


def difference(recorded: OutcomeRecord, replayed: OutcomeRecord) -> str:
    """What differs between two outcomes of one cell, as `probs: [0.2,0.8] recorded, [0.3,0.7] now`;
    empty if nothing does. Its id is of its settings, and says nothing of what came out."""
    then, now = orjson.loads(recorded.line), orjson.loads(replayed.line)
    for key in dict.fromkeys((*then, *now)):
        if key != "cell" and then.get(key) != now.get(key):
            shown = (
                f"{orjson.dumps(each[key]).decode():.200}" if key in each else "nothing"
                for each in (then, now)
            )
            return f"{key}: {next(shown)} recorded, {next(shown)} now"
    return ""
