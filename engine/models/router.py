"""Every model of a sweep behind one `Ask`: finds the sender of each call's model."""

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ...protocols.question import Problem
from ..providers.catalogue import entry, provider_of
from ..providers.simulated import PREFIX
from ..stop import StopToken
from ..sweep.document import Document
from ..system.process import left, raise_limit, require_room
from .accounting.ledger import Accounting
from .accounting.prices import listed
from .directory import ModelDirectory
from .limits.breaker import GIVE_UP

if TYPE_CHECKING:
    from ..providers.provider import Provider
    from ..throughput import LimitStatistics
    from .limits.admission_gate import Connections
    from .limits.limits import Limits
    from .own_servers import OwnServers
    from .sender import Sender

FEW = 256
"""Fewer connections to a provider than these are always reported."""

MIN_CELLS, MAX_CELLS, CELLS_A_SLOT = 256, 8192, 1.05
"""Cells under way at once: at least and at most, and for each call that the models take at once,
since some cells are between two calls."""

log = logging.getLogger(__name__)


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
        """By model, the `Ask` that takes its calls in place of its sender."""
        self.sharers = 1
        """Processes that share the limits, each an equal part."""
        self.on_mixed: Callable[[str, tuple[str, ...]], None] = lambda provider, calls: None
        """Called with a provider and the calls whose replies it may have mixed up."""
        self.give_up = GIVE_UP
        """Seconds without any answer of a model after which the run gives up."""
        self.simulating = 0
        """Calls of simulated models in flight."""
        self.accounting = Accounting(listed())
        """What the models share; of the run, once they are prepared for it."""
        self._senders: dict[str, Sender] = {}
        self._ready: dict[str, Ask] = {}
        """By model, its sender, once nothing has to be found out before its calls."""
        self._providers: dict[str, Provider] = {}
        self._connections: dict[str, Connections] = {}
        """By the same names, those that its models share; none where another answers for them."""
        self._sharing = 2
        """Providers that share the files that this process may open."""
        self._few_files = False
        """Whether the log says that files limit the connections."""

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
            self._senders.pop(model, None)
            self._ready.pop(model, None)

    def prepare(
        self,
        roles: Iterable[tuple[str, str]],
        accounting: Accounting,
        quarantine: Path | None = None,
    ) -> None:
        """Make the senders of a run; nothing is sent. roles: (model, role) of every model.
        accounting: of the run; entries are made in the ledger that is there already. quarantine:
        folder for malformed bodies; None: they are not kept.

        UsageError if a key, a package, or a price that a cap needs is missing.
        """
        real = [(model, role) for model, role in roles if not model.startswith(PREFIX)]
        raise_limit()
        if real:
            from ..providers.keys import require_keys

            require_keys(real, self._environment)
            self.require_allowed(model for model, _ in real)
            for provider in {provider_of(model) for model, _ in real}:
                if (require := entry(provider).require) is not None:
                    require()
            require_room()
            from .accounting.quarantine import Quarantine

            self._sharing = len({(provider_of(model), self.api(model)) for model, _ in real})
            if quarantine is not None:
                accounting = replace(accounting, quarantine=Quarantine(quarantine))
        prices = self.priced(accounting.prices)
        self.accounting = replace(accounting, prices=prices, ledger=self.accounting.ledger)
        for model, _ in real:
            self._sender(model)

    def answered_by(self, provider: str, who: "Provider") -> None:
        """Have `who` answer for all models of a provider; call it before `prepare`."""
        self._providers[f"{provider} chat"] = who

    def __call__(self, call: Call) -> Awaitable[Reply]:
        """What has been diverted goes there (to batches, say); a model whose servers are known goes
        straight to its sender; all else goes through `live`, which finds out about servers first.
        """
        model = call.request.model
        return (self.diverted.get(model) or self._ready.get(model) or self.live)(call)

    async def live(self, call: Call) -> Reply:
        """The reply of the model's own sender, whatever is diverted."""
        model = call.model
        if not model.startswith(PREFIX):
            servers = self.servers
            if model not in servers and await servers.inquire(model):
                # Made anew with the limits now known; nothing has gone through it yet.
                self._senders.pop(model, None)
            servers.require_context(call)
            sender = self._sender(model)
            servers.watch(model, sender.limiter)
            if not servers[model].context:
                # None of these checks can come out otherwise for a later call: skip them.
                self._ready[model] = sender.ask
            return await sender.ask(call)
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

        return OwnServers(self.settings_of)

    @property
    def in_flight(self) -> int:
        """Calls on the wire now, simulated ones included."""
        return self.simulating + sum(each.in_flight for each in self.statistics().values())

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
            or (sender.limiter.unknown_width if (sender := self._senders.get(model)) else 0)
            for model in real
        )
        return min(max(math.ceil(CELLS_A_SLOT * sum(widths)), MIN_CELLS), MAX_CELLS)

    @property
    def bills(self) -> bool:
        """Whether some model that was prepared may cost money: it is on no server of the user's."""
        return any(not entry(provider_of(model)).own for model in self._senders)

    def statistics(self) -> "dict[str, LimitStatistics]":
        """Throughput and bottleneck of each model; without simulated ones."""
        return {model: sender.limiter.statistics() for model, sender in self._senders.items()}

    async def quiet_down(self) -> None:
        """Wait a moment for answers that come unasked after the last ones; see `HttpClient`."""
        for provider in self._providers.values():
            await provider.quiet_down()

    async def close(self) -> None:
        """Close every connection."""
        if "servers" in vars(self):
            self.servers.close()
        for provider in self._providers.values():
            await provider.close()

    def _sender(self, model: str) -> "Sender":
        if model not in self._senders:
            # Here and below: a run on simulated models alone does without half of the engine.
            from ..providers.connecting import connect
            from .limits.admission_gate import Connections
            from .sender import Sender

            provider, api = provider_of(model), self.api(model)
            name = f"{provider} {api}"
            if name not in self._providers:
                settings = self.settings(provider, api)
                most = self._most_connections(provider, settings.connections)
                self._connections[name] = Connections(most)
                self._providers[name] = connect(
                    replace(
                        settings,
                        connections=most,
                        stop_token=self.stop_token,
                        on_mixed=lambda *mixed: self.on_mixed(*mixed),
                    ),
                    lambda model, stated: self._senders[model].adopt_limits(stated, self.sharers),
                )
            self._senders[model] = Sender(
                model,
                self._providers[name],
                self.limits_of(model),
                self.stop_token,
                self.accounting,
                own=entry(provider).own,
                connections=self._connections.get(name),
                give_up=self.give_up,
            )
        return self._senders[model]

    def _most_connections(self, provider: str, wanted: int) -> int:
        """Connections that this process may open to a provider: at most an equal part of the files
        that are left, since a reply that no file is left to store would be paid for and lost.

        A line in the log names what keeps a model below its `concurrency`.
        """
        if (stated := self._stated(provider).connections) is not None:
            wanted = max(stated // self.sharers, 1)
        widths = (
            (limits.part(self.sharers).concurrency or 0, model)
            for model, limits in self.limits.items()
            if provider_of(model) == provider
        )
        widest, model = max(widths, default=(0, ""))
        files = max(left() // self._sharing, 1)
        most = min(wanted, files)
        reason = f" (models.{model}.concurrency is {widest:,})" if widest > most else ""
        if files < wanted and (reason or files < FEW) and not self._few_files:
            self._few_files = True
            log.warning(
                "each provider gets %d connections at most, since this process may have few files "
                "open%s; for more: ulimit -n %d",
                *(files, reason, max(4096, self._sharing * widest + 100)),
            )
        elif reason and files >= wanted:
            source = "" if stated is None else f", as providers.{provider}.connections says"
            log.warning("%s gets %d connections at most%s%s", provider, most, source, reason)
        return most
