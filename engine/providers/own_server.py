"""Discovery of the user's own server: its models, slots and context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import Unreachable, UsageError
from .inquiry import Unanswered, answered
from .keys import settings_of
from .local_server import llamacpp_limits
from .payload import loaded
from .settings import Settings

OWN = "compatible/own"
"""The provider that a server of the user's is called in a sweep file that is made for it."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    """The models and limits that the user's own server states."""

    base_url: str
    """The URL below which `/chat/completions` is."""
    models: tuple[str, ...]
    """The server's names of its models, in its order; at least one."""
    slots: int | None
    """Calls served at once; None unless stated, as by llama.cpp."""
    context: int | None
    """Tokens of one slot; None unless stated."""


async def own_server(address: str, environment: Mapping[str, str]) -> OwnServer:
    """Ask an OpenAI-compatible server for its models and slots; nothing is generated.

    address: with or without a final `/v1`. environment: may hold a key and a proxy. Raises
    UsageError if no such server answers.
    """
    base_url = _base_url(address)
    settings = settings_of(OWN, environment, base_url=base_url)
    try:
        status, answer = await _told(settings, f"{base_url}/models")
        # llama.cpp only; it is beside the OpenAI API, not below `/v1`.
        _, props = await _told(settings, f"{base_url.removesuffix('/v1')}/props")
    except (Unreachable, Unanswered) as exc:
        raise UsageError(
            f"--local {address}: no server answers there ({exc}); start it, or see which port "
            "it listens on"
        ) from exc
    if status in (401, 403):
        raise UsageError(
            f"--local {address}: the server wants a key ({status}); put it into "
            "COMPATIBLE_OWN_API_KEY, in the environment or in .env"
        )
    listed = answer.get("data")
    rows: Sequence[Any] = listed if isinstance(listed, list) else ()
    names = (row.get("id") for row in rows if isinstance(row, dict))
    models = tuple(name for name in names if isinstance(name, str) and name)
    if not models:
        raise UsageError(
            f"--local {address}: {base_url}/models answered {status} and names no model; the "
            "address is where /chat/completions begins, mostly http://HOST:PORT/v1"
        )
    limits = llamacpp_limits(props)
    return OwnServer(base_url, models, limits.slots or None, limits.context or None)


async def _told(settings: Settings, url: str) -> tuple[int, dict[str, Any]]:
    """The status and the JSON object of an answer; empty if it is not an object."""
    answer = await answered(settings, url)
    data, _ = loaded(answer.body) if answer.status < 400 else ({}, "")
    return answer.status, data if isinstance(data, dict) else {}


def _base_url(address: str) -> str:
    url = address if "//" in address else f"http://{address}"
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(f"--local {address!r} is no address; write http://HOST:PORT/v1")
    return url.rstrip("/") if parts.path.strip("/") else f"{url.rstrip('/')}/v1"
