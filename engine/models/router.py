"""Routes each call of a sweep to the sender of its model."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..providers.catalogue import entry, provider_of
from ..providers.simulated import PREFIX
from ..stop import StopToken
from ..system.process import left, raise_limit, require_room
from .accounting.ledger import Accounting
from .directory import Directory
from .limits.breaker import GIVE_UP

if TYPE_CHECKING:
    from ..display.throughput import LimitStatistics
    from ..providers.fault import HeaderLimits
    from ..providers.provider import Provider
    from .limits.buckets import Limits
    from .limits.concurrency import Connections
    from .self_hosted import SelfHostedServers
    from .sender import Sender

FEW = 256
"""Fewer connections to a provider than these are always reported."""

log = logging.getLogger(__name__)


class Router:
    """An `Ask` for all models of a sweep. A provider is opened on first use.

    Once the stop token is set, no further call is sent; calls on the wire complete."""

    def __init__(
        self,
        directory: Directory,
        roles: Iterable[tuple[str, str]],
        accounting: Accounting,
        stop_token: StopToken,
        *,
        quarantine: Path | None = None,
        answering: Mapping[str, "Provider"] = MappingProxyType({}),
        give_up: float = GIVE_UP,
        sharers: int = 1,
    ) -> None:
        """Create the senders of a run; nothing is sent. roles: (model, role) of every model.
        accounting: of the run. quarantine: folder for malformed bodies; None to discard them.
        answering: by provider, an object in this process that answers for it. give_up: seconds
        without any answer of a model until the run gives up. sharers: processes that divide the
        limits equally.

        UsageError if a key, a package, or a price that a cap needs is missing."""
        real = [(model, role) for model, role in roles if not model.startswith(PREFIX)]
        raise_limit()
        if real:
            directory.require_ready(real)
            require_room()
            from .accounting.budget import Quarantine

            if quarantine is not None:
                accounting = replace(accounting, quarantine=Quarantine(quarantine))
        self.directory = directory
        self.accounting = replace(accounting, prices=directory.priced(accounting.prices))
        """Accounting of all models."""
        self.stop_token = stop_token
        self.diverted: dict[str, Ask] = {}
        """By model, an `Ask` that takes its calls instead of its sender."""
        self.on_mixed: Callable[[str, tuple[str, ...]], None] = lambda provider, calls: None
        """Called with a provider and the calls whose replies it may have mixed up."""
        self._give_up, self._sharers = give_up, sharers
        self._simulating = 0
        """Calls of simulated models in flight."""
        self._senders: dict[str, Sender] = {}
        self._asks: dict[str, Ask] = {}
        """By model, its sender, behind the warm-up of prompt caches."""
        self._ready: dict[str, Ask] = {}
        """The same, for models whose servers need no further checks."""
        self._providers = {f"{name} chat": provider for name, provider in answering.items()}
        self._connections: dict[str, Connections] = {}
        """By the same names, connections that models of a provider share; none if another object
        answers."""
        self._sharing = len({(provider_of(model), directory.api(model)) for model, _ in real}) or 2
        """Number of providers among which this process divides its open files."""
        self._few_files = False
        """Whether the log has reported that open files limit the connections."""
        for model, _ in real:
            self._sender(model)

    def choose_api(self, call: Call) -> None:
        """Choose OpenAI's endpoint for calls without a sweep: chat completions, until a call comes
        that they do not support."""
        model, api = call.model, self.directory.apis.get(call.model)
        if model.startswith(PREFIX) or api == "responses" or (api and not call.tools):
            return
        self.directory.choose_apis((model,), [(model, call.effort)] if call.tools else ())
        if api and self.directory.apis[model] != api:
            # Calls in flight complete where they were sent.
            self._senders.pop(model, None)
            self._ready.pop(model, None)

    def __call__(self, call: Call) -> Awaitable[Reply]:
        """Ask the model's sender, or the extension that takes its calls. Calls go through `live`
        until its checks of the model's server are complete; calls of simulated models always do."""
        model = call.request.model
        return (self.diverted.get(model) or self._ready.get(model) or self.live)(call)

    async def live(self, call: Call) -> Reply:
        """The reply of the model's own sender."""
        model = call.model
        if not model.startswith(PREFIX):
            servers = self.servers
            if model not in servers and await servers.fetch_info(model):
                # A sender with the limits now known replaces this one, which was never used.
                self._senders.pop(model, None)
            servers.require_context(call)
            sender = self._sender(model)
            servers.watch(model, sender.limiter)
            if not servers[model].context:
                # Later calls would pass all of these checks: skip them.
                self._ready[model] = self._asks[model]
            return await self._asks[model](call)
        self.stop_token.raise_if_stopped()
        self._simulating += 1
        try:
            return await self.directory.simulation_of(call.model)(call)
        finally:
            self._simulating -= 1

    @cached_property
    def servers(self) -> "SelfHostedServers":
        """Information on self-hosted servers."""
        from .self_hosted import SelfHostedServers

        return SelfHostedServers(self.directory.settings_of)

    @property
    def in_flight(self) -> int:
        """Calls on the wire, simulated ones included."""
        return self._simulating + sum(
            statistics.in_flight for statistics in self.statistics().values()
        )

    def limits_of(self, model: str) -> "Limits":
        """Limits known before the first call: the sweep file's, and the server's slots."""
        return self.directory.limits_of(model, self.servers[model].slots).part(self._sharers)

    def cells_at_once(self, models: Iterable[str]) -> int:
        """Number of cells that keep all slots of these models busy, as far as known."""

        def width_of(model: str) -> float:
            sender, width = self._senders.get(model), self.limits_of(model).concurrency
            return width or (sender.limiter.unknown_width if sender else 0)

        return self.directory.cells_at_once(models, width_of)

    @property
    def bills(self) -> bool:
        """Whether a model may cost money, because it is not self-hosted."""
        return any(not entry(provider_of(model)).own for model in self._senders)

    def statistics(self) -> "dict[str, LimitStatistics]":
        """Throughput and bottleneck of each model, without simulated ones."""
        return {model: sender.limiter.statistics() for model, sender in self._senders.items()}

    async def quiet_down(self) -> None:
        """Wait a moment for unsolicited answers after the last ones; see `HttpClient`."""
        for provider in self._providers.values():
            await provider.quiet_down()

    async def close(self) -> None:
        if "servers" in vars(self):
            self.servers.close()
        for provider in self._providers.values():
            await provider.close()

    def _adopt_limits(self, model: str, limits: "HeaderLimits") -> None:
        # None while the endpoint of a model changes.
        if sender := self._senders.get(model):
            sender.adopt_limits(limits, self._sharers)

    def _sender(self, model: str) -> "Sender":
        if model not in self._senders:
            # Imported late: a run on simulated models does not need them.
            from ..providers.connecting import connect
            from ..providers.wire import PrefixWarmup, keeps_prefixes, kept_prefix
            from .limits.concurrency import Connections
            from .sender import Sender

            provider, api = provider_of(model), self.directory.api(model)
            name = f"{provider} {api}"
            if name not in self._providers:
                settings = self.directory.settings(provider, api)
                most = self._most_connections(provider, settings.connections)
                self._connections[name] = Connections(most)
                self._providers[name] = connect(
                    replace(
                        settings,
                        connections=most,
                        stop_token=self.stop_token,
                        on_mixed=lambda *mixed: self.on_mixed(*mixed),
                    ),
                    self._adopt_limits,
                )
            self._senders[model] = Sender(
                model,
                self._providers[name],
                self.limits_of(model),
                self.stop_token,
                self.accounting,
                own=entry(provider).own,
                connections=self._connections.get(name),
                give_up=self._give_up,
            )
            # If the vendor caches prefixes, the first call of each goes alone.
            warms, sender = keeps_prefixes(model), self._senders[model]
            self._asks[model] = PrefixWarmup(sender, kept_prefix) if warms else sender
        return self._senders[model]

    def _most_connections(self, provider: str, most_wanted: int) -> int:
        """Connections that this process may open to a provider: at most an equal part of the free
        files. Otherwise a paid reply could find no file to store it. The log says what keeps a
        model below its `concurrency`."""
        if (setting := self.directory.stated(provider).connections) is not None:
            most_wanted = max(setting // self._sharers, 1)
        widths = (
            (limits.part(self._sharers).concurrency or 0, model)
            for model, limits in self.directory.limits.items()
            if provider_of(model) == provider
        )
        widest, model = max(widths, default=(0, ""))
        files = max(left() // self._sharing, 1)
        most = min(most_wanted, files)
        reason = f" (models.{model}.concurrency is {widest:,})" if widest > most else ""
        if files < most_wanted and (reason or files < FEW) and not self._few_files:
            self._few_files = True
            log.warning(
                "each provider gets %d connections at most, since this process may have few files "
                "open%s; for more: ulimit -n %d",
                *(files, reason, max(4096, self._sharing * widest + 100)),
            )
        elif reason and files >= most_wanted:
            source = "" if setting is None else f", as providers.{provider}.connections says"
            log.warning("%s gets %d connections at most%s%s", provider, most, source, reason)
        return most
