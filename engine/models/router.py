"""Every model of a sweep behind one `Ask`: who answers for which name, and how it is held back."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oversight.cache.address import call_address, store_key
from oversight.cache.call import Call, Identity
from oversight.cache.errors import DamagedEntry
from oversight.cache.reply import Reply
from oversight.cache.store import Store
from oversight.engine.accounting.budget import Budget, LeasedBudget
from oversight.engine.accounting.ledger import Ledger, UsageTotals
from oversight.engine.accounting.prices import PriceList, listed
from oversight.engine.accounting.quarantine import Quarantine
from oversight.engine.errors import UsageError
from oversight.engine.limits.lease import Lease
from oversight.engine.limits.limits import Limits
from oversight.engine.limits.rate_limiter import RateLimiter
from oversight.engine.models.client import Accounting, ModelClient
from oversight.engine.providers.catalogue import connect, entry, provider_of
from oversight.engine.providers.keys import require_keys, settings_of
from oversight.engine.providers.limit_headers import HeaderLimits
from oversight.engine.providers.provider import Provider
from oversight.engine.providers.retirements import Retirement, retirement
from oversight.engine.providers.settings import Settings
from oversight.engine.providers.transport import DEADLINE
from oversight.engine.simulation import PRESETS, GroundTruth, SimModel, SimProvider
from oversight.engine.simulation.model import PREFIX
from oversight.engine.stop import StopToken
from oversight.engine.sweeps.document import Document
from oversight.engine.sweeps.fields import filled
from oversight.engine.sweeps.named import naming
from oversight.engine.system.descriptors import left, raise_limit
from oversight.engine.throughput import LimitStatistics
from oversight.protocols.question import Problem

log = logging.getLogger(__name__)

NOTEWORTHY = 256
"""Connections: who has fewer than that, and fewer than was set, is told."""

NAME = 36
"""Characters of a model's name that the display has room for."""

LONGEST = 86_400.0
"""Seconds that one exchange may be given: a day."""

WIDEST = 65_535
"""Connections from one address to another: there are no more ports."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What a sweep file may say of a provider, under `providers`."""

    base_url: str = ""
    """Where it is, if not where the environment says or where it always is."""
    identity: str = ""
    """What its replies are stored under: a server that moves keeps them by keeping its name."""
    account: str = ""
    """A label of the account whose limits are shared under --quota; no part of a key."""
    version: str = ""
    """Of the API, where the provider has versions."""
    deadline: float = DEADLINE
    """Seconds for one exchange, all told."""
    connections: int = 1000
    """The most that are open at one time."""

    def __post_init__(self) -> None:
        for name in ("base_url", "identity", "account", "version"):
            if not getattr(self, name).isprintable():
                raise ValueError(f"{name}: {getattr(self, name)!r} has a character that is no text")
        if not 0 < self.deadline <= LONGEST:
            raise ValueError(f"deadline: {self.deadline:g} is not in (0, {LONGEST:g}] seconds")
        if not 1 <= self.connections <= WIDEST:
            raise ValueError(f"connections: {self.connections} is not between 1 and {WIDEST:,}")


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """What a run may cost, and where what cannot be read goes."""

    prices: PriceList
    max_cost: float | None = None
    """Dollars for the whole run; None for no cap."""
    spent: float = 0.0
    """Dollars that earlier sittings of the run have cost."""
    quarantine: Path | None = None
    """Folder for malformed bodies; None: they are not kept."""
    leased: bool = False
    """Whether several processes share limits and dollars: then nothing leaves before the first
    lease, and a cap means that dollars are leased too."""


