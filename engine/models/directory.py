"""The directory of a sweep's models: settings, endpoint and identity of each."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...cache.call import Call, Effort
from ...protocols.question import Problem
from ..errors import UsageError
from ..providers.catalogue import entry, provider_names, provider_of
from ..providers.settings import (
    CONNECTIONS,
    OWN_CONNECTIONS,
    WIDEST,
    Api,
    ProviderSettings,
    Settings,
)
from ..providers.simulated import PREFIX, SimulatedModel, SimulatedModels, simulation
from ..sweep.document import Document, Key, Node, checked_value, filled
from ..sweep.sweepfile import naming
from .accounting.prices import PriceList

if TYPE_CHECKING:
    from ...cache.reasoning import Tags
    from ..providers.capabilities import Endpoint, Retirement
    from .limits.buckets import Limits

MEANING = "is"
"""Setting: the underlying model of a user's name for it."""

DEFERRED = "batch"
"""Setting: whether a model's calls are deferred: half the price, replies within a day."""

THINKING = "thinking_tags"
"""Setting: the opening and closing tags of a model's reasoning within its replies."""

ABOUT = (MEANING, DEFERRED, THINKING)
"""Settings of a model other than limits and the parameters of a simulated model."""


MIN_CELLS, MAX_CELLS, CELLS_A_SLOT = 256, 8192, 1.05
"""Cells running at once: minimum, maximum, and number per call that the models take at once, since
some cells are between two calls."""


