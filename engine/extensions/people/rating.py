"""The raters' pages: a rater's current task, and the handling of answers."""

import asyncio
import hashlib
import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from aiohttp import web

from ...display.progress import Snapshot
from ...errors import EngineError, UsageError
from ...run.observer import Observer
from ...views.cli.output import say
from ...views.pages.environment import EVERY, page
from ...views.pages.guard import TOKEN, AccessRules, Handler
from ...views.pages.links import Links
from ...views.pages.server import Server, html
from .journal import Rater
from .task import CONFIRMED, DoubtfulPercentage
from .task_queue import NotReady, NotTheirs, TaskQueue

log = logging.getLogger(__name__)
PAGES = "oversight.engine.extensions.people:pages/"
SHEETS = ("base.css", f"{PAGES}rating.css", "base.js", f"{PAGES}rating.js")
COOKIE = "oversight_rater"
"""Beginning of the name of the cookie with a rater's key. A digest of the study's first key
follows, so that two studies on one host have different cookies."""
FIELD_NAMES = re.compile(rf"p\d{{1,4}}|f-.{{1,200}}|reason|text|choice|{CONFIRMED}")
"""Names of the fields of an answer; any other field is dropped."""
SCRIPT_HEADER = "X-Script"
"""Header of forms sent by our script, which is answered with an address, not a redirect."""
KEEP_ALIVE = 15.0
"""Seconds between two comments that keep the connection of a waiting page open."""
RETRY_AFTER = 2
"""Seconds after which a page resends an answer that could not be accepted yet."""
NOTICES = {"saved": "Saved.", "none": "Saved as unanswered."}


