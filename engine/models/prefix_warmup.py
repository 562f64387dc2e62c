"""Prompt cache warm-up: the first call of a prefix goes alone, so that others can reuse it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable

from ...cache.call import Ask, Call
from ...cache.reply import Reply

WARM = 240.0
"""Seconds for which a prefix counts as cached after its last use; vendors keep it for 300."""
KNOWN = 512
"""Maximum number of prefixes remembered."""


class PrefixWarmup:
    """An `Ask` that sends one call of each prefix before its others.

    A prefix can be read from a prompt cache once a reply to it has started. Calls that all start
    together find nothing there, and each pays for writing the prefix. If the first call fails, the
    next one leads.
    """

    def __init__(self, inner: Ask, prefix: Callable[[Call], Hashable]) -> None:
        """prefix: part of a call that the vendor caches; None if it caches none."""
        self._inner = inner
        self._prefix = prefix
        self._used: OrderedDict[Hashable, float] = OrderedDict()
        self._leading: dict[Hashable, asyncio.Event] = {}

    async def __call__(self, call: Call) -> Reply:
        prefix = self._prefix(call)
        if prefix is None:
            return await self._inner(call)
        while not self._is_warm(prefix):
            if prefix not in self._leading:
                return await self._lead(call, prefix)
            await self._leading[prefix].wait()
        self._use(prefix)
        return await self._inner(call)

    async def _lead(self, call: Call, prefix: Hashable) -> Reply:
        completed = self._leading[prefix] = asyncio.Event()
        try:
            reply = await self._inner(call)
            self._use(prefix)
            return reply
        finally:
            del self._leading[prefix]
            completed.set()

    def _is_warm(self, prefix: Hashable) -> bool:
        used = self._used.get(prefix)
        return used is not None and self._now() - used < WARM

    def _use(self, prefix: Hashable) -> None:
        self._used[prefix] = self._now()
        self._used.move_to_end(prefix)
        if len(self._used) > KNOWN:
            self._used.popitem(last=False)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
