"""What real models are asked in the words of a sweep file, and whether they accept it."""

from collections.abc import Mapping
from typing import Any

from ...cache.call import Call, Request
from ...protocols.settings import PARAMETERS
from ..errors import UsageError
from ..providers.capabilities import Endpoint, missing_abilities, takes_temperature
from ..providers.catalogue import entry, provider_of
from .document import Document
from .node import Node, made_of


def heeds_temperature(document: Document, asked: Mapping[str, Any]) -> bool:
    """Whether a model heeds a temperature. asked: with what it is asked."""
    model, effort, top_p = asked["model"], asked.get("effort", ""), asked.get("top_p")
    return takes_temperature(model, effort, top_p, _reach(document, model))


def check_parameters(node: Node, point: Mapping[str, Any]) -> None:
    """UsageError for a role whose model has no provider, or does not accept what is set."""
    model = point["model"]
    try:
        provider_of(model)
    except UsageError as exc:
        raise node.child("model", model).fault(str(exc)) from None
    given = {name: point[name] for name in PARAMETERS if name in point}
    if given:
        asked = made_of(node, Request, {"model": model, "messages": (), **given})
        for lack in missing_abilities(Call(asked), _reach(node.document, model)):
            if lack.parameter in given:
                at = node.child(lack.parameter, given[lack.parameter])
                raise at.fault(f"{model}: {lack.reason}", lack.remedy)


def reach_of(model: str, own: Mapping[str, Any], providers: Mapping[str, Any]) -> Endpoint:
    """How a model is asked, as far as its supported parameters depend on it. own, providers: the
    settings of the model and of its provider."""
    settings = {**own, **providers}
    dated = entry(provider_of(model)).dated
    return Endpoint(
        version=str(settings.get("version") or "") if dated else "",
        is_model=str(settings.get("is") or ""),
    )


def _reach(document: Document, model: str) -> Endpoint:
    given = [
        named.get(name) if isinstance(named := document.value.get(section), dict) else None
        for section, name in (("models", model), ("providers", provider_of(model)))
    ]
    return reach_of(model, *[each if isinstance(each, dict) else {} for each in given])
