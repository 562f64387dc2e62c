"""Free requests to a server's information endpoints: its models, their limits and end dates.

They are sent before a run or by a checkup, never while a call is under way.
"""

from typing import Any

import orjson

from ..errors import EngineError, Unreachable
from .catalogue import entry
from .secret import Secret
from .settings import Settings

INQUIRY_TIMEOUT = 20.0
"""Timeout of one request, in seconds."""

_CAP = 4 * 2**20
"""Maximum size of one answer, in bytes."""


class Unanswered(EngineError):
    """The server was reached, but does not offer this information."""

    slug = "unanswered"


async def inquire(settings: Settings, url: str, body: object = None) -> dict[str, Any]:
    """GET a JSON object from one of the server's URLs, or POST to it if there is a body.

    Raises: Unreachable if there was no connection; Unanswered for anything but a JSON object.
    """
    try:
        data = orjson.loads(await fetch(settings, url, body))
    except orjson.JSONDecodeError:
        data = None
    if not isinstance(data, dict):
        raise Unanswered(f"{settings.provider} says no JSON object at {url}")
    return data


async def fetch(settings: Settings, url: str, body: object = None) -> bytes:
    """What stands at one of the server's URLs. Raises as `inquire`, whatever it is."""
    import aiohttp

    secret = Secret(settings.key)
    row = entry(settings.provider)
    headers = dict(row.credentials(settings.key)) if settings.key else {}
    if row.dated:
        headers["anthropic-version"] = settings.option("version")
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(INQUIRY_TIMEOUT)) as session,
            session.request(
                "GET" if body is None else "POST",
                url,
                headers=headers,
                json=body,
                proxy=settings.proxy or None,
                allow_redirects=False,
            ) as answer,
        ):
            if answer.status != 200:
                raise Unanswered(f"{settings.provider} says {answer.status} to {url}")
            content = bytearray()
            async for part in answer.content.iter_any():
                content += part
                if len(content) > _CAP:
                    raise Unanswered(f"{settings.provider} says more than {_CAP:,} bytes at {url}")
            return bytes(content)
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        what = secret.hidden_in(f"{type(exc).__name__}: {exc}")
        raise Unreachable(f"{settings.provider}: no answer from {url}: {what}") from None
