"""What is known of a provider: endpoints, keys, options and its identity in the store.

What speaks to them is in `connecting`, and is imported when the first of them is asked.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...protocols.spelling import meant
from ..errors import UsageError
from ..system.entry_points import PROVIDERS_GROUP, load_registered, registered

if TYPE_CHECKING:
    from .provider import OnLimits, Provider
    from .settings import Settings

LocalApi: TypeAlias = Literal["", "llamacpp", "ollama", "vllm", "sglang", "any"]
"""Which server it is, by how it states its context, slots and load; `any`: it is asked."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One provider of the catalogue. `…_variable`: name of an environment variable."""

    connect: "Callable[[Settings, OnLimits | None], Provider] | None" = None
    """Makes the provider; opens and imports nothing before its first call. None: over OpenAI's wire
    and the plain transport, unless `connecting` says otherwise."""
    base_url: str = ""
    """Default address; may hold {options}. Empty: the user must set one."""
    base_url_variable: str = ""
    key_variable: str = ""
    """Empty if no key is ever needed."""
    key_needed: bool = True
    api: str = ""
    """Identity of the vendor's own endpoint: family and version. Empty: the base URL is used."""
    own: bool = False
    """Whether it is the user's own server, whose identity is its name at any address."""
    options: tuple[tuple[str, str, str], ...] = ()
    """(option, variable or empty, default) of each. The default `!` marks a required option, and
    `?` one that is required unless the address is given."""
    has_responses: bool = False
    """Whether it has OpenAI's responses endpoint beside chat completions."""
    routes: bool = False
    """Whether it routes calls to hosts of its choice, and takes settings for that choice."""
    dated: bool = False
    """Whether it has the dated versions of Anthropic's own API, on which abilities depend."""
    local_api: LocalApi = ""
    """The API through which the user's own server states its context and slots."""
    batches: bool = False
    """Whether it has a batch endpoint, with its own prices."""
    tells_models: bool = False
    """Whether its Models endpoint states retirement dates and the like."""
    models: tuple[str, ...] = ()
    """All models that it has, if they are few; empty: any name is accepted."""
    require: Callable[[], object] | None = None
    """Raises UsageError if something that it needs is not installed."""
    concurrency: int | None = None
    """Calls that it serves at once; None if that is not known in advance."""
    in_person: bool = False
    """Whether its models are groups of persons, who answer at their own pace."""


def provider_names() -> list[str]:
    """All kinds of providers: those of the catalogue, and those that are registered."""
    from .vendors import PROVIDERS

    return [*PROVIDERS, *registered(PROVIDERS_GROUP)]


def provider_of(model: str) -> str:
    """The provider in `provider/name`; UsageError if there is no such provider.

    `compatible` is followed by the user's name for a server: `compatible/lab/llama-3` has the
    provider `compatible/lab`.
    """
    kind, _, rest = model.partition("/")
    if kind not in (kinds := provider_names()):
        hint = meant(kind, kinds) or ";"
        raise UsageError(f"{model!r}: no such provider{hint} there are {', '.join(kinds)}")
    if kind == "compatible":
        name, _, rest = rest.partition("/")
        kind = f"compatible/{name}"
    if not rest:
        raise UsageError(f"{model!r}: no model is named; write {kind}/NAME")
    models = () if kind.startswith("compatible/") else entry(kind).models
    if models and rest not in models:
        names = ", ".join(f"{kind}/{name}" for name in models)
        raise UsageError(f"{model!r}: no such model; there is {names}")
    return kind


def entry(provider: str) -> Entry:
    """The entry of a provider; for `compatible/NAME`, with that name's own variables."""
    # Here and above: a run on simulated models asks for none.
    from .vendors import PROVIDERS

    kind, _, name = provider.partition("/")
    row = PROVIDERS.get(kind) or _registered_entry(kind)
    if not name:
        return row
    stem = "COMPATIBLE_" + re.sub(r"\W", "_", name).upper()
    return Entry(
        row.connect,
        base_url_variable=f"{stem}_BASE_URL",
        key_variable=f"{stem}_API_KEY",
        key_needed=False,
        own=row.own,
        local_api=row.local_api,
    )


def _registered_entry(kind: str) -> Entry:
    """The entry of a provider that an extension or an installed package registers."""
    row = load_registered(PROVIDERS_GROUP, kind)
    if not isinstance(row, Entry):
        raise UsageError(f"{kind}: {row!r}, which a package registers, is not an {Entry.__name__}")
    return row
