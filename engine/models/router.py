"""Every model of a sweep behind one `Ask`: who answers for which name, and how it is held back."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from oversight.cache.address import store_key
from oversight.cache.call import Ask, Call, Effort, Identity
from oversight.cache.errors import DamagedEntry
from oversight.cache.reply import Reply
from oversight.cache.store import Reader
from oversight.engine.accounting.budget import Budget, LeasedBudget
from oversight.engine.accounting.ledger import Ledger, UsageTotals
from oversight.engine.accounting.prices import PriceList, listed
from oversight.engine.accounting.quarantine import Quarantine
from oversight.engine.errors import ContextLengthExceeded, UsageError
from oversight.engine.limits.lease import Lease
from oversight.engine.limits.limits import Limits
from oversight.engine.limits.rate_limiter import RateLimiter
from oversight.engine.models.client import Accounting, ModelClient
from oversight.engine.models.sections import (
    ABOUT,
    BATCHED,
    CAPABILITY,
    MEANING,
    batched,
    capability,
    meaning,
    no_batches,
    provider_settings,
)
from oversight.engine.providers.capabilities import Api, Reach, abilities
from oversight.engine.providers.catalogue import connect, entry, provider_of
from oversight.engine.providers.keys import require_keys, settings_of
from oversight.engine.providers.limit_headers import HeaderLimits
from oversight.engine.providers.local_server import LocalServer, local_server
from oversight.engine.providers.provider import Provider
from oversight.engine.providers.provider_settings import ProviderSettings
from oversight.engine.providers.retirements import Retirement, retirement
from oversight.engine.providers.settings import Settings
from oversight.engine.simulation import PRESETS, GroundTruth, SimModel, SimProvider
from oversight.engine.simulation.model import PREFIX
from oversight.engine.stop import StopToken
from oversight.engine.sweeps.document import Document
from oversight.engine.sweeps.fields import filled
from oversight.engine.sweeps.named import naming
from oversight.engine.sweeps.node import Node
from oversight.engine.system.descriptors import left, raise_limit, require_room
from oversight.engine.throughput import LimitStatistics, clipped
from oversight.engine.tokens import prompt_tokens
from oversight.protocols.question import Problem

log = logging.getLogger(__name__)

NOTEWORTHY = 256
"""Connections: who has fewer than that, and fewer than was set, is told."""


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
            name: provider_settings(Node(document, ("providers", name), given))
            for name, given in providers.items()
        }
        self._is = {
            name: meaning(Node(document, ("models", name, MEANING), given[MEANING]))
            for name, given in models.items()
            if MEANING in given and not name.startswith(PREFIX)
        }
        self._batched = {
            name: batched(Node(document, ("models", name, BATCHED), given[BATCHED]))
            for name, given in models.items()
            if BATCHED in given and not name.startswith(PREFIX)
        }
        self.diverted: dict[str, Ask] = {}
        """By model, who takes its calls in place of its endpoint."""
        self.servers: dict[str, LocalServer] = {}
        """By model, what its server said of itself; those that are here are not asked again."""
        self._inquiring = asyncio.Lock()
        self.apis: dict[str, Api] = {}
        """By model, which of OpenAI's endpoints answers for it; for those that have two."""
        about = {name: Node(document, ("models", name), given) for name, given in models.items()}
        found = {name: capability(about[name], given) for name, given in models.items()}
        self.capability = {name: told for name, told in found.items() if told is not None}
        """Those that the sweep file tells, by model."""
        # MEANING is no setting of a simulated model, and is refused there.
        described = {
            name: filled(about[name].replaced(settings), SimModel)
            for name, given in models.items()
            if name.startswith(PREFIX)
            # A preset that is only given a capability is the preset.
            if (settings := {k: v for k, v in given.items() if k not in CAPABILITY})
            or name not in PRESETS
        }
        self.simulated = {**PRESETS, **described}
        """Every simulated model that may be asked, by name."""
        self.limits = {
            name: filled(
                about[name].replaced({k: v for k, v in given.items() if k not in ABOUT}), Limits
            )
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

    def identity_in(self, store: Reader) -> Identity:
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
            self._before[model] = "" if simulated else self.settings_of(model).formerly
        return self._before[model]

    def model_identity(self, model: str) -> str:
        """The same of a model, whatever it is asked."""
        if model.startswith(PREFIX):
            return self._sim.model_identity(model)
        return self.settings_of(model).identity

    def account(self, model: str) -> str:
        """The label of the account that a model is asked with; empty if it has none."""
        return self._reach.get(provider_of(model), ProviderSettings()).account

    def settle(self, models: Iterable[str], tools: Iterable[tuple[str, Effort]]) -> None:
        """Decide which of OpenAI's endpoints answers for each model, before any is asked.

        tools: (model, effort) of every role that is given tools. Chat completions, where nobody
        says otherwise and the model takes there what it is to be asked.
        """
        uses = {*tools}
        for model in models:
            if model.startswith(PREFIX) or not entry(provider_of(model)).has_responses:
                continue
            chosen = self._reach.get(provider_of(model), ProviderSettings()).api
            if chosen == "auto":
                able = abilities(self._is.get(model, model))
                chosen = "chat"
                if any(m == model and effort not in able.chat_tools_need for m, effort in uses):
                    chosen = "responses"
            self.apis[model] = chosen

    def api(self, model: str) -> Api:
        """Which of OpenAI's endpoints answers for a model; chat completions at all others."""
        if known := self.apis.get(model):
            return known
        chosen = self._reach.get(provider_of(model), ProviderSettings()).api
        return "chat" if chosen == "auto" else chosen

    def reach(self, model: str) -> Reach:
        """How a model is asked, as far as that decides what it takes."""
        provider = provider_of(model)
        told = self._reach.get(provider, ProviderSettings())
        version = told.version if entry(provider).dated else ""
        return Reach(self.api(model), version, self._is.get(model, ""))

    def priced(self, prices: PriceList) -> PriceList:
        """Prices under the names that the sweep file has for models, too."""
        return prices.named(self._is)

    def settle_for(self, call: Call) -> None:
        """The same as `settle`, where no sweep says what will be asked: chat completions, until a
        call comes that they do not take."""
        model, known = call.model, self.apis.get(call.model)
        if model.startswith(PREFIX) or known == "responses" or (known and not call.tools):
            return
        self.settle((model,), [(model, call.effort)] if call.tools else ())
        if known and self.apis[model] != known:
            # What is in flight lands where it was sent.
            self._identities.pop(model, None)
            self._endpoints.pop(model, None)

    def settings_of(self, model: str) -> Settings:
        """How the provider of a model is reached, at the endpoint that answers for it."""
        return self.settings(provider_of(model), self.api(model))

    def settings(self, provider: str, api: Api = "chat") -> Settings:
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
                api=api,
                models=tuple(
                    (name, is_) for name, is_ in self._is.items() if provider_of(name) == provider
                ),
                routing=orjson.dumps(reach.routing()).decode() if entry(provider).routes else "",
            )
        except UsageError as exc:
            raise self._document.fault(naming(self._document, provider), str(exc)) from None

    def batched(self, models: Iterable[str], every: bool) -> tuple[str, ...]:
        """Those of the models whose calls go in batches.

        every: whether all do of which the sweep file says nothing; UsageError for one that cannot.
        """
        found = []
        for model in models:
            if model.startswith(PREFIX) or not self._batched.get(model, every):
                continue
            if not entry(provider_of(model)).batches:
                name = f"models.{model}.{BATCHED}: false"
                raise UsageError(f"{no_batches(model)}; to ask it live: {name} in the sweep file")
            found.append(model)
        return tuple(found)

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

        UsageError if a key is missing, a package, or a price that a cap needs.
        """
        real = [(model, role) for model, role in roles if not model.startswith(PREFIX)]
        require_keys(real, self._environment)
        for provider in {provider_of(model) for model, _ in real}:
            if (require := entry(provider).require) is not None:
                require()
        raise_limit()
        if real:
            require_room()
        self._sharing = len({(provider_of(model), self.api(model)) for model, _ in real})
        self._room = left()
        cap = None if terms.max_cost is None else _budget(terms, terms.max_cost)
        self._leased = terms.leased
        kept = None if terms.quarantine is None else Quarantine(terms.quarantine)
        prices = self.priced(terms.prices)
        self._accounting = Accounting(self._accounting.ledger, prices, cap, kept)
        for model, _ in real:
            self._endpoint(model)

    def answered_by(self, provider: str, who: Provider) -> None:
        """Have `who` answer for all models of a provider; to be said before `prepare`."""
        self._providers[f"{provider} chat"] = who

    async def inquire(self, model: str) -> None:
        """Ask a server of the user's, once, how long a call may be and how many it serves at once.

        Where the sweep file sets no concurrency, it is as many as the server has places. A server
        that says nothing is found out as it answers.
        """
        if not entry(provider_of(model)).local_api:
            self.servers[model] = LocalServer()
            return
        async with self._inquiring:
            if model in self.servers:
                return
            name = model.removeprefix(f"{provider_of(model)}/")
            self.servers[model] = await local_server(self.settings_of(model), name)
            # It is made anew, with the limits that are known now; nothing has gone through it yet.
            self._endpoints.pop(model, None)

    def _require_room(self, call: Call) -> None:
        """ContextLengthExceeded for a call whose prompt its server would cut in silence."""
        room = self.servers.get(call.model, LocalServer()).context
        if not room:
            return
        prompt = round(prompt_tokens(call))
        if prompt + call.max_tokens > room:
            raise ContextLengthExceeded(
                f"{call.model}: about {prompt:,} tokens and a reply of up to "
                f"{call.max_tokens:,} do not fit into the {room:,} that its server gives to one "
                "call, and it would cut the prompt; give it more context, or lower words and "
                "max_tokens. Nothing was sent."
            )

    async def __call__(self, call: Call) -> Reply:
        return await self.diverted.get(call.model, self.live)(call)

    async def live(self, call: Call) -> Reply:
        """The reply of a call's own endpoint, asked now."""
        if not call.model.startswith(PREFIX):
            if call.model not in self.servers:
                await self.inquire(call.model)
            self._require_room(call)
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

    @property
    def quarantine(self) -> Quarantine | None:
        """Where bodies go that are no replies; None where they are not kept."""
        return self._accounting.quarantine

    def limits_of(self, model: str) -> Limits:
        """Those that are known before the first call: the sweep file's, and a server's places."""
        places = (
            self.servers.get(model, LocalServer()).slots or entry(provider_of(model)).concurrency
        )
        return self.limits.get(model, Limits()).filled(Limits(concurrency=places or None))

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
            provider, api = provider_of(model), self.api(model)
            name = f"{provider} {api}"
            if name not in self._providers:
                settings = self._bounded(self.settings(provider, api))
                self._providers[name] = connect(settings, self._hear)
            self._endpoints[model] = ModelClient(
                model,
                self._providers[name],
                self.limits_of(model),
                self.stop_token,
                self._accounting,
                own=entry(provider).own,
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


def _holds(store: Reader, call: Call, identity: str) -> bool:
    try:
        return store.get(store_key(call.address, identity)) is not None
    except DamagedEntry:
        # It is there, and whoever reads it is told what is wrong with it.
        return True
