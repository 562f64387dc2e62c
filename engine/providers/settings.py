"""Settings of providers from the sweep file, the environment and `.env`, read once at the edge."""

import codecs
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Literal, TypeAlias

from ..errors import UsageError
from ..stop import StopToken

Api: TypeAlias = Literal["chat", "responses"]
"""Which of OpenAI's two endpoints answers: chat completions, or responses."""

DEADLINE = 600.0
"""Default deadline of an exchange: seconds from sending a request to the whole answer."""

LONGEST = 86_400.0
"""Maximum deadline of an exchange, in seconds: a day."""

CONNECTIONS, OWN_CONNECTIONS = 1000, 4096
"""Default maximum connections of a vendor and of a self-hosted server."""

WIDEST = 65_535
"""Maximum connections between two addresses: the number of ports."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The settings of a provider in a sweep file, under `providers`."""

    base_url: str = ""
    """Address; empty for the environment's or the default."""
    identity: str = ""
    """The identity under which its replies are stored: keep it when a server moves."""
    version: str = ""
    """Version of the API, if the provider has several."""
    deadline: float = DEADLINE
    """Seconds for one exchange, from sending the request to the whole answer."""
    connections: int | None = None
    """Maximum connections, and so calls in flight. Default: 1000, 4096 for an own server, or the
    sum of the `concurrency` of its models, within the limit on open files."""
    api: Literal["auto", "chat", "responses"] = "auto"
    """Which of OpenAI's endpoints to use. `auto`: chat completions, or responses for models whose
    tools need it. Replies of the two are stored separately."""

    def __post_init__(self) -> None:
        for name in ("base_url", "identity", "version"):
            if not getattr(self, name).isprintable():
                raise ValueError(f"{name}: {getattr(self, name)!r} has an unprintable character")
        if not 0 < self.deadline <= LONGEST:
            raise ValueError(f"deadline: {self.deadline:g} is not in (0, {LONGEST:g}] seconds")
        if self.connections is not None and not 1 <= self.connections <= WIDEST:
            raise ValueError(f"connections: {self.connections} is not between 1 and {WIDEST:,}")


@dataclass(frozen=True, slots=True)
class Settings:
    provider: str
    """Its name in front of a model's name: `openai`, `compatible/lab`."""
    base_url: str
    identity: str
    """Part of a store key, after the address: replies are reused only within one identity."""
    vendors_own: bool = False
    """Whether this is the vendor's own endpoint, not a proxy, rehearsal or user's server."""
    key: str = field(default="", repr=False)
    """Empty if the server needs none, or if a cloud's client finds credentials."""
    deadline: float = DEADLINE
    """Seconds for one exchange."""
    connections: int = CONNECTIONS
    """Maximum open connections."""
    proxy: str = field(default="", repr=False)
    """URL of a proxy, which may hold a password; empty for none."""
    options: tuple[tuple[str, str], ...] = ()
    """Further (name, value) options of the provider's client: organization, region, version."""
    api: Api = "chat"
    """Which of OpenAI's endpoints is used, on the OpenAI wire."""
    models: tuple[tuple[str, str], ...] = ()
    """(name, underlying model) of models under the user's names, such as deployments."""
    address_from: str = ""
    """Source of the address, if it is not the default."""
    stop_token: StopToken | None = field(default=None, repr=False, compare=False)
    """Once it is set, a call that waits for a connection is not sent."""
    on_mixed: Callable[[str, tuple[str, ...]], None] | None = field(
        default=None, repr=False, compare=False
    )
    """Called with the provider's name and the addresses of calls whose replies may be mixed up."""
    refused: str = ""
    """Why sending is refused: a file would redirect a key, or store replies as a vendor's."""

    def option(self, name: str) -> str:
        """The value of an option; empty if not set."""
        return dict(self.options).get(name, "")


_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order mark -> encoding. Some Windows shells write `.env` as UTF-16."""


class Environment(dict[str, str]):
    beside: frozenset[str] = frozenset()
    """Names of variables from `.env`, a file that anybody may have put next to a sweep."""


def environment(folder: Path) -> Environment:
    """The process's environment, which overrides `.env` in the folder if it exists. Raises
    UsageError if `.env` cannot be read or is not text."""
    from_file: Mapping[str, str | None] = {}
    if (file := folder / ".env").exists():
        # Imported late: most runs have no `.env`.
        from dotenv import dotenv_values

        from_file = dotenv_values(stream=StringIO(_text(file)))
    variables = Environment({name: value or "" for name, value in from_file.items()} | os.environ)
    variables.beside = frozenset(from_file.keys() - os.environ.keys())
    return variables


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
    except OSError as exc:
        raise UsageError(f"{file} cannot be read: {exc.strerror}") from None
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise UsageError(
            f"{file}, line {line}: this is not {encoding.upper()} text; save it as UTF-8"
        ) from None
    if "\0" in text:
        raise UsageError(f"{file} contains zero bytes; save it as UTF-8 text")
    return text
