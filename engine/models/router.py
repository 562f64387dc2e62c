"""Every model of a sweep behind one `Ask`: finds the client of each call's model."""

import logging
import math
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ...protocols.question import Problem
from ..errors import UsageError
from ..providers.catalogue import entry, provider_of
from ..providers.provider_settings import Api
from ..providers.simulated import PREFIX
from ..stop import StopToken
from ..sweep.document import Document
from ..system.process import left, raise_limit, require_room
from .accounting.ledger import Accounting, Ledger, UsageTotals
from .accounting.prices import PriceList, listed
from .directory import ModelDirectory

if TYPE_CHECKING:
    from ..providers.limit_headers import HeaderLimits
    from ..providers.provider import Provider
    from ..providers.settings import Settings
    from ..throughput import LimitStatistics
    from .accounting.budget import Budget
    from .accounting.quarantine import Quarantine
    from .limits.limits import Limits
    from .limits.rate_limiter import RateLimiter
    from .own_servers import OwnServers
    from .sender import Sender

log = logging.getLogger(__name__)

MIN_CELLS, MAX_CELLS, CELLS_A_SLOT = 256, 8192, 1.05
"""Cells under way at once: at least and at most, and for each call that the models take at once,
since some cells are between two calls."""

FEW_CONNECTIONS = 256
"""A provider that gets fewer than these, and fewer than were set, is named in a warning."""


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """What a run may cost, and where malformed bodies go."""

    prices: PriceList
    max_cost: float | None = None
    """Dollars for the whole run; None for no cap."""
    spent: float = 0.0
    """Dollars that earlier sessions of the run have cost."""
    quarantine: Path | None = None
    """Folder for malformed bodies; None: they are not kept."""
    budget: "Budget | None" = None
    """In place of one of `max_cost`: for a process that spends only a part of it."""
    tokens: bool = False
    """Whether `max_cost` and `spent` count tokens in place of dollars."""

    @classmethod
    def capped(
        cls,
        prices: PriceList,
        cost: float | None,
        tokens: float | None,
        paid: UsageTotals,
        quarantine: Path | None = None,
    ) -> "RunPolicy":
        """The policy of a run with a cap, if any, in dollars or in tokens. paid: by earlier
        sessions; what they may have paid counts towards the cap. UsageError for two caps."""
        if tokens is None:
            return cls(prices, cost, paid.dollars + paid.doubtful, quarantine)
        if cost is not None:
            raise UsageError("--max-cost and --max-tokens: give one of them")
        used = paid.usage.input_tokens + paid.usage.output_tokens
        return cls(prices, tokens, used, quarantine, tokens=True)


