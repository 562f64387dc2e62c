"""Several endpoints of one model: calls of a problem go to one of them, and a dead one loses none.

Servers keep the prompts that they have read: calls with one beginning are cheaper together. So a
call goes to the endpoint that its first message chooses, while that has room, by rendezvous hashing
with bounded loads (Thaler and Ravishankar 1998; Mirrokni, Thorup and Zadimoghaddam 2018): no
endpoint has more than `SPREAD` times its part of the calls in flight, and one that fails takes only
its own calls elsewhere.
"""

import asyncio
import hashlib
import logging
import math
from collections.abc import Sequence
from functools import lru_cache

from ...cache.call import Call
from ...cache.reply import Reply
from ..errors import (
    Malformed,
    ModelNotFound,
    OutcomeUnknown,
    Overloaded,
    ProviderDown,
    TransientError,
    Unreachable,
)
from .inquiry import Unanswered, model_names
from .provider import Provider
from .settings import Settings

SPREAD = 1.25
"""Calls in flight at one endpoint, at most, as a multiple of its part of all; and one more."""
FIRST_PROBE, MAX_PROBE = 5.0, 60.0
"""Seconds until an endpoint that failed is tried again; each further failure doubles them."""

log = logging.getLogger(__name__)


class Replica:
    """One endpoint, with its load and health."""

    def __init__(self, url: str, provider: Provider) -> None:
        self.url = url
        self.provider = provider
        self.in_flight = 0
        self.down_until = -math.inf
        """When it may be tried again (loop time, s), after a failure."""
        self._wait = FIRST_PROBE

    def failed(self, fault: Exception, now: float) -> None:
        if now >= self.down_until:
            log.warning("%s fails: %s; tried again in %.0f s", self.url, fault, self._wait)
            self.down_until = now + self._wait
            self._wait = min(2 * self._wait, MAX_PROBE)

    def works(self) -> None:
        self.down_until, self._wait = -math.inf, FIRST_PROBE


class Replicas(Provider):
    """An `Ask` over the endpoints of the user's own servers, which bill nothing.

    A call that fails at one is asked of the next that works; only when none is left is its error
    raised. Whether all serve the model is checked before its first call: ModelNotFound if some do
    not.
    """

    def __init__(self, settings: Settings, replicas: Sequence[Replica]) -> None:
        """settings: of the provider; each replica has the same at its own URL."""
        self._settings = settings
        self.replicas = tuple(replicas)
        self._trusted: set[str] = set()
        self._checked: dict[str, asyncio.Task[None]] = {}

    async def __call__(self, call: Call) -> Reply:
        model = call.request.model
        if model not in self._trusted:
            check = self._checked.get(model)
            if check is None:
                check = self._checked[model] = asyncio.create_task(self._check(model))
            await asyncio.shield(check)
            self.trust(model)
        clock = asyncio.get_running_loop().time
        tried: set[Replica] = set()
        while True:
            replica = self._chosen(call, clock(), tried)
            tried.add(replica)
            replica.in_flight += 1
            try:
                reply = await replica.provider(call)
            except Malformed:
                raise
            except (Unreachable, Overloaded, OutcomeUnknown) as fault:
                replica.failed(fault, clock())
                if len(tried) == len(self.replicas):
                    raise
            else:
                replica.works()
                return reply
            finally:
                replica.in_flight -= 1

    def trust(self, model: str) -> None:
        """Take it that all endpoints serve a model."""
        self._trusted.add(model)

    async def close(self) -> None:
        for check in self._checked.values():
            check.cancel()
        for replica in self.replicas:
            await replica.provider.close()

    def _chosen(self, call: Call, now: float, tried: set[Replica]) -> Replica:
        """The first of the call's order that works and has room; else whichever is least busy."""
        left = [replica for replica in self._order(call) if replica not in tried]
        up = [replica for replica in left if replica.down_until <= now] or left
        load = sum(replica.in_flight for replica in up)
        most = math.ceil(SPREAD * (load + 1) / len(up)) + 1
        for replica in up:
            if replica.in_flight < most:
                return replica
        return min(up, key=lambda replica: replica.in_flight)

    def _order(self, call: Call) -> list[Replica]:
        messages = call.request.messages
        beginning = messages[0].text if messages else ""
        places = _places(beginning, tuple(replica.url for replica in self.replicas))
        return [self.replicas[place] for place in places]

    async def _check(self, model: str) -> None:
        """ModelNotFound where some endpoint serves other models than `model`, and not it."""
        name = model.removeprefix(f"{self._settings.provider}/")
        served = await asyncio.gather(*(self._models(replica) for replica in self.replicas))
        stated = {
            replica.url: ids
            for replica, ids in zip(self.replicas, served, strict=True)
            if ids is not None
        }
        if any(name in ids for ids in stated.values()):
            for url, ids in stated.items():
                if name not in ids:
                    shown = ", ".join(sorted(ids)) or "no model"
                    raise ModelNotFound(
                        f"{self._settings.provider}: {url} serves {shown}, and not {name}, which "
                        "another of its base_urls serves: replies of different models would be "
                        "stored as one's. Take it out of base_urls"
                    )
        elif len(set(stated.values())) > 1:
            told = "; ".join(f"{url}: {', '.join(sorted(ids))}" for url, ids in stated.items())
            raise ModelNotFound(
                f"{self._settings.provider}: its base_urls serve different models ({told}); keep "
                "those of one model"
            )
        if not stated and all(ids is None for ids in served):
            log.warning("%s: no endpoint states its models", self._settings.provider)

    async def _models(self, replica: Replica) -> frozenset[str] | None:
        """The ids that an endpoint serves; None if it does not say, or is down."""
        try:
            return frozenset(await model_names(self._settings, replica.url))
        except Unanswered:
            return None
        except (Unreachable, ProviderDown, TransientError) as fault:
            replica.failed(fault, asyncio.get_running_loop().time())
            return None


@lru_cache(maxsize=4096)
def _places(beginning: str, urls: tuple[str, ...]) -> tuple[int, ...]:
    """The order in which endpoints are tried for a prompt that begins so: by rendezvous hashing."""
    start = hashlib.sha256(beginning.encode(errors="replace")).digest()

    def weight(place: int) -> bytes:
        return hashlib.sha256(start + urls[place].encode()).digest()

    return tuple(sorted(range(len(urls)), key=weight))