class Directory:
    """The models of a sweep, with their settings from the sweep file and the environment.

    Opens no provider and sends nothing; `Router` does."""

    def __init__(
        self,
        document: Document,
        models: Mapping[str, Mapping[str, Any]],
        providers: Mapping[str, Mapping[str, Any]],
        problems: Iterable[Problem],
        environment: Mapping[str, str],
    ) -> None:
        """models, providers: sections of the sweep file. environment: variables by name."""
        self._document = document
        self._environment = environment
        self._provider_settings = {
            name: provider_settings(Node(document, ("providers", name), values))
            for name, values in providers.items()
        }
        sections = {
            name: Node(document, ("models", name), values) for name, values in models.items()
        }
        real = {name: values for name, values in models.items() if not name.startswith(PREFIX)}

        def read_all(setting: str, read: Callable[[Node], Any]) -> dict[str, Any]:
            return {
                name: read(sections[name].child(setting, values[setting]))
                for name, values in real.items()
                if setting in values
            }

        self._is: dict[str, str] = read_all(MEANING, meaning)
        self._deferred: dict[str, bool] = read_all(DEFERRED, deferred)
        self.tags = read_all(THINKING, thinking_tags).get
        """By model, its reasoning tags from the sweep file."""
        self.apis: dict[str, Api] = {}
        """By model, which of OpenAI's endpoints is used, where a provider has both."""
        self.simulated: dict[str, SimulatedModel] = {}
        """Every available simulated model, by name."""
        self._sim: SimulatedModels | None = None
        if simulated := simulation():
            # MEANING does not apply to a simulated model, and is refused there.
            described = {
                name: filled(sections[name], simulated.kind)
                for name, values in models.items()
                if name.startswith(PREFIX)
                if values or name not in simulated.presets
            }
            self.simulated = {**simulated.presets, **described}
            self._sim = simulated.models(problems, self.simulated)
        self.limits: dict[str, Limits] = {}
        """Limits from the sweep file, by model."""
        for name, values in real.items():
            rates = {setting: value for setting, value in values.items() if setting not in ABOUT}
            self.limits[name] = _limits(sections[name].replaced(rates))
        self.tiers: Mapping[str, Collection[str]] = {}
        """By model, the service tiers that roles of the sweep use."""
        self._identities: dict[str, str] = {}
        self._origins: dict[str, str] = {}

    def identity(self, call: Call) -> str:
        """Everything other than the call that a reply depends on: the vendor and its API, or a
        simulated model and its knowledge of the question."""
        model = call.request.model
        if identity := self._identities.get(model):
            return identity
        if model.startswith(PREFIX):
            return (self._sim or self.simulation_of(model)).identity(call)
        return self._identities.setdefault(model, self.model_identity(model))

    def model_identity(self, model: str) -> str:
        """The part of `identity` that all calls of a model have in common."""
        if model.startswith(PREFIX):
            return self.simulation_of(model).model_identity(model)
        return self.settings_of(model).identity

    def simulation_of(self, model: str) -> SimulatedModels:
        """The `Ask` of a simulated model. UsageError if no simulation is registered."""
        if self._sim is None:
            raise UsageError(f"{model}: no simulated models are installed")
        return self._sim

    def origin(self, call: Call) -> str:
        """Origin of a live reply to a call; see `Reply.origin`. Empty for a simulated model."""
        model = call.request.model
        origin = self._origins.get(model)
        if origin is None:
            simulated = model.startswith(PREFIX)
            origin = "" if simulated else f"live {self.settings_of(model).base_url}"
            self._origins[model] = origin
        return origin

    def choose_apis(self, models: Iterable[str], tools: Iterable[tuple[str, Effort]]) -> None:
        """Choose one of OpenAI's two endpoints for each model, before any call. Chat completions,
        unless the sweep file says otherwise or the model does not accept its tools there. tools:
        (model, effort) of every role with tools."""
        uses = {*tools}
        for model in models:
            if model.startswith(PREFIX) or not entry(provider_of(model)).has_responses:
                continue
            chosen = self.stated(provider_of(model)).api
            if chosen == "auto":
                from ..providers.capabilities import abilities

                able = abilities(self._is.get(model, model))
                chosen = "chat"
                if any(m == model and effort not in able.chat_tools_need for m, effort in uses):
                    chosen = "responses"
            if self.apis.get(model, chosen) != chosen:
                self._identities.pop(model, None)
            self.apis[model] = chosen

    def api(self, model: str) -> Api:
        """The OpenAI endpoint of a model; `chat` for other vendors."""
        if api := self.apis.get(model):
            return api
        chosen = self.stated(provider_of(model)).api
        return "chat" if chosen == "auto" else chosen

    def reach(self, model: str) -> "Endpoint":
        """The endpoint of a model, on which the accepted parameters depend."""
        from ..providers.capabilities import Endpoint

        provider = provider_of(model)
        version = self.stated(provider).version if entry(provider).dated else ""
        return Endpoint(self.api(model), version, self._is.get(model, ""))

    def priced(self, prices: PriceList) -> PriceList:
        """These prices, extended by models under names of the user's, at the most expensive service
        tier in use."""
        return prices.named(self._is).tiered(self.tiers)

    def settings_of(self, model: str) -> Settings:
        return self.settings(provider_of(model), self.api(model))

    def settings(self, provider: str, api: Api = "chat") -> Settings:
        """Connection settings of a provider, from the sweep file, else from the environment.
        UsageError if required settings are missing; keys are checked by `require_keys`."""
        from ..providers.keys import settings_of

        given_settings = self.stated(provider)
        try:
            return settings_of(
                provider,
                self._environment,
                base_url=given_settings.base_url,
                identity=given_settings.identity,
                deadline=given_settings.deadline,
                connections=self.connections_of(provider),
                version=given_settings.version,
                foreign=self._document.is_foreign(*base_url_of(provider, given_settings.base_url)),
                api=api,
                models=tuple(
                    (name, is_) for name, is_ in self._is.items() if provider_of(name) == provider
                ),
            )
        except UsageError as exc:
            raise self._document.fault(naming(self._document, provider), str(exc)) from None

    def connections_of(self, provider: str) -> int:
        """Maximum connections to a provider: the sweep file's, else its models' total."""
        if (connections := self.stated(provider).connections) is not None:
            return connections
        width = sum(
            limits.concurrency or 0
            for model, limits in self.limits.items()
            if provider_of(model) == provider
        )
        least = OWN_CONNECTIONS if entry(provider).own else CONNECTIONS
        return min(max(width, least), WIDEST)

    def limits_of(self, model: str, slots: int = 0) -> "Limits":
        """Limits known before the first call: the sweep file's, and the server's slots if known."""
        from .limits.buckets import Limits

        concurrency = slots or entry(provider_of(model)).concurrency or None
        return self.limits.get(model, Limits()).filled(Limits(concurrency=concurrency))

    def cells_at_once(
        self, models: Iterable[str], width_of: Callable[[str], float] | None = None
    ) -> int:
        """Number of cells that keep all slots of these models busy, as far as known. width_of:
        calls of a model that may be in flight; None to use `limits_of`."""
        width = width_of or (lambda model: self.limits_of(model).concurrency or 0)
        widths = sum(width(model) for model in models if not model.startswith(PREFIX))
        return min(max(math.ceil(CELLS_A_SLOT * widths), MIN_CELLS), MAX_CELLS)

    def require_allowed(self, models: Iterable[str]) -> None:
        """Raise UsageError if sending to the address of a model is refused."""
        for model in models:
            if not model.startswith(PREFIX) and (why := self.settings_of(model).refused):
                raise UsageError(why)

    def deferred(self, models: Iterable[str], every: bool) -> tuple[str, ...]:
        """The models whose calls are deferred. every: default for models without the setting.
        UsageError for a model whose provider has no batch endpoint."""
        chosen = []
        for model in models:
            if model.startswith(PREFIX) or not self._deferred.get(model, every):
                continue
            if not entry(provider_of(model)).deferred:
                name = f"models.{model}.{DEFERRED}: false"
                raise UsageError(f"{no_deferral(model)}; to ask it live: {name} in the sweep file")
            chosen.append(model)
        return tuple(chosen)

    def retirements(self, models: Iterable[str]) -> "list[Retirement]":
        """Known retirements of these models, if they are asked at the vendor's own endpoint."""
        from ..providers.capabilities import retirement

        return [
            end
            for model in models
            if not model.startswith(PREFIX)
            and (end := retirement(model)) is not None
            and self.settings(provider_of(model)).vendors_own
        ]

    def require_ready(self, roles: Sequence[tuple[str, str]]) -> None:
        """Raise UsageError if a key or a package is missing, or an address is refused. roles:
        (model, role), without simulated models."""
        from ..providers.keys import require_keys

        require_keys(roles, self._environment)
        self.require_allowed(model for model, _ in roles)
        for provider in {provider_of(model) for model, _ in roles}:
            if (require := entry(provider).require) is not None:
                require()

    def stated(self, provider: str) -> ProviderSettings:
        """The sweep file's settings of a provider."""
        return self._provider_settings.get(provider, ProviderSettings())


