"""Requests to a vendor other than calls: JSON, uploads and downloads."""

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ..errors import EngineError, OutcomeUnknown, ProviderDown, Unreachable
from ..providers.fault import read_fault
from ..providers.payload import text, tree
from ..providers.secret import Secret
from ..providers.settings import Settings
from ..providers.wire import Wire
from ..system.files import unwritable

if TYPE_CHECKING:
    import aiohttp

TRANSFER_TIMEOUT = 3600.0
"""Seconds for the transfer of one file."""
_CAP = 32 * 2**20
"""Maximum size of a JSON answer (bytes)."""
_PIECE = 2**18


class VendorHttp:
    """Requests to one provider with the key and headers of its calls. Raises what calls raise."""

    def __init__(self, settings: Settings, wire: Wire) -> None:
        self._settings = settings
        self._wire = wire
        self.secret = Secret(settings.key)
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        json: object = None,
        file: Path | None = None,
        purpose: str = "",
    ) -> dict[str, Any]:
        """The JSON object that answers a request.

        path: below the provider's base URL. file: the body; with a purpose, a part of a form.
        """
        with ExitStack() as opened:
            body: Any = None if json is None else orjson.dumps(json)
            if file is not None:
                body = opened.enter_context(file.open("rb"))
            if purpose:
                body = _form(purpose, body)
            async with self._answer(method, path, query, body, bool(purpose)) as answer:
                told = await answer.content.read(_CAP)
                while not answer.content.at_eof() and len(told) < _CAP:
                    told += await answer.content.read(_CAP)
        return tree(self.secret.hidden(told), self._settings.provider)

    async def listed(self, path: str, cursor: str) -> AsyncIterator[dict[str, Any]]:
        """All entries of a list, the newest first.

        cursor: the parameter that names the last entry of the page before.
        """
        query = {"limit": "100"}
        while True:
            page = await self.ask("GET", path, query=query)
            for each in page["data"]:
                yield each
            if not (page.get("has_more") and page["data"]):
                return
            query[cursor] = text(page["data"][-1]["id"])

    async def download(self, path: str, into: Path) -> None:
        """Append a download to a file, whole or not at all. RunFolderError."""
        try:
            with into.open("ab") as file:
                start = file.tell()
                try:
                    async with self._answer("GET", path, None, None) as answer:
                        async for piece in answer.content.iter_chunked(_PIECE):
                            file.write(piece)
                except BaseException:
                    file.truncate(start)
                    raise
        except OSError as exc:
            raise unwritable(into, exc) from exc

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        form: bool = False,
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        import aiohttp  # not needed where the store has all replies

        source, url = self._settings.provider, f"{self._settings.base_url}{path}"
        try:
            async with self._opened().request(
                method, url, params=query, data=body, headers=self._headers(form),
                proxy=self._settings.proxy or None, allow_redirects=False,
            ) as answer:  # fmt: skip
                if not 200 <= answer.status < 300:
                    said = self.secret.hidden(await answer.content.read(_CAP))
                    limits = self._wire.limits(answer.headers)
                    raise read_fault(source, answer.status, answer.headers, limits, said).error()
                yield answer
        except EngineError:
            raise
        except aiohttp.ClientConnectorCertificateError as exc:
            raise ProviderDown(
                f"{source}: the certificate of {exc.host} is not to be trusted: {exc}"
            ) from None
        except aiohttp.ClientConnectorError as exc:
            raise Unreachable(f"{source}: no connection: {self._told(exc)}") from None
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise OutcomeUnknown(f"{source}: no whole answer: {self._told(exc)}") from None

    def _headers(self, form: bool) -> dict[str, str]:
        settings = self._settings
        headers = self._wire.headers()
        if form:
            del headers["content-type"]
        for option in ("organization", "project"):
            if value := settings.option(option):
                headers[f"openai-{option}"] = value
        return headers | (self._wire.auth(settings.key) if settings.key else {})

    def _told(self, exc: Exception) -> str:
        return self.secret.hidden_in(f"{type(exc).__name__}: {exc}")

    def _opened(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(TRANSFER_TIMEOUT, sock_connect=60.0, sock_read=600.0),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _form(purpose: str, file: Any) -> "aiohttp.FormData":
    import aiohttp

    form = aiohttp.FormData()
    form.add_field("purpose", purpose)
    form.add_field("file", file, filename=f"{purpose}.jsonl", content_type="application/jsonl")
    return form