class Models:
    """The models that a sweep names. A provider is opened when it is first asked.

    A pulled latch lets no further call out; those on the wire land.
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
        self.stop_token = stop_token
        self._document = document
        self._environment = environment
        self._reach = {
            name: filled(document, ("providers", name), ProviderSettings, given)
            for name, given in providers.items()
        }
        described = {
            name: filled(document, ("models", name), SimModel, given)
            for name, given in models.items()
            if name.startswith(PREFIX)
        }
        self.simulated = {**PRESETS, **described}
        """Every simulated model that may be asked, by name."""
        self.limits = {
            name: filled(document, ("models", name), Limits, given)
            for name, given in models.items()
            if not name.startswith(PREFIX)
        }
        """Those that the sweep file sets, by model."""
        self._sim = SimProvider(GroundTruth(problems), self.simulated)
        self.simulating = 0
        """Calls of simulated models that are under way."""
        self._identities: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self._endpoints: dict[str, ModelClient] = {}
        self._providers: dict[str, Provider] = {}
        self._accounting = Accounting(Ledger(), listed())
        self._room = left()
        self._sharing = 0
        self._leased = False

    def identity(self, call: Call) -> str:
        """What decides a reply beside the call: the vendor and API, or a simulated model with what
        it knows of the question."""
        if call.model.startswith(PREFIX):
            return self._sim.identity(call)
        known = self._identities.get(call.model)
        return known or self._identities.setdefault(call.model, self.model_identity(call.model))

    def identity_in(self, store: Store) -> Identity:
        """The same for the calls of a run on this store.

        A server of the user's goes by its name; but replies that the store holds under its address
        alone, as they were stored at one time, go on answering for it.
        """

        def identity(call: Call) -> str:
            name = self.identity(call)
            before = self._formerly(call.model)
            if before and not _holds(store, call, name) and _holds(store, call, before):
                return before
            return name

        return identity

    def _formerly(self, model: str) -> str:
        if model not in self._before:
            simulated = model.startswith(PREFIX)
            self._before[model] = "" if simulated else self.settings(provider_of(model)).formerly
        return self._before[model]

    def model_identity(self, model: str) -> str:
        """The same of a model, whatever it is asked."""
        if model.startswith(PREFIX):
            return self._sim.model_identity(model)
        return self.settings(provider_of(model)).identity

    def account(self, model: str) -> str:
        """The label of the account that a model is asked with; empty if it has none."""
        return self._reach.get(provider_of(model), ProviderSettings()).account

    def settings(self, provider: str) -> Settings:
        """How a provider is reached: by what the sweep file says, else by the environment.

        UsageError where neither says what is needed; a missing key is for `prepare` to report.
        """
        reach = self._reach.get(provider, ProviderSettings())
        try:
            return settings_of(
                provider,
                self._environment,
                base_url=reach.base_url,
                identity=reach.identity,
                deadline=reach.deadline,
                connections=reach.connections,
                version=reach.version,
            )
        except UsageError as exc:
            raise self._document.fault(naming(self._document, provider), str(exc)) from None

    def retirements(self, models: Iterable[str]) -> list[Retirement]:
        """When the vendors stop serving these, for those that are asked at their vendor's."""
        return [
            told
            for model in models
            if not model.startswith(PREFIX)
            and (told := retirement(model)) is not None
            and self.settings(provider_of(model)).vendors_own
        ]

    def prepare(self, roles: Iterable[tuple[str, str]], terms: RunPolicy) -> None:
        """Get ready to ask, without asking. roles: (model, role) of every model of the sweep.

        UsageError if a key is missing, or a price that a cap needs.
        """
        real = [(model, role) for model, role in roles if not model.startswith(PREFIX)]
        require_keys(real, self._environment)
        raise_limit()
        self._sharing = len({provider_of(model) for model, _ in real})
        self._room = left()
        cap = None if terms.max_cost is None else _budget(terms, terms.max_cost)
        self._leased = terms.leased
        kept = None if terms.quarantine is None else Quarantine(terms.quarantine)
        self._accounting = Accounting(self._accounting.ledger, terms.prices, cap, kept)
        for model, _ in real:
            self._endpoint(model)

    async def __call__(self, call: Call) -> Reply:
        if not call.model.startswith(PREFIX):
            return await self._endpoint(call.model)(call)
        self.stop_token.raise_if_stopped()
        self.simulating += 1
        try:
            return await self._sim(call)
        finally:
            self.simulating -= 1

    @property
    def in_flight(self) -> int:
        """How many calls are on the wire now."""
        return self.simulating + sum(
            endpoint.statistics().in_flight for endpoint in self._endpoints.values()
        )

    def accounts(self) -> dict[str, UsageTotals]:
        """What was asked of each model, and what came of it; simulated ones are not counted."""
        return self._accounting.ledger.accounts()

    @property
    def budget(self) -> Budget | None:
        """What the run may cost; None without a cap."""
        return self._accounting.budget

    def limiter(self, model: str) -> RateLimiter:
        """What holds a model back; it is not simulated."""
        return self._endpoint(model).limiter

    @property
    def ledger(self) -> Ledger:
        return self._accounting.ledger

    def statistics(self) -> dict[str, LimitStatistics]:
        """How fast each model goes just now, and what holds it back; without simulated ones."""
        return {model: endpoint.statistics() for model, endpoint in self._endpoints.items()}

    def lines(self) -> tuple[str, ...]:
        """The same for the display, a line a model."""
        names = {model: clipped(model) for model in self._endpoints}
        width = max(map(len, names.values()), default=0)
        return tuple(f"{names[model]:<{width}}  {now}" for model, now in self.statistics().items())

    async def close(self) -> None:
        """Close every connection."""
        for provider in self._providers.values():
            await provider.close()

    def _endpoint(self, model: str) -> ModelClient:
        if model not in self._endpoints:
            name = provider_of(model)
            if name not in self._providers:
                self._providers[name] = connect(self._bounded(self.settings(name)), self._hear)
            limits = self.limits.get(model, Limits())
            self._endpoints[model] = ModelClient(
                model,
                self._providers[name],
                limits,
                self.stop_token,
                self._accounting,
                own=entry(name).own,
                lease=Lease.none() if self._leased else None,
            )
        return self._endpoints[model]

    def _bounded(self, settings: Settings) -> Settings:
        """With no more connections than open files are left for: a reply that comes when there is
        none to store it with is paid for and lost."""
        # Providers that nobody announced share what those before them have left.
        share = max(self._room // (self._sharing or 2), 1)
        self._sharing = max(self._sharing - 1, 0)
        most = min(settings.connections, share)
        self._room -= most
        if most < min(settings.connections, NOTEWORTHY):
            log.warning(
                "%s gets %d connections at most, since this process may have few files open; "
                "for more: ulimit -n 4096",
                settings.provider,
                most,
            )
        return replace(settings, connections=most)

    def _hear(self, model: str, told: HeaderLimits) -> None:
        self._endpoints[model].hear(told)


def _budget(terms: RunPolicy, cap: float) -> Budget:
    return LeasedBudget() if terms.leased else Budget(cap, terms.spent)


def _holds(store: Store, call: Call, identity: str) -> bool:
    try:
        return store.get(store_key(call_address(call), identity)) is not None
    except DamagedEntry:
        # It is there, and whoever reads it is told what is wrong with it.
        return True


def clipped(name: str) -> str:
    """A model's name, short enough for a line of the display."""
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"
