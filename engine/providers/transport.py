"""One HTTP exchange: its target, the key to hide, and the transport interface.

A server may never answer because the base URL has the wrong protocol, which libraries report as a
parser's error. So it is probed once more, without a key: for a TLS handshake, or for the SETTINGS
frame that every HTTP/2 server sends first."""

import asyncio
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterator, Mapping
from traceback import clear_frames
from typing import TypeAlias
from urllib.parse import quote, urlsplit

from msgspec import Struct

BODY_CAP = 32 * 2**20
PROXY_REMEDY = (
    "it wants a name and a password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT, or NO_PROXY for "
    "servers that need none"
)
"""The fix for a 407."""


class Response(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Looked up by lower-case name."""
    body: bytes
    repeats_key: bool = False
    """Whether a key was found and hidden; see `Secret`."""
    sent: float = 0.0
    """When its request was sent (loop time, s); 0 if unknown."""


NOTHING = Response(0, {}, b"")
"""Replaces a response that must not be kept in memory."""


class Transport(ABC):
    """Sends requests to one server. Any status is a Response; only a failed exchange raises.

    Raises: as `HttpClient`; AuthenticationFailed if credentials are missing."""

    @abstractmethod
    def post(
        self, path: str, headers: Mapping[str, str], body: bytes, about: str = ""
    ) -> Awaitable[Response]:
        """Send a request; `read` takes its answer. about: a call's address, for messages.
        Cancellation closes the connection; whether the server has billed is then unknown."""

    @abstractmethod
    def read(self, came: Response) -> Response:
        """The answer of `post`, decompressed and without the key; see `HttpClient.read`."""

    async def quiet_down(self) -> None:
        """Wait for unsolicited answers after the last ones."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. Pending exchanges fail with OutcomeUnknown."""


def chain(exc: BaseException | None) -> Iterator[BaseException]:
    """An exception, then its causes and contexts."""
    errors: list[BaseException] = []
    while exc is not None and exc not in errors:
        errors.append(exc)
        yield exc
        exc = exc.__cause__ or exc.__context__


def forget(exc: BaseException) -> None:
    """Clear the frames of an exception's tracebacks, except running ones. Otherwise they keep the
    key, and bodies of up to 32 MB each, as long as the exception."""
    for fault in chain(exc):
        clear_frames(fault.__traceback__)


Origin: TypeAlias = tuple[str, int, bool]
"""Host, port, and whether TLS is used."""

_ALWAYS = {"accept-encoding": "gzip, deflate", "user-agent": "oversight-bench"}


class Target:
    """A method, a URL and headers. It holds a key, and hides it in its repr.

    ValueError if a header holds a line break: it would inject a header."""

    __slots__ = ("head", "headers", "host", "method", "origin", "port", "tls", "url")

    def __init__(self, method: str, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self.method, self.url = method, url
        self.tls = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.tls else 80)
        self.origin: Origin = (self.host, self.port, self.tls)
        self.headers = _ALWAYS | {name.lower(): value for name, value in headers.items()}
        self.headers.pop("content-length", None)
        name = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        self.headers["host"] = f"{name}:{parts.port}" if parts.port else name
        path = quote(parts.path, safe="/%:@!$&'()*+,;=~") or "/"
        lines = [f"{method} {path}{parts.query and '?' + parts.query} HTTP/1.1\r\n"]
        lines += [f"{name}: {value}\r\n" for name, value in self.headers.items()]
        self.head = "".join(lines).encode()
        """Request line and headers, without the length, which follows."""
        if not self.head.count(b"\r") == self.head.count(b"\n") == len(lines):
            raise ValueError("a header holds a line break")

    @property
    def address(self) -> str:
        return self.url.partition("://")[0] + "://" + self.headers["host"]


HIDDEN = "[key]"

_LONG = 16
_SHORT = 8
"""Characters. A key of `_LONG` or more is always a secret, and one of `_SHORT` or more if it mixes
letters and digits. Others are dummies (`EMPTY`, `none`, `test`, `1`), and hiding them would damage
ordinary words."""

_START = 12
"""First characters of a long key that are hidden too: messages may truncate what they quote."""

_ESCAPED = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_SLASH = re.compile(rb"\\+/")


class Secret:
    """Finds and hides a key in the forms in which servers repeat it: plain, JSON- or URL-escaped.

    | place of the key                    | action                                               |
    | ------------------------------------|------------------------------------------------------|
    | headers; the body of an error       | hidden, before anything reads or quotes it           |
    | a 200 without a reply               | hidden, then read, quoted and set aside              |
    | a 200, outside of the reply         | hidden; the reply is not affected                    |
    | a 200, in the reply itself          | KeyEchoed: neither stored as it is nor changed       |

    Models never see the key. In a reply it was inserted by a server that shows its callers'
    headers: its replies could only be stored falsified, and the key has leaked, so the run stops
    before it pays for another reply. Dummy keys are never hidden."""

    __slots__ = ("_forms", "_key", "_quoted", "_text_forms", "guarded")

    def __init__(self, key: str) -> None:
        mixed = bool(re.search(r"\d", key) and re.search(r"[A-Za-z]", key))
        guarded = len(key) >= _LONG or (mixed and len(key) >= _SHORT)
        self.guarded = guarded
        """Whether the key is a secret, not a dummy."""
        self._key = key.encode() if guarded else b""
        self._quoted = quote(key, safe="").encode()
        forms = _forms(key) if guarded else r"(?!)"
        self._text_forms = re.compile(forms)
        self._forms = re.compile(forms.encode())

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def repeated(self, body: bytes) -> bool:
        """Whether a body holds the key in any of its forms."""
        if not self._key:
            return False
        if self._key in body or self._quoted in body:
            return True
        if b"\\/" not in body and b"\\u00" not in body:
            return False
        plain = _ESCAPED.sub(lambda escape: bytes.fromhex(escape[1].decode()), body)
        return self._key in _SLASH.sub(b"/", plain)

    def hidden(self, body: bytes) -> bytes:
        return self._forms.sub(HIDDEN.encode(), body) if self._key else body

    def hidden_in(self, text: str) -> str:
        return self._text_forms.sub(HIDDEN, text) if self._key else text


def _forms(key: str) -> str:
    """Regular expression for a key whose characters may be escaped repeatedly."""

    def escaped(part: str) -> str:
        return "".join(
            rf"\\*(?:{re.escape(char)}|u00(?i:{ord(char):02x})|%(?i:{ord(char):02x}))"
            for char in part
        )

    if len(key) < _LONG:
        return escaped(key)
    cut = rf"{escaped(key[:_START])}(?:\\*[\w+/=.~%-])*"
    return f"{escaped(key)}|{cut}"


_PATIENCE = 5.0
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
    """The fault of the base URL, and the fix; empty if it is not the cause. failure: of the first
    exchange with the server."""
    if isinstance(failure, ssl.SSLError):
        if "no application protocol" in str(failure):
            return _ONLY_HTTP_2
        first_bytes = await _answer(target, _HTTP_1 % target.headers["host"].encode(), tls=False)
        return _NO_TLS if first_bytes is not None and first_bytes.startswith(b"HTTP/") else ""
    if not target.tls and await _answer(target, b"", tls=True) is not None:
        return _ONLY_TLS
    import httptools  # imported late: replays must not load the client

    if isinstance(failure, httptools.HttpParserError):
        first_bytes = await _answer(target, _HTTP_2, tls=target.tls)
        return (
            _ONLY_HTTP_2
            if first_bytes is not None and first_bytes[3:4] == bytes((_SETTINGS,))
            else ""
        )
    return ""


def distrusted(target: Target, failure: ssl.SSLCertVerificationError) -> str:
    """Why a certificate is not trusted, and the fix."""
    why = getattr(failure, "verify_message", None) or str(failure)
    return (
        f"the certificate of {target.address} is not trusted: {why}; if the server is yours, "
        "name a file with its certificate, or its issuer's, in SSL_CERT_FILE"
    )


async def _answer(target: Target, question: bytes, *, tls: bool) -> bytes | None:
    """The first bytes of a server; None if the connection fails. Its certificate is not verified:
    neither key nor prompt is sent."""
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
