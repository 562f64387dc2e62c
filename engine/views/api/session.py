"""An `Ask` for Python: real or simulated models behind the durable store, without a sweep."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ....cache.cache import Cache, Mode
from ....cache.call import Call
from ....cache.reply import Reply
from ....protocols.question import Problem
from ...errors import UsageError
from ...models.accounting.ledger import Accounting
from ...models.accounting.prices import listed
from ...models.directory import Directory
from ...models.router import Router
from ...providers.keys import missing_key
from ...providers.settings import environment
from ...providers.simulated import PREFIX
from ...run.settings import open_store, store_name
from ...stop import StopToken
from ...sweep.document import Document
from ...sweep.sweepfile import check_names


class _EndpointChanged(Exception):
    """After a call was looked up, another call has changed the endpoint of its model."""


class Asking(Cache):
    """Asks each call as the first draw of a run, so that the two share their replies."""

    looked_up: dict[str, str]
    """By the address of a call that waits, the identity under which it was looked up."""

    async def __call__(self, call: Call) -> Reply:
        call = call.drawn(0)
        try:
            return await super().__call__(call)
        except _EndpointChanged:
            # An endpoint changes once.
            return await super().__call__(call)
        finally:
            self.looked_up.pop(call.address, None)


@asynccontextmanager
async def asking(
    problems: Iterable[Problem] = (),
    *,
    cache: Mode = "use",
    models: Mapping[str, Mapping[str, Any]] | None = None,
    providers: Mapping[str, Mapping[str, Any]] | None = None,
    max_cost: float | None = None,
    store: Path | str | None = None,
) -> AsyncIterator[Cache]:
    """An `ask` for as long as the body runs: `async with asking() as ask: reply = await ask(call)`.

    Takes models of every provider, under their limits and with retries. Each call is paid for once:
    replies are read from and written to the store that runs use. At the end of the body, calls in
    flight are awaited and saved. Calls are the same as in the first draw of a run.

    problems: those whose answers simulated models know. models, providers: as in a sweep file.
    max_cost: limit in dollars. A call raises UsageError if its model needs a key that is not set,
    a Halt once the models can be asked nothing more, and the errors of `Cache`."""
    variables = environment(Path())
    document = Document("Python", "", {}, {})
    check_names(document, models or {}, providers or {})
    directory = Directory(document, models or {}, providers or {}, problems, variables)
    answering = Router(directory, (), Accounting.capped(listed(), max_cost), StopToken())

    async def answer(call: Call) -> Reply:
        if not call.model.startswith(PREFIX) and (missing := missing_key(call.model, variables)):
            raise UsageError(
                f"{missing} is not set, and {call.model} needs it: put it in the environment or "
                "in .env"
            )
        answering.choose_api(call)
        identity = directory.identity(call)
        if looked_up.get(call.address, identity) != identity:
            raise _EndpointChanged
        return await answering(call)

    replies = open_store(store_name(store))
    looked_up: dict[str, str] = {}

    def identity(call: Call) -> str:
        answering.choose_api(call)
        looked_up[call.address] = directory.identity(call)
        return looked_up[call.address]

    try:
        ask = Asking(replies, answer, identity=identity, mode=cache)
        ask.looked_up = looked_up
        try:
            yield ask
        finally:
            await ask.close()
            await answering.close()
    finally:
        replies.close()