class Models(ModelDirectory):
    """The models that a sweep names, as an `Ask`. A provider is opened when it is first asked.

    Once the stop token is set no further call leaves; those on the wire land.
    """

    def __init__(
        self,
        document: Document,
        models: Mapping[str, Mapping[str, Any]],
        providers: Mapping[str, Mapping[str, Any]],
        problems: Iterable[Problem],
        environment: Mapping[str, str],
        stop_token: StopToken,
    ) -> None:
        """models, providers: the sections of the sweep file. environment: variables by name."""
        super().__init__(document, models, providers, problems, environment)
        self.stop_token = stop_token
        self.diverted: dict[str, Ask] = {}
        """By model, the `Ask` that takes its calls in place of its client."""
        self.sharers = 1
        """Processes that share the limits, each an equal part."""
        self.simulating = 0
        """Calls of simulated models in flight."""
        self._clients: dict[str, Sender] = {}
        self._ready: dict[str, Ask] = {}
        """By model, its client, once nothing has to be found out before its calls."""
        self._providers: dict[str, Provider] = {}
        self._accounting = Accounting(Ledger(), listed())
        self._room = left()
        self._sharing = 0

    def settle_for(self, call: Call) -> None:
        """`settle` for calls that a program makes without a sweep: chat completions, until a call
        comes that these do not support."""
        model, known = call.model, self.apis.get(call.model)
        if model.startswith(PREFIX) or known == "responses" or (known and not call.tools):
            return
        self.settle((model,), [(model, call.effort)] if call.tools else ())
        if known and self.apis[model] != known:
            # What is in flight lands where it was sent.
            self._identities.pop(model, None)
            self._clients.pop(model, None)
            self._ready.pop(model, None)

    def prepare(self, roles: Iterable[tuple[str, str]], terms: RunPolicy) -> None:
        """Make the clients of a run; nothing is sent. roles: (model, role) of every model.

        UsageError if a key, a package, or a price that a cap needs is missing.
        """
        real = [(model, role) for model, role in roles if not model.startswith(PREFIX)]
        raise_limit()
        if real:
            from ..providers.keys import require_keys
            from ..providers.trust import require_trust

            require_keys(real, self._environment)
            require_trust([self.settings_of(model) for model, _ in real], self._environment)
            for provider in {provider_of(model) for model, _ in real}:
                if (require := entry(provider).require) is not None:
                    require()
            require_room()
        self._sharing = len({(provider_of(model), self.api(model)) for model, _ in real})
        self._room = left()
        budget = terms.budget
        if terms.max_cost is not None:
            from .accounting.budget import Budget

            budget = Budget(terms.max_cost, terms.spent, tokens=terms.tokens)
        quarantine = None
        if terms.quarantine is not None and real:
            from .accounting.quarantine import Quarantine

            quarantine = Quarantine(terms.quarantine)
        prices = self.priced(terms.prices)
        self._accounting = Accounting(self.ledger, prices, budget, quarantine)
        for model, _ in real:
            self._client(model)

    def answered_by(self, provider: str, who: "Provider") -> None:
        """Have `who` answer for all models of a provider; call it before `prepare`."""
        self._providers[f"{provider} chat"] = who

    def __call__(self, call: Call) -> Awaitable[Reply]:
        """What has been diverted goes there (to batches, say); a model whose servers are known goes
        straight to its client; all else goes through `live`, which finds out about servers first.
        """
        model = call.request.model
        return (self.diverted.get(model) or self._ready.get(model) or self.live)(call)

    async def live(self, call: Call) -> Reply:
        """The reply of the model's own client, whatever is diverted."""
        model = call.model
        if not model.startswith(PREFIX):
            servers = self.servers
            if model not in servers and await servers.inquire(model):
                # Made anew with the limits now known; nothing has gone through it yet.
                self._clients.pop(model, None)
            servers.require_context(call)
            client = self._client(model)
            servers.watch(model, client.limiter)
            if not servers[model].context:
                # None of these checks can come out otherwise for a later call: skip them.
                self._ready[model] = client.ask
            return await client.ask(call)
        self.stop_token.raise_if_stopped()
        self.simulating += 1
        try:
            return await self.simulation_of(call.model)(call)
        finally:
            self.simulating -= 1

    @cached_property
    def servers(self) -> "OwnServers":
        """The user's own servers among those of the models."""
        from .own_servers import OwnServers

        return OwnServers(self._ways)

    @property
    def in_flight(self) -> int:
        """Calls on the wire now, simulated ones included."""
        return self.simulating + sum(each.in_flight for each in self.statistics().values())

    def accounts(self) -> dict[str, UsageTotals]:
        """What was asked of each model, and what came of it; without simulated ones."""
        return self.ledger.accounts()

    @property
    def budget(self) -> "Budget | None":
        """What the run may cost; None without a cap."""
        return self._accounting.budget

    @property
    def prices(self) -> PriceList:
        """What each model is charged at, once it is prepared."""
        return self._accounting.prices

    @property
    def quarantine(self) -> "Quarantine | None":
        """Where malformed bodies are kept; None where they are not."""
        return self._accounting.quarantine

    def limits_of(self, model: str) -> "Limits":
        """Limits known before the first call: the sweep file's, and the slots of a server."""
        from .limits.limits import Limits

        slots = self.servers[model].slots or entry(provider_of(model)).concurrency
        limits = self.limits.get(model, Limits()).filled(Limits(concurrency=slots or None))
        return limits.part(self.sharers)

    def cells_at_once(self, models: Iterable[str]) -> int:
        """How many cells keep all slots of these models busy, as far as their number is known."""
        real = [model for model in models if not model.startswith(PREFIX)]
        widths = (
            self.limits_of(model).concurrency
            or (client.limiter.unknown_width if (client := self._clients.get(model)) else 0)
            for model in real
        )
        return min(max(math.ceil(CELLS_A_SLOT * sum(widths)), MIN_CELLS), MAX_CELLS)

    @property
    def bills(self) -> bool:
        """Whether some model that was prepared may cost money: it is on no server of the user's."""
        return any(not entry(provider_of(model)).own for model in self._clients)

    @property
    def busy(self) -> bool:
        """Whether calls wait for some model, or none of it is asked over the wire."""
        known = self.statistics().values()
        return not known or any(each.waiting or each.in_flight >= each.width for each in known)

    def limiter(self, model: str) -> "RateLimiter":
        """The rate limiter of a model, which is not a simulated one."""
        return self._client(model).limiter

    @property
    def ledger(self) -> Ledger:
        return self._accounting.ledger

    def statistics(self) -> "dict[str, LimitStatistics]":
        """Throughput and bottleneck of each model; without simulated ones."""
        return {model: client.limiter.statistics() for model, client in self._clients.items()}

    def lines(self) -> tuple[str, ...]:
        """`statistics` for the display: one line for each model."""
        if not self._clients:
            return ()
        from ..throughput import clipped

        names = {model: clipped(model) for model in self._clients}
        width = max(map(len, names.values()), default=0)
        return tuple(f"{names[model]:<{width}}  {now}" for model, now in self.statistics().items())

    async def close(self) -> None:
        """Close every connection."""
        if "servers" in vars(self):
            self.servers.close()
        for provider in self._providers.values():
            await provider.close()

    def _ways(self, model: str) -> "tuple[Settings, ...]":
        """How each server of a model is reached."""
        return self.replicas(provider_of(model)) or (self.settings_of(model),)

    def _client(self, model: str) -> "Sender":
        if model not in self._clients:
            # Here and below: a run on simulated models alone does without half of the engine.
            from .sender import Sender

            provider, api = provider_of(model), self.api(model)
            name = f"{provider} {api}"
            if name not in self._providers:
                settings = self._bounded(self.settings(provider, api))
                self._providers[name] = self._connected(settings, api)
            self._clients[model] = Sender(
                model,
                self._providers[name],
                self.limits_of(model),
                self.stop_token,
                self._accounting,
                own=entry(provider).own,
                servers=max(len(self.replicas(provider, api)), 1),
            )
        return self._clients[model]

    def _connected(self, settings: "Settings", api: Api) -> "Provider":
        """The provider; one over several where there are several servers of the user's own."""
        from ..providers.connecting import connect
        from ..providers.replicas import Replica, Replicas

        several = self.replicas(settings.provider, api)
        if not several:
            return connect(settings, self._adopt_limits)
        share = max(settings.connections // len(several), 1)
        each = [replace(one, connections=share) for one in several]
        return Replicas(
            settings,
            [Replica(one.base_url, connect(one, self._adopt_limits)) for one in each],
        )

    def _bounded(self, settings: "Settings") -> "Settings":
        """The settings with no more connections than this process may open files: a reply that no
        file is left to store would be paid for and lost."""
        # Providers that were not announced to `prepare` share what the others have left.
        share = max(self._room // (self._sharing or 2), 1)
        self._sharing = max(self._sharing - 1, 0)
        connections = min(settings.connections, share)
        self._room -= connections
        if connections < min(settings.connections, FEW_CONNECTIONS):
            log.warning(
                "%s gets %d connections at most, since this process may have few files open; "
                "for more: ulimit -n 4096",
                settings.provider,
                connections,
            )
        return replace(settings, connections=connections)

    def _adopt_limits(self, model: str, stated: "HeaderLimits") -> None:
        self._clients[model].adopt_limits(stated, self.sharers)
