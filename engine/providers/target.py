"""Where requests go, and how they begin."""

from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote, urlsplit

Origin: TypeAlias = tuple[str, int, bool]
"""Host, port, and whether TLS is spoken there."""

_ALWAYS = {"accept-encoding": "gzip, deflate", "user-agent": "oversight-bench"}
"""Default headers of every request."""


class Target:
    """A method, a URL and headers. It holds a key, and shows none of it in its repr.

    ValueError if a header holds a line break: it would inject a header.
    """

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
        """Request line and headers but for the length, which follows."""
        if not self.head.count(b"\r") == self.head.count(b"\n") == len(lines):
            raise ValueError("a header holds a line break")

    @property
    def address(self) -> str:
        """The URL without its path."""
        return self.url.partition("://")[0] + "://" + self.headers["host"]
