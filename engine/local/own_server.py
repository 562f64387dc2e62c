"""What a server of one's own says of itself: its models, and how many calls it works on at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from oversight.engine.errors import UsageError

PATIENCE = 20.0
"""Seconds that the server may take to say so; one that is busy loading a model takes some."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    base_url: str
    """Where `/chat/completions` begins."""
    models: tuple[str, ...]
    """As the server calls them, in its order; at least one."""
    slots: int | None
    """Calls that it works on at once, where it tells: llama.cpp does."""
    context: int | None
    """Tokens of one slot, where it tells."""


async def own_server(address: str, key: str = "") -> OwnServer:
    """Asks an OpenAI-compatible server for its models and slots; nothing is generated.

    address: with or without the `/v1` at its end. UsageError where no such server answers.
    """
    base_url = _base_url(address)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=True) as client:
        try:
            status, told = await _told(client, f"{base_url}/models")
            # Beside the interface of OpenAI, so it stands one folder up. Others have none.
            _, props = await _told(client, f"{base_url.removesuffix('/v1')}/props")
        except (aiohttp.ClientError, TimeoutError) as exc:
            what = f"{type(exc).__name__}: {exc}".rstrip(": ")
            raise UsageError(
                f"--local {address}: no server answers there ({what}); start it, or see which port "
                "it listens on"
            ) from exc
    if status in (401, 403):
        raise UsageError(
            f"--local {address}: the server wants a key ({status}); put it into "
            "COMPATIBLE_OWN_API_KEY, in the environment or in .env"
        )
    listed = told.get("data")
    rows: Sequence[Any] = listed if isinstance(listed, list) else ()
    names = (row.get("id") for row in rows if isinstance(row, dict))
    models = tuple(name for name in names if isinstance(name, str) and name)
    if not models:
        raise UsageError(
            f"--local {address}: {base_url}/models answered {status} and names no model; the "
            "address is where /chat/completions begins, mostly http://HOST:PORT/v1"
        )
    settings = props.get("default_generation_settings")
    return OwnServer(
        base_url,
        models,
        _count(props.get("total_slots")),
        _count(settings.get("n_ctx")) if isinstance(settings, dict) else None,
    )


async def _told(client: aiohttp.ClientSession, url: str) -> tuple[int, dict[str, Any]]:
    """The status, and the JSON object of the answer; empty where it is none."""
    async with client.get(url) as answer:
        body = await answer.read()
        try:
            told = orjson.loads(body) if answer.ok else {}
        except orjson.JSONDecodeError:
            told = {}
        return answer.status, told if isinstance(told, dict) else {}


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


def _count(told: object) -> int | None:
    return told if isinstance(told, int) and told > 0 else None
