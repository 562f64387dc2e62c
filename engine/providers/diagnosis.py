"""Diagnosis of a server that never answers since the base URL names the wrong protocol.

Libraries report such a mismatch as a parser's error, and servers differ: some answer in their own
protocol, some hang up. So the server is probed once more, without a key: for a TLS handshake, or
for the SETTINGS frame that every HTTP/2 server sends first.
"""

import asyncio
import ssl

import httptools

from .target import Target

_PATIENCE = 5.0
"""Timeout of one probe, in seconds."""
_HTTP_1 = b"OPTIONS * HTTP/1.1\r\nhost: %s\r\nconnection: close\r\n\r\n"
_HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The HTTP/2 client preface, with an empty SETTINGS frame."""
_SETTINGS = 4
"""Type (fourth byte) of the frame that an HTTP/2 server sends first."""

_NO_TLS = "it speaks plain HTTP there, and no TLS: write http:// in the base URL"
_ONLY_TLS = "it speaks TLS there: write https:// in the base URL"
_ONLY_HTTP_2 = (
    "it speaks HTTP/2 only, and HTTP/1.1 is spoken here: have the server accept HTTP/1.1 too, or "
    "give the base URL of a proxy before it that does"
)


async def mix_up(target: Target, failure: Exception) -> str:
    """What is wrong with the base URL, and the remedy; empty if it is not the cause.

    failure: how the first exchange with the server failed.
    """
    if isinstance(failure, ssl.SSLError):
        if "no application protocol" in str(failure):
            return _ONLY_HTTP_2
        said = await _answer(target, _HTTP_1 % target.headers["host"].encode(), tls=False)
        return _NO_TLS if said is not None and said.startswith(b"HTTP/") else ""
    if not target.tls and await _answer(target, b"", tls=True) is not None:
        return _ONLY_TLS
    if isinstance(failure, httptools.HttpParserError):
        said = await _answer(target, _HTTP_2, tls=target.tls)
        return _ONLY_HTTP_2 if said is not None and said[3:4] == bytes((_SETTINGS,)) else ""
    return ""


def distrusted(target: Target, failure: ssl.SSLCertVerificationError) -> str:
    """Why a certificate is not trusted, and the remedy."""
    why = getattr(failure, "verify_message", None) or str(failure)
    return (
        f"the certificate of {target.address} is not to be trusted: {why}; if the server is yours, "
        "name a file with its certificate, or with that of who signed it, in SSL_CERT_FILE"
    )


async def _answer(target: Target, question: bytes, *, tls: bool) -> bytes | None:
    """The first bytes that a server sends; None if the connection fails. Its certificate is not
    verified: no key or prompt is sent to it."""
    context = None
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(target.host, target.port, ssl=context)
    except OSError:
        return None
    try:
        async with asyncio.timeout(_PATIENCE):
            if not question:
                return b""
            writer.write(question)
            return await reader.read(16)
    except OSError:
        return b""
    finally:
        writer.transport.abort()
