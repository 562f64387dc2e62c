"""Raters who answer by script over real HTTP, and keep every byte that they receive."""

import asyncio
import re
from collections.abc import Callable
from html import unescape

import aiohttp

from tests.waiting import PATIENCE

Answer = Callable[["Page"], dict[str, str]]


class Page:
    """The current page of a rater."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def ticket(self) -> str:
        return re.search(r'name="ticket" value="(\w+)"', self.text)[1]  # type: ignore[index]

    @property
    def is_task(self) -> bool:
        return 'name="ticket"' in self.text

    @property
    def is_before(self) -> bool:
        return 'action="/believe"' in self.text

    @property
    def question(self) -> str:
        match = re.search(r'id="about">Question</h2>\s*<p[^>]*>(.*?)</p>', self.text, re.DOTALL)
        return unescape(match[1]) if match else ""

    @property
    def labels(self) -> list[str]:
        return re.findall(r'<label for="p\d+">\((.*?)\)', self.text)

    @property
    def turns(self) -> list[str]:
        """Every turn on the page, with its speaker, as markup."""
        articles = re.findall(r'<article class="turn".*?</article>', self.text, re.DOTALL)
        return [unescape(article) for article in articles]


def percents(page: Page, first: float = 70.0) -> dict[str, str]:
    """A belief: `first` percent for the first option; the others share the rest."""
    others = (100 - first) / max(len(page.labels) - 1, 1)
    return {f"p{n}": f"{first if n == 0 else others:g}" for n, _ in enumerate(page.labels)}


class ScriptedRater:
    def __init__(self, link: str, session: aiohttp.ClientSession) -> None:
        self.root, _, self.token = link.partition("?token=")
        self.session = session
        self.cookie = ""
        self.sent: list[bytes] = []
        """Every body that the server sent, and its headers."""
        self.answered: list[Page] = []

    async def headers(self) -> dict[str, str]:
        """The headers of a browser after it opened the link."""
        if not self.cookie:
            link = f"{self.root}?token={self.token}"
            async with self.session.get(link, allow_redirects=False) as answer:
                self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return {"Cookie": self.cookie, "Origin": self.root.rstrip("/")}

    async def get(self) -> Page:
        async with self.session.get(self.root, headers=await self.headers()) as answer:
            body = await answer.read()
            self.sent += [body, str(answer.headers).encode()]
            return Page(body.decode())

    async def post(self, path: str, fields: dict[str, str]) -> tuple[int, str]:
        async with self.session.post(
            f"{self.root}{path}", data=fields, headers=await self.headers(), allow_redirects=False
        ) as answer:
            body = await answer.read()
            self.sent += [body, str(answer.headers).encode()]
            return answer.status, answer.headers.get("Location", body.decode())

    async def answer(self, page: Page, how: Answer = percents) -> tuple[int, str]:
        path = "believe" if page.is_before else "answer"
        if not page.is_before:
            self.answered.append(page)
        return await self.post(path, {"ticket": page.ticket, **how(page)})

    async def work(self, how: Answer = percents, most: int = 10_000) -> int:
        """Answer until no task is left; the number answered."""
        await self.post("begin", {})
        answered = 0
        while answered < most:
            page = await self.get()
            if "That was the last one" in page.text:
                break
            if not page.is_task:
                await self.news()
                continue
            status, body = await self.answer(page, how)
            assert status == 303, body
            answered += not page.is_before
        return answered

    async def news(self) -> None:
        """Wait as the page does."""
        async with (
            asyncio.timeout(PATIENCE),
            self.session.get(f"{self.root}events", headers=await self.headers()) as stream,
        ):
            async for line in stream.content:
                self.sent.append(line)
                if line.startswith(b"data:"):
                    return
