"""How one provider is reached: values, read at the edge and handed down."""

from dataclasses import dataclass, field

from oversight.engine.providers.capabilities import Api
from oversight.engine.providers.transport import DEADLINE


@dataclass(frozen=True, slots=True)
class Settings:
    provider: str
    """As the user writes it in front of a model's name: `openai`, `compatible/lab`."""
    base_url: str
    identity: str
    """What joins a call's address in the store: replies are shared under one identity only."""
    vendors_own: bool = False
    """Whether this is the vendor's own endpoint: no proxy, rehearsal or server of the user's."""
    key: str = field(default="", repr=False)
    """Empty where the server asks for none, or where a cloud's own client finds credentials."""
    deadline: float = DEADLINE
    """Seconds for one exchange, all told."""
    connections: int = 1000
    """The most that are open at one time."""
    proxy: str = field(default="", repr=False)
    """URL of a proxy, which may hold a password; empty for none."""
    options: tuple[tuple[str, str], ...] = ()
    """What else the provider's client wants to know, by name: organization, region, version."""
    formerly: str = ""
    """The identity under which replies of this server were stored before it went by its name."""
    api: Api = "chat"
    """Which of OpenAI's endpoints is asked, on that wire."""
    models: tuple[tuple[str, str], ...] = ()
    """(name, what it is) of models whose names say nothing of them."""
    extra: str = ""
    """JSON of fields that every body has besides, on the OpenAI wire."""

    def option(self, name: str) -> str:
        """The value of an option; empty if it is not set."""
        return dict(self.options).get(name, "")
