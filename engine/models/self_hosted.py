"""Self-hosted servers: their context, slots and load, asked once each."""

import asyncio
from collections.abc import Callable

from ...cache.call import Call
from ..errors import ContextLengthExceeded
from ..providers.catalogue import entry, provider_of
from ..providers.self_hosted import LocalServer, local_server, server_load
from ..providers.settings import Settings
from ..tokens import prompt_tokens
from .limits.rate_limiter import RateLimiter

LOAD_SECONDS = 1.0
"""Seconds between two queries of the load of a server that does not state its slots."""
SILENT_LOOKS = 10
"""Unanswered queries after which the width is found by trial again."""


class SelfHostedServers:
    """Information by model. Servers of vendors are asked nothing."""

    def __init__(self, reach: Callable[[str], Settings]) -> None:
        """reach: connection settings of a model."""
        self._reach = reach
        self._stated: dict[str, LocalServer] = {}
        self._asking = asyncio.Lock()
        self._watches: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, model: str) -> bool:
        return model in self._stated

    def __getitem__(self, model: str) -> LocalServer:
        return self._stated.get(model, LocalServer())

    async def fetch_info(self, model: str) -> bool:
        """Ask a model's server for context and slots; whether this call asked."""
        if not entry(provider_of(model)).local_api:
            self._stated[model] = LocalServer()
            return False
        async with self._asking:
            if model in self._stated:
                return False
            name = model.removeprefix(f"{provider_of(model)}/")
            self._stated[model] = await local_server(self._reach(model), name)
            return True

    def require_context(self, call: Call) -> None:
        """Raise ContextLengthExceeded for a prompt that the server would silently truncate."""
        context = self[call.model].context
        if not context:
            return
        prompt = round(prompt_tokens(call))
        if prompt + call.max_tokens > context:
            raise ContextLengthExceeded(
                f"{call.model}: about {prompt:,} tokens and a reply of up to "
                f"{call.max_tokens:,} exceed the {context:,} of its server, which would truncate "
                "the prompt; give it more context, or lower words and max_tokens. Nothing was sent."
            )

    def watch(self, model: str, limiter: RateLimiter) -> None:
        """Pass a server's load to the limiter of its model, if its slots are unknown."""
        if limiter.unknown_width and model not in self._watches:
            self._watches[model] = asyncio.create_task(self._watch(model, limiter))

    def close(self) -> None:
        for watch in self._watches.values():
            watch.cancel()

    async def _watch(self, model: str, limiter: RateLimiter) -> None:
        """Query the load until the server states none. If busy, ask again."""
        was_stated, silent = False, 0
        while True:
            await asyncio.sleep(LOAD_SECONDS)
            if not limiter.statistics().in_flight:
                continue
            if (load := await server_load(self._reach(model))) is not None:
                was_stated, silent = True, 0
                limiter.load_stated(load.running, load.waiting)
            elif not was_stated:
                return
            elif (silent := silent + 1) == SILENT_LOOKS:
                limiter.load_unknown()