class RaterServer(Server, Observer):
    """Serves a task queue to its raters, each by a personal link. The pages stay up after the last
    answer until the owner stops them, so that a rater can still read that all is saved."""

    sheets = (*EVERY, *SHEETS)

    def __init__(
        self, queue: TaskQueue, host: str = "127.0.0.1", port: int = 0, url: str = ""
    ) -> None:
        """port: 0 for any. url: public address of the pages; empty for the server's."""
        self._by_key = {rater.key: rater for rater in queue.raters.values()}
        keys = tuple(self._by_key)
        cookie = f"{COOKIE}_{hashlib.sha256(keys[0].encode()).hexdigest()[:12]}"
        super().__init__(AccessRules(host, keys, cookie, ("GET", "HEAD", "POST"), public_url=url))
        self.queue = queue
        self._requested_port = port
        self._visited = False

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        return self.open()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the body runs. UsageError if the port is in use."""
        async with AsyncExitStack() as stack:
            try:
                root = await stack.enter_async_context(self.serving(self._requested_port))
            except OSError as exc:
                raise UsageError(
                    f"--port {self._requested_port} of {self.access.host}: {exc.strerror or exc}; "
                    "choose another one, or 0 for any"
                ) from exc
            for rater, link in self.links(root):
                say(f"{rater.name}  {link}")
            say("send each link to one person: anyone who opens it answers as that rater")
            yield
            if self.queue.stop_token.halt is None and self._visited:
                self.queue.finish()
                ended = asyncio.Event()
                self.queue.stop_token.listen(ended.set)
                say("all answers are saved; the pages stay up until Ctrl-C")
                await ended.wait()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._current),
            web.get("/events", self._events),
            web.post("/begin", self._begin),
            web.post("/believe", self._save),
            web.post("/answer", self._save),
            web.post("/abstain", self._save),
            web.get("/leave", self._leave),
            web.post("/leave", self._withdraw),
        ]

    def application(self) -> web.Application:
        app = super().application()
        app.middlewares.append(self._unsaved)
        return app

    @web.middleware
    async def _unsaved(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell the rater if an answer cannot be written, and no more than that."""
        try:
            return await handler(request)
        except EngineError as fault:
            # The fault names files of the study, so it is logged for the researcher only.
            log.error("an answer of %s is not saved: %s", self._rater(request).name, fault)
            message = "Your answer could not be saved. Please tell the person who sent the link."
            return refusal(message, 500, _fields(await request.post()))

    def links(self, root: str) -> Iterable[tuple[Rater, str]]:
        """The link of each rater. Anyone who opens it answers as this rater."""
        return [(rater, f"{root}?token={rater.key}") for rater in self.queue.raters.values()]

    async def _leave(self, request: web.Request) -> web.StreamResponse:
        return html(rater_page("leave", "Leave the study"))

    async def _withdraw(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        await self.queue.withdraw(self._rater(request).name, erasing=form.get("erase") == "1")
        return web.Response(status=303, headers={"Location": "/"})

    def _rater(self, request: web.Request) -> Rater:
        return self._by_key[request[TOKEN]]

    async def _current(self, request: web.Request) -> web.StreamResponse:
        notice = NOTICES.get(request.query.get("said", ""), "")
        return await self._task_page(self._rater(request), notice=notice)

    async def _task_page(
        self,
        rater: Rater,
        *,
        notice: str = "",
        fault: ValueError | None = None,
        posted: Mapping[str, str] | None = None,
    ) -> web.Response:
        """The page of a rater's current task. fault: why the last answer was not accepted."""
        queue, history = self.queue, self.queue.histories.of[rater.name]
        self._visited = True
        if not (history.consented or history.withdrawn):
            return html(rater_page("welcome", "Before you begin", how=queue.settings))
        offer = await queue.offer(rater)
        about = {"progress": queue.progress(rater), "said": notice}
        if offer is None and queue.finished(rater):
            title = "You have left the study" if history.withdrawn else "Thank you"
            return html(rater_page("over", title, gone=history.withdrawn, **about))
        if offer is None:
            return html(rater_page("waiting", "Nothing to judge right now", **about))
        task = offer.task
        text, answers = task.question
        body = rater_page(
            "task",
            "Your judgement" if task.is_probable else "Your turn",
            task=task,
            question=text,
            answers=answers,
            offer=offer,
            before=offer.before,
            fault=str(fault or ""),
            doubtful=isinstance(fault, DoubtfulPercentage),
            posted=defaultdict(str, posted or {}),
            **about,
        )
        return html(body, 422 if fault else 200)

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        await self.queue.consent(self._rater(request))
        return _back(request, "")

    async def _save(self, request: web.Request) -> web.StreamResponse:
        """Save a belief, an answer or an abstention, depending on the path."""
        queue, rater = self.queue, self._rater(request)
        try:
            posted = await request.post()
        except (ValueError, LookupError) as malformed:
            raise web.HTTPBadRequest(text="not a form") from malformed
        ticket, fields = str(posted.get("ticket", "")), _fields(posted)
        try:
            match request.path:
                case "/believe":
                    await queue.believe(rater, ticket, fields)
                    return _back(request, "")
                case "/abstain":
                    await queue.answer(rater, ticket, None)
                    return _back(request, "none")
            await queue.answer(rater, ticket, fields)
            return _back(request, "saved")
        except ValueError as fault:
            return await self._task_page(rater, fault=fault, posted=fields)
        except NotTheirs as fault:
            return refusal(str(fault), 409, fields)
        except NotReady as fault:
            answer = refusal(f"{fault} Send it again in a moment.", 503, fields)
            answer.headers["Retry-After"] = str(RETRY_AFTER)
            return answer

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """One event as soon as the rater has a task, or the study is over."""
        queue, rater = self.queue, self._rater(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while not (queue.over or queue.has_for(rater)):
                await response.write(b": nothing yet\n\n")
                await queue.news(KEEP_ALIVE)
            await response.write(b"data: ready\n\n")
        except ConnectionError:
            pass  # the rater closed the page
        return response


class RaterLinks(Links):
    """The pages of a rater: without links, but listening for events."""

    connects = True


def rater_page(stage: str, title: str, **values: object) -> str:
    """A page of the raters. stage: a part of the template, with the values that it takes."""
    return page(f"{PAGES}rating", RaterLinks(), title=title, sheets=SHEETS, stage=stage, **values)


def refusal(message: str, status: int, posted: Mapping[str, str] | None = None) -> web.Response:
    """The page for an answer that was not saved. It shows the text, so that nobody retypes it."""
    typed = [text for name, text in (posted or {}).items() if text and name != CONFIRMED]
    return html(rater_page("refused", "This was not saved", said=message, typed=typed), status)


def _fields(posted: Mapping[str, object]) -> dict[str, str]:
    """The fields of an answer among all that was posted."""
    texts = {name: text for name, text in posted.items() if isinstance(text, str)}
    return {name: text for name, text in texts.items() if FIELD_NAMES.fullmatch(name)}


def _back(request: web.Request, notice: str) -> web.Response:
    path = f"/?said={notice}" if notice else "/"
    if SCRIPT_HEADER in request.headers:
        # A script would follow a redirect and fetch the page in vain.
        return web.Response(text=path)
    return web.Response(status=303, headers={"Location": path})
