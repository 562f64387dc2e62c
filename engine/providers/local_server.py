"""Context length and parallel slots of the user's own server, as it states them."""

import re
from dataclasses import dataclass
from typing import Any

from ..errors import Unreachable
from .catalogue import entry
from .inquiry import Unanswered, inquire
from .settings import Settings

OLLAMA_CONTEXT = 4_096
"""Ollama's default context, in tokens."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Limits of one model at the user's own server; 0 where unknown."""

    context: int = 0
    """Tokens for one call, prompt and reply together."""
    slots: int = 0
    """Calls served at one time."""


async def local_server(settings: Settings, name: str) -> LocalServer:
    """Ask a llama.cpp or Ollama server for a model's limits; all unknown for any other server.

    A server that does not answer is not an error here: the first call will report it.
    """
    row = entry(settings.provider)
    root = settings.base_url.removesuffix("/v1")
    try:
        match row.local_api:
            case "llamacpp":
                return _llamacpp(await inquire(settings, f"{root}/props"))
            case "ollama":
                loaded = await inquire(settings, f"{root}/api/ps")
                details = await inquire(settings, f"{root}/api/show", {"model": name})
                return LocalServer(_ollama(loaded, details, name))
    except (Unanswered, Unreachable):
        pass
    return LocalServer()


def _llamacpp(props: dict[str, Any]) -> LocalServer:
    """Limits in llama.cpp's `/props`, where `n_ctx` is the context of one slot."""
    defaults = props.get("default_generation_settings")
    context = defaults.get("n_ctx") if isinstance(defaults, dict) else 0
    return LocalServer(_number(context), _number(props.get("total_slots")))


def _ollama(loaded: dict[str, Any], details: dict[str, Any], name: str) -> int:
    """The context of a model: the present one if it is loaded, else that which it will get."""
    for model in loaded.get("models") or ():
        if not isinstance(model, dict):
            continue
        if _same(name, model.get("model") or model.get("name")) and model.get("context_length"):
            return _number(model["context_length"])
    num_ctx = re.search(r"^num_ctx\s+(\d+)", str(details.get("parameters") or ""), re.MULTILINE)
    if num_ctx:
        return int(num_ctx[1])
    info = details.get("model_info")
    trained = [
        _number(value)
        for key, value in (info.items() if isinstance(info, dict) else ())
        if key.endswith(".context_length")
    ]
    return min([OLLAMA_CONTEXT, *filter(None, trained)])


def _same(name: str, served: Any) -> bool:
    tagged = name if ":" in name else f"{name}:latest"
    return served in (name, tagged)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
