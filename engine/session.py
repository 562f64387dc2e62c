"""An `Ask` for Python: real or simulated models behind the durable store, without a sweep."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cache.cached import Cache, Mode
from cache.call import Call
from cache.disk import DiskStore
from cache.reply import Reply
from engine.books.prices import listed
from engine.errors import SweepError
from engine.limits.latch import Latch
from engine.models import Models, Terms
from engine.providers.keys import environment, missing_key
from engine.settings import store_path
from engine.sim.model import PREFIX
from engine.sweeps.document import Document
from engine.sweeps.named import check_names
from protocols.question import Problem


class Asking(Cache):
    """Asks each call as the first draw of a run does, so that the two share their replies."""

    async def __call__(self, call: Call) -> Reply:
        # A reply that is stored under the draw as it stands was paid for, and is not paid again.
        return await super().__call__(call if self.holds(call) else call.drawn(FIRST))


FIRST = 0
"""The draw of a run that draws once."""


@asynccontextmanager
async def asking(
    problems: Iterable[Problem] = (),
    *,
    cache: Mode = "use",
    models: Mapping[str, Mapping[str, Any]] | None = None,
    providers: Mapping[str, Mapping[str, Any]] | None = None,
    max_cost: float | None = None,
    store: Path | None = None,
) -> AsyncIterator[Cache]:
    """An `ask` for as long as the body runs: `async with asking() as ask: reply = await ask(call)`.

    Any model of any provider answers, under its limits, with retries, and is paid once a call:
    replies come from the store that runs use too, and go there. What is in flight at the end of
    the body lands and is saved. Calls are those of the first draw of a run.

    problems: what simulated models are to know the truth about. models, providers: as in a sweep
    file. max_cost: dollars that this may spend. A call raises SweepError where its model needs a
    key that is not set, a Halt once nothing more can be asked for, and what `Cache` raises.
    """
    variables = environment(Path())
    document = Document("Python", "", {}, {})
    check_names(document, models or {}, providers or {})
    answering = Models(
        document,
        models or {},
        providers or {},
        problems,
        variables,
        Latch(),
    )
    answering.prepare((), Terms(listed(), max_cost))

    async def answer(call: Call) -> Reply:
        if not call.model.startswith(PREFIX) and (missing := missing_key(call.model, variables)):
            raise SweepError(
                f"{missing} is not set, and {call.model} needs it: put it in the environment or "
                "in .env"
            )
        return await answering(call)

    replies = DiskStore(store_path(store))
    try:
        ask = Asking(replies, answer, identity=answering.identity_in(replies), mode=cache)
        try:
            yield ask
        finally:
            await ask.close()
            await answering.close()
    finally:
        replies.close()
