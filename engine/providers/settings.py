"""Connection settings of one provider: read once at the edge, and passed down as values."""

from dataclasses import dataclass, field

from .provider_settings import DEADLINE, Api


@dataclass(frozen=True, slots=True)
class Settings:
    provider: str
    """Its name in front of a model's name: `openai`, `compatible/lab`."""
    base_url: str
    identity: str
    """Part of the store's keys, beside a call's address: replies are shared under one identity."""
    vendors_own: bool = False
    """Whether this is the vendor's own endpoint, not a proxy, rehearsal or user's server."""
    key: str = field(default="", repr=False)
    """Empty if the server needs none, or if a cloud's own client finds credentials."""
    deadline: float = DEADLINE
    """Seconds for one exchange in total."""
    connections: int = 1000
    """Maximum number open at one time."""
    proxy: str = field(default="", repr=False)
    """URL of a proxy, which may hold a password; empty for none."""
    options: tuple[tuple[str, str], ...] = ()
    """Further (name, value) options of the provider's client: organization, region, version."""
    api: Api = "chat"
    """Which of OpenAI's endpoints is used, on the OpenAI wire."""
    models: tuple[tuple[str, str], ...] = ()
    """(name, underlying model) of models under names of the user's, such as deployments."""
    address_from: str = ""
    """Where the address was found, if it is not the provider's own."""
    borrowed_key: bool = False
    """Whether the address is from `.env` beside the sweep, and the key is not."""
    proxy_from: str = ""
    """Where the proxy was found, if that is `.env` beside the sweep and the key is from outside."""
    identity_stated: bool = False
    """Whether the sweep file states the identity."""
    extra: str = ""
    """JSON object of additional fields in every request body, on the OpenAI wire."""

    def option(self, name: str) -> str:
        """The value of an option; empty if not set."""
        return dict(self.options).get(name, "")
