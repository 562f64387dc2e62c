"""The sections `providers` and `models` of a sweep file, checked against the catalogue."""

from typing import TYPE_CHECKING

from ..errors import UsageError
from ..providers.catalogue import entry, provider_names, provider_of
from ..providers.provider_settings import ROUTING, ProviderSettings
from ..sweep.node import Node, checked_value, filled

if TYPE_CHECKING:
    from ...cache.thoughts import Tags

MEANING = "is"
"""The setting that names the underlying model of a name of the user's."""

BATCHED = "batch"
"""The setting for sending a model's calls through its vendor's batch endpoint."""

THINKING = "thinking_tags"
"""The setting with what a model's thoughts begin and end with, where its replies hold both."""


ABOUT = (MEANING, BATCHED, THINKING)
"""Settings of a model that are neither limits nor those of a simulated model."""


def provider_settings(node: Node) -> ProviderSettings:
    """The settings of a provider. UsageError for one that does not apply to it."""
    stated, name = filled(node, ProviderSettings), node.name
    if name.partition("/")[0] not in provider_names():
        return stated  # runs recorded with a name that is unknown now can still be opened
    row, settings = entry(name), node.settings()
    for setting in ROUTING:
        if setting in settings and not row.routes:
            raise settings[setting].fault(f"{name} hands calls on to nobody", "leave it out")
    if stated.api == "responses" and row.dated:
        raise settings["api"].fault(f"{name} has no such endpoint")
    return stated


def batched(node: Node) -> bool:
    """Whether the calls of a model go in batches. UsageError if its provider takes none."""
    wanted = bool(checked_value(node, bool))
    model = str(node.key[-2])
    if wanted and not entry(provider_of(model)).batches:
        raise node.fault(no_batches(model), f"leave {BATCHED} out, or choose another model")
    return wanted


def no_batches(model: str) -> str:
    """Message for a model whose provider has no batch endpoint."""
    providers = " and ".join(name for name in provider_names() if entry(name).batches)
    return f"{model}: {provider_of(model)} takes no batches here; {providers} do"


def thinking_tags(node: Node) -> "Tags":
    """What a model's thoughts begin and end with."""
    from ...cache.thoughts import Tags

    tags = checked_value(node, tuple[str, ...])
    if len(tags) != 2 or len({*filter(str.strip, tags)}) != 2:
        raise node.fault("thoughts begin and end with two different texts", "[<plan>, </plan>]")
    return Tags(tags)


def meaning(node: Node) -> str:
    """The model behind a name, as its vendor's own provider calls it."""
    named = str(checked_value(node, str))
    try:
        provider_of(named)
    except UsageError as exc:
        raise node.fault(str(exc), "write PROVIDER/MODEL, as in openai/gpt-6-sol") from None
    return named
