"""Free requests to a server's information endpoints: its models, their limits and end dates.

They are sent before a run or by a checkup, never while a call is under way.
"""

from dataclasses import replace
from typing import Any

import orjson

from ..errors import EngineError, Malformed, Unreachable
from .connecting import wire_of
from .settings import Settings
from .target import Target

INQUIRY_TIMEOUT = 20.0
"""Timeout of one request, in seconds."""

_CAP = 4 * 2**20
"""Maximum size of one answer, in bytes."""


class Unanswered(EngineError):
    """The server was reached, but does not offer this information."""

    status = 200
    """Of the answer, which may hold something else."""


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


async def model_names(settings: Settings, base_url: str) -> list[str]:
    """A server's names of its models, in its order. Raises as `inquire`."""
    listed = (await inquire(settings, f"{base_url.rstrip('/')}/models")).get("data")
    rows = listed if isinstance(listed, list) else []
    names = (row.get("id") for row in rows if isinstance(row, dict))
    return [name for name in names if isinstance(name, str) and name]


async def fetch(settings: Settings, url: str, body: object = None) -> bytes:
    """What stands at one of the server's URLs. Raises as `inquire`, whatever it is."""
    # Not at the top: where the store has all replies, nobody is asked anything.
    from .http_client import HttpClient

    wire = wire_of(settings)
    headers = wire.headers() | (wire.auth(settings.key) if settings.key else {})
    client = HttpClient(replace(settings, deadline=INQUIRY_TIMEOUT), cap=_CAP, diagnoses=False)
    try:
        target = Target("GET" if body is None else "POST", url, headers)
        content = b"" if body is None else orjson.dumps(body)
        answer = client.read(await client.send(target, content))
    except Malformed as exc:
        raise Unanswered(f"{exc} at {url}") from None
    except EngineError as exc:
        raise Unreachable(f"{settings.provider}: no answer from {url}: {exc}") from None
    finally:
        del headers
        await client.close()
    if answer.status != 200:
        unanswered = Unanswered(f"{settings.provider} says {answer.status} to {url}")
        unanswered.status = answer.status
        raise unanswered
    return answer.body
