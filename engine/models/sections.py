"""What a sweep file says of providers and models, read and checked against what they heed."""

from collections.abc import Mapping
from typing import Any

from oversight.engine.errors import UsageError
from oversight.engine.providers.catalogue import PROVIDERS, entry, provider_of
from oversight.engine.providers.provider_settings import ROUTING, ProviderSettings
from oversight.engine.sweeps.document import Document
from oversight.engine.sweeps.fields import checked_value, filled

MEANING = "is"
"""The setting of a model that says which one it is, where its name does not."""


def provider_settings(document: Document, name: str, given: Mapping[str, Any]) -> ProviderSettings:
    """The settings of a provider. UsageError for one that it has no use for."""
    made = filled(document, ("providers", name), ProviderSettings, given)
    if name.partition("/")[0] not in PROVIDERS:
        return made  # a run that was made with such a name is to be opened all the same
    row = entry(name)
    for setting in ROUTING:
        if setting in given and not row.routes:
            raise document.fault(
                ("providers", name, setting), f"{name} hands calls on to nobody", "leave it out"
            )
    if made.api == "responses" and row.dated:
        raise document.fault(("providers", name, "api"), f"{name} has no such endpoint")
    return made


def meaning(document: Document, model: str, value: Any) -> str:
    """The model behind a name, as its vendor's own provider calls it."""
    key = ("models", model, MEANING)
    named = str(checked_value(document, key, value, str))
    try:
        provider_of(named)
    except UsageError as exc:
        raise document.fault(
            key, str(exc), "write PROVIDER/MODEL, as in openai/gpt-6-sol"
        ) from None
    return named
