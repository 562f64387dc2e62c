"""What a sweep file says of providers and models, read and checked against what they heed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from oversight.engine.errors import UsageError
from oversight.engine.providers.catalogue import PROVIDERS, entry, provider_of
from oversight.engine.providers.provider_settings import ROUTING, ProviderSettings
from oversight.engine.sweeps.fields import checked_value, filled
from oversight.engine.sweeps.node import Node

MEANING = "is"
"""The setting of a model that says which one it is, where its name does not."""

BATCHED = "batch"
"""The setting of a model that says whether its calls go through its vendor's batch endpoint."""


@dataclass(frozen=True, slots=True)
class Capability:
    """How capable a model is on some scale, by which `oversight scaling` places it."""

    capability: float
    """Such as an arena's rating. One sweep has one scale."""
    capability_source: str = ""
    """Who says so, and as of when."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.capability):
            raise ValueError(f"capability: {self.capability} is not a finite number")


def capability(node: Node, given: Mapping[str, Any]) -> Capability | None:
    """What the sweep file says of a model's capability; None if nothing."""
    said = {name: given[name] for name in CAPABILITY if name in given}
    return filled(node.replaced(said), Capability) if said else None


CAPABILITY = tuple(field.name for field in fields(Capability))

ABOUT = (MEANING, BATCHED, *CAPABILITY)
"""Settings of a model that are neither limits nor how a simulated one speaks."""


def provider_settings(node: Node) -> ProviderSettings:
    """The settings of a provider. UsageError for one that it has no use for."""
    made, name = filled(node, ProviderSettings), node.name
    if name.partition("/")[0] not in PROVIDERS:
        return made  # a run that was made with such a name is to be opened all the same
    row, settings = entry(name), node.settings()
    for setting in ROUTING:
        if setting in settings and not row.routes:
            raise settings[setting].fault(f"{name} hands calls on to nobody", "leave it out")
    if made.api == "responses" and row.dated:
        raise settings["api"].fault(f"{name} has no such endpoint")
    return made


def batched(node: Node) -> bool:
    """Whether the calls of a model go in batches. UsageError if its provider takes none."""
    wanted = bool(checked_value(node, bool))
    model = str(node.key[-2])
    if wanted and not entry(provider_of(model)).batches:
        raise node.fault(no_batches(model), f"leave {BATCHED} out, or choose another model")
    return wanted


def no_batches(model: str) -> str:
    """What is wrong with a model that is to be asked in batches."""
    there = " and ".join(name for name, row in PROVIDERS.items() if row.batches)
    return f"{model}: {provider_of(model)} takes no batches here; {there} do"


def meaning(node: Node) -> str:
    """The model behind a name, as its vendor's own provider calls it."""
    named = str(checked_value(node, str))
    try:
        provider_of(named)
    except UsageError as exc:
        raise node.fault(str(exc), "write PROVIDER/MODEL, as in openai/gpt-6-sol") from None
    return named