def base_url_of(provider: str, url: str) -> tuple[Key, str]:
    """Key of a provider's address, and its name in a note."""
    return ("providers", provider, "base_url"), f"{provider} {url}"


def _limits(node: Node) -> "Limits":
    from .limits.buckets import Limits

    return filled(node, Limits)


def provider_settings(node: Node) -> ProviderSettings:
    """The settings of a provider. UsageError for settings that do not apply to it."""
    settings, name = filled(node, ProviderSettings), node.name
    if name.partition("/")[0] not in provider_names():
        return settings  # runs recorded with an unknown provider can still be opened
    if settings.api == "responses" and entry(name).dated:
        raise node.settings()["api"].fault(f"unknown endpoint of {name}")
    return settings


def deferred(node: Node) -> bool:
    """Return whether a model's calls are deferred. UsageError if its provider cannot do that."""
    enabled = bool(checked_value(node, bool))
    model = str(node.key[-2])
    if enabled and not entry(provider_of(model)).deferred:
        raise node.fault(no_deferral(model), f"leave {DEFERRED} out, or choose another model")
    return enabled


def no_deferral(model: str) -> str:
    """Return the message for a model whose calls cannot be deferred."""
    providers = " and ".join(name for name in provider_names() if entry(name).deferred)
    return f"{model}: {provider_of(model)} has no batch endpoint; {providers} have one"


def thinking_tags(node: Node) -> "Tags":
    """The opening and closing tag of a model's reasoning."""
    from ...cache.reasoning import Tags

    tags = checked_value(node, tuple[str, ...])
    if len(tags) != 2 or len({*filter(str.strip, tags)}) != 2:
        why = "give two different texts, the opening and the closing tag"
        raise node.fault(why, "[<plan>, </plan>]")
    return Tags(tags)


def meaning(node: Node) -> str:
    """The model behind a name, in the form of its vendor's provider."""
    model = str(checked_value(node, str))
    try:
        provider_of(model)
    except UsageError as exc:
        raise node.fault(str(exc), "write PROVIDER/MODEL, as in openai/gpt-6-sol") from None
    return model
