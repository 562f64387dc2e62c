"""Faults on the wire: refused requests and spoilt replies."""

import asyncio
import gzip
from functools import lru_cache

import orjson

from .connection import Connection
from .profile import FaultKind, Profile
from .server_wire import ServerWire

_DRIP_INTERVAL = 0.4
"""Seconds between the bytes of a dripping answer; a read timeout longer than this never fires."""
_MB = 2**20
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"


def refuse(fault: FaultKind, connection: Connection, dialect: ServerWire, profile: Profile) -> bool:
    """Answer in place of a reply, at once and free; False if `fault` spoils a reply instead."""
    match fault:
        case "rate_limit" | "overloaded":
            status, body = dialect.complaint(fault)
            connection.answer(status, body, dialect.wait(profile.delay / profile.speed))
        case "server_error" | "unauthorized" | "quota" | "policy" | "too_long":
            connection.answer(*dialect.complaint(fault))
        case "html":
            connection.answer(502, _PAGE, "content-type: text/html\r\n")
        case "reset":
            connection.tear()
        case "stall":
            pass  # Never answered; the connection stays as it is until the client gives up.
        case _:
            return False
    return True


def spoil(
    fault: FaultKind,
    connection: Connection,
    dialect: ServerWire,
    body: bytes,
    limits: str,
    profile: Profile,
) -> None:
    """Send a billed reply in an unusable form."""
    match fault:
        case "cut":
            connection.begin(
                200, f"content-length: {len(body)}\r\n{limits}", body[: len(body) // 2]
            )
            connection.tear()
        case "half_json":
            connection.answer(200, body[: len(body) // 2], limits)
        case "error_in_200":
            connection.answer(200, dialect.complaint(fault)[1], limits)
        case "unknown_stop":
            data = orjson.loads(body)
            dialect.stop_oddly(data)
            connection.answer(200, orjson.dumps(data), limits)
        case "gzip_bomb":
            connection.answer(200, _bomb(), "content-encoding: gzip\r\n")
        case "huge":
            connection.begin(200, f"content-length: {40 * _MB + len(body)}\r\n")
            for _ in range(40):
                connection.write(b" " * _MB)
            connection.write(body)
            connection.finish()
        case "drip":
            connection.begin(200, f"transfer-encoding: chunked\r\n{limits}")
            drops = round(profile.drip / _DRIP_INTERVAL)
            _drip(connection, body, drops, _DRIP_INTERVAL / profile.speed)


def _drip(connection: Connection, body: bytes, drops: int, pause: float) -> None:
    if connection.closed:
        return
    if not drops:
        connection.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        connection.finish()
        return
    connection.write(b"1\r\n\n\r\n")
    loop = asyncio.get_running_loop()
    loop.call_later(pause, _drip, connection, body, drops - 1, pause)


@lru_cache(maxsize=1)
def _bomb() -> bytes:
    return gzip.compress(b" " * (64 * _MB))
