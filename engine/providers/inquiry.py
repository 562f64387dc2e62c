"""Questions to a server that are no calls: what it serves, how much of it, and until when.

They cost nothing, and are asked before a run or by a checkup, never on the way of a call.
"""

from typing import Any

import orjson

from oversight.engine.errors import EngineError, Unreachable
from oversight.engine.providers.catalogue import entry
from oversight.engine.providers.secret import Secret
from oversight.engine.providers.settings import Settings

PATIENCE = 20.0
"""Seconds that one answer may take."""

_CAP = 4 * 2**20
"""Bytes of one answer."""


class Unanswered(EngineError):
    """The server was reached, and has nothing to say to such a question."""

    slug = "unanswered"


async def inquire(settings: Settings, url: str, body: object = None) -> dict[str, Any]:
    """The JSON object that the server has at a URL of its own; a body is posted.

    Unreachable if no connection came about; Unanswered for every answer but a JSON object.
    """
    import aiohttp

    secret = Secret(settings.key)
    row = entry(settings.provider)
    headers = dict(row.credentials(settings.key)) if settings.key else {}
    if row.dated:
        headers["anthropic-version"] = settings.option("version")
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as session,
            session.request(
                "GET" if body is None else "POST",
                url,
                headers=headers,
                json=body,
                proxy=settings.proxy or None,
                allow_redirects=False,
            ) as answer,
        ):
            said = await answer.content.read(_CAP)
            if answer.status != 200:
                raise Unanswered(f"{settings.provider} says {answer.status} to {url}")
            told = orjson.loads(said)
    except orjson.JSONDecodeError:
        told = None
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        what = secret.hidden_in(f"{type(exc).__name__}: {exc}")
        raise Unreachable(f"{settings.provider}: no answer from {url}: {what}") from None
    if not isinstance(told, dict):
        raise Unanswered(f"{settings.provider} says no JSON object at {url}")
    return told
