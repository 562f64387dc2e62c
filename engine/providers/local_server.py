"""What a server of the user's says of itself: how long a call may be, and how many at once."""

import re
from dataclasses import dataclass
from typing import Any

from oversight.engine.errors import Unreachable
from oversight.engine.providers.catalogue import entry
from oversight.engine.providers.inquiry import Unanswered, inquire
from oversight.engine.providers.settings import Settings

OLLAMA_CONTEXT = 4_096
"""Tokens that Ollama gives a model for which nobody has set another number."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """What is known of one model at a server of the user's; 0 where nothing is."""

    context: int = 0
    """Tokens for one call, prompt and reply together."""
    slots: int = 0
    """Calls that it serves at one time."""


async def local_server(settings: Settings, name: str) -> LocalServer:
    """Ask a llama.cpp server, or Ollama, what it has for a model; nothing of any other server.

    What does not answer, or is not there, is no error here: the first call will say what it is.
    """
    row = entry(settings.provider)
    root = settings.base_url.removesuffix("/v1")
    try:
        match row.local_api:
            case "llamacpp":
                return _llamacpp(await inquire(settings, f"{root}/props"))
            case "ollama":
                loaded = await inquire(settings, f"{root}/api/ps")
                told = await inquire(settings, f"{root}/api/show", {"model": name})
                return LocalServer(_ollama(loaded, told, name))
    except (Unanswered, Unreachable):
        pass
    return LocalServer()


def _llamacpp(told: dict[str, Any]) -> LocalServer:
    """`n_ctx` is that of one slot: the whole is split over them."""
    defaults = told.get("default_generation_settings")
    context = defaults.get("n_ctx") if isinstance(defaults, dict) else 0
    return LocalServer(_number(context), _number(told.get("total_slots")))


def _ollama(loaded: dict[str, Any], told: dict[str, Any], name: str) -> int:
    """The context that a model has now, if it is loaded, or else will have."""
    for model in loaded.get("models") or ():
        if not isinstance(model, dict):
            continue
        if _same(name, model.get("model") or model.get("name")) and model.get("context_length"):
            return _number(model["context_length"])
    found = re.search(r"^num_ctx\s+(\d+)", str(told.get("parameters") or ""), re.MULTILINE)
    if found:
        return int(found[1])
    info = told.get("model_info")
    trained = [
        _number(value)
        for key, value in (info.items() if isinstance(info, dict) else ())
        if key.endswith(".context_length")
    ]
    return min([OLLAMA_CONTEXT, *filter(None, trained)])


def _same(asked: str, there: Any) -> bool:
    tagged = asked if ":" in asked else f"{asked}:latest"
    return there in (asked, tagged)


def _number(told: Any) -> int:
    return told if isinstance(told, int) and told > 0 else 0
