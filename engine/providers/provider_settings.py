"""What a sweep file may say of a provider, under `providers`."""

from dataclasses import dataclass
from typing import Literal

from oversight.engine.providers.transport import DEADLINE

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
    api: Literal["auto", "chat", "responses"] = "auto"
    """Which of OpenAI's endpoints answers. `auto`: chat completions, but responses for a model
    whose tools the former does not take. The replies of each are stored apart."""
    order: tuple[str, ...] = ()
    """Of OpenRouter: the hosts that may serve a model, the first choice first."""
    allow_fallbacks: bool = False
    """Of OpenRouter, where `order` is set: whether other hosts may serve when those cannot."""
    require_parameters: bool = True
    """Of OpenRouter: whether only such hosts serve as heed all that a call asks; others drop it."""
    data_collection: Literal["", "allow", "deny"] = ""
    """Of OpenRouter: whether hosts may serve that keep or use what they are sent."""

    def __post_init__(self) -> None:
        for name in ("base_url", "identity", "account", "version"):
            if not getattr(self, name).isprintable():
                raise ValueError(f"{name}: {getattr(self, name)!r} has a character that is no text")
        if not 0 < self.deadline <= LONGEST:
            raise ValueError(f"deadline: {self.deadline:g} is not in (0, {LONGEST:g}] seconds")
        if not 1 <= self.connections <= WIDEST:
            raise ValueError(f"connections: {self.connections} is not between 1 and {WIDEST:,}")

    def routing(self) -> dict[str, object]:
        """Of OpenRouter: the object `provider` of every body."""
        told: dict[str, object] = {"require_parameters": self.require_parameters}
        if self.order:
            told |= {"order": list(self.order), "allow_fallbacks": self.allow_fallbacks}
        if self.data_collection:
            told["data_collection"] = self.data_collection
        return told


ROUTING = ("order", "allow_fallbacks", "require_parameters", "data_collection")
"""Settings that only OpenRouter heeds."""
