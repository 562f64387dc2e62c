"""Checks that the models and providers for which a sweep file has settings exist.

Otherwise a misspelt name would go unnoticed: limits would not apply, or calls and a key would go to
a vendor's default address instead of the intended one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import UsageError
from ..providers.catalogue import provider_names, provider_of
from ..providers.simulated import PREFIX
from .document import Document, Key

COMPATIBLE = "compatible"
"""First part of the name of a user's own server: `compatible/NAME`."""


def check_names(
    document: Document, models: Mapping[str, Any], providers: Mapping[str, Any]
) -> None:
    """Check that every provider exists and every model has one; UsageError otherwise."""
    for name in providers:
        kind, slash, own = name.partition("/")
        key = ("providers", name)
        if kind == COMPATIBLE and (not own or "/" in own):
            raise document.fault(
                key,
                f"{name!r} is no server of yours",
                f"write {COMPATIBLE}/NAME, as in {COMPATIBLE}/NAME/MODEL",
            )
        known = provider_names()
        if kind not in known or (slash and kind != COMPATIBLE):
            raise document.unknown(key, [*known, f"{COMPATIBLE}/NAME"], "provider", "providers")
    for name in models:
        if not name.startswith(PREFIX):
            try:
                provider_of(name)
            except UsageError as exc:
                asked = (each for _, each in _mentions(document.value))
                near = next((each for each in asked if each.endswith(f"/{name}")), "")
                hint = f"did you mean {near!r}?" if near else "write PROVIDER/MODEL, as in a role"
                raise document.fault(("models", name), str(exc), hint) from None


def check_use(
    document: Document,
    models: Mapping[str, Any],
    providers: Mapping[str, Any],
    asked: Iterable[str],
) -> None:
    """Check that the sweep uses every model and every own server that has settings.

    asked: the models of the sweep. Models that only the file names, and a flag replaced, are
    allowed too. UsageError names settings without a use.
    """
    named = {*asked, *(each for _, each in _mentions(document.written()))}
    known = sorted(name for name in named if "/" in name)
    for name in models:
        if name not in named:
            raise document.unknown(
                ("models", name), known, "model in this sweep", "the models that it asks"
            )
    reached = {"/".join(name.split("/")[:2]) for name in known if name.startswith(f"{COMPATIBLE}/")}
    for name in providers:
        if name.startswith(f"{COMPATIBLE}/") and name not in reached:
            raise document.unknown(
                ("providers", name), sorted(reached), "server in this sweep", "servers that it asks"
            )


def naming(document: Document, provider: str) -> Key:
    """Key of a provider's settings, or else of the first model that names the provider."""
    if document.value.get("providers") and provider in document.value["providers"]:
        address = ("providers", provider, "base_url")
        given = document.value["providers"][provider] or {}
        return address if "base_url" in given else address[:2]
    mentions = (key for key, text in _mentions(document.value) if text.startswith(f"{provider}/"))
    return next(mentions, ())


def _mentions(value: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """Every text in the sections that name models, with its key."""
    for section in ("agents", "judges", "protocols"):
        yield from texts((section,), value.get(section))


def texts(key: Key, value: Any) -> Iterator[tuple[Key, str]]:
    """Every text in a tree of mappings and lists, with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from texts((*key, name), inner)
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from texts((*key, n), inner)
