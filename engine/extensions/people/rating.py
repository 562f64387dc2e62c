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
from .desk import Desk, NotReady, NotTheirs
from .journal import Rater
from .task import CONFIRMED, DoubtfulPercentage

log = logging.getLogger(__name__)

PAGES = "oversight.engine.extensions.people:pages/"
SHEETS = ("base.css", f"{PAGES}rating.css", "base.js", f"{PAGES}rating.js")

COOKIE = "oversight_rater"
"""Beginning of the name of the cookie with a rater's key; a digest of the study's first key
follows, so that two studies on one host do not overwrite each other's."""

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
    """Serves a desk to its raters, each by a link of their own: as long as a run is watched, and
    then until its owner ends it, so that whoever looks again after the last answer reads that all
    is saved."""

    sheets = (*EVERY, *SHEETS)

    def __init__(self, desk: Desk, host: str = "127.0.0.1", port: int = 0, url: str = "") -> None:
        """port: 0 for any. url: address under which raters reach the pages, where it is not the
        server's own."""
        self._by_key = {rater.key: rater for rater in desk.raters.values()}
        keys = tuple(self._by_key)
        cookie = f"{COOKIE}_{hashlib.sha256(keys[0].encode()).hexdigest()[:12]}"
        super().__init__(AccessRules(host, keys, cookie, ("GET", "HEAD", "POST"), public_url=url))
        self.desk = desk
        self._wanted = port
        self._visited = False

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        return self.open()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the body runs. UsageError where the port is taken."""
        async with AsyncExitStack() as stack:
            try:
                root = await stack.enter_async_context(self.serving(self._wanted))
            except OSError as taken:
                raise UsageError(
                    f"--port {self._wanted} of {self.access.host}: {taken.strerror or taken}; "
                    "take another, or 0 for any"
                ) from taken
            for rater, link in self.links(root):
                say(f"{rater.name}  {link}")
            say("send each link to one person; whoever opens it answers in that rater's name")
            yield
            if self.desk.stop_token.halt is None and self._visited:
                self.desk.finish()
                ended = asyncio.Event()
                self.desk.stop_token.listen(ended.set)
                say("all is answered and saved; the pages stay up until Ctrl-C")
                await ended.wait()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._now),
            web.get("/events", self._events),
            web.post("/begin", self._begin),
            web.post("/believe", self._taken),
            web.post("/answer", self._taken),
            web.post("/abstain", self._taken),
            web.get("/leave", self._leave),
            web.post("/leave", self._left),
        ]

    def application(self) -> web.Application:
        app = super().application()
        app.middlewares.append(self._unsaved)
        return app

    @web.middleware
    async def _unsaved(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Where something cannot be written down, the rater is told so, and nothing else."""
        try:
            return await handler(request)
        except EngineError as fault:
            # The fault names files of the study, so it is logged for the researcher only.
            log.error("what %s sent is not saved: %s", self._rater(request).name, fault)
            said = "Your answer could not be saved. Please tell whoever sent you the link."
            return refusal(said, 500, _fields(await request.post()))

    def links(self, root: str) -> Iterable[tuple[Rater, str]]:
        """The link of each rater: whoever opens it answers in this rater's name."""
        return [(rater, f"{root}?token={rater.key}") for rater in self.desk.raters.values()]

    async def _leave(self, request: web.Request) -> web.StreamResponse:
        return html(rater_page("leave", "Leave the study"))

    async def _left(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        await self.desk.withdraw(self._rater(request).name, erasing=form.get("erase") == "1")
        return web.Response(status=303, headers={"Location": "/"})

    def _rater(self, request: web.Request) -> Rater:
        return self._by_key[request[TOKEN]]

    async def _now(self, request: web.Request) -> web.StreamResponse:
        said = NOTICES.get(request.query.get("said", ""), "")
        return await self._shown(self._rater(request), said=said)

    async def _shown(
        self,
        rater: Rater,
        *,
        said: str = "",
        fault: ValueError | None = None,
        posted: Mapping[str, str] | None = None,
    ) -> web.Response:
        """The page of a rater's current task. fault: why the last answer was not accepted."""
        desk, known = self.desk, self.desk.history.of[rater.name]
        self._visited = True
        if not (known.consented or known.withdrawn):
            return html(rater_page("welcome", "Before you begin", how=desk.settings))
        offer = await desk.offer(rater)
        about = {"progress": desk.progress(rater), "said": said}
        if offer is None and desk.finished(rater):
            title = "You have left the study" if known.withdrawn else "Thank you"
            return html(rater_page("over", title, gone=known.withdrawn, **about))
        if offer is None:
            return html(rater_page("waiting", "Nothing to judge right now", **about))
        task = offer.task
        text, answers = task.question
        shown = rater_page(
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
        return html(shown, 422 if fault else 200)

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        await self.desk.consent(self._rater(request))
        return _back(request, "")

    async def _taken(self, request: web.Request) -> web.StreamResponse:
        """Take what a rater sends: a belief, an answer or an abstention, by the path."""
        desk, rater = self.desk, self._rater(request)
        try:
            posted = await request.post()
        except (ValueError, LookupError) as malformed:
            raise web.HTTPBadRequest(text="this is no form") from malformed
        ticket, sent = str(posted.get("ticket", "")), _fields(posted)
        try:
            match request.path:
                case "/believe":
                    await desk.believe(rater, ticket, sent)
                    return _back(request, "")
                case "/abstain":
                    await desk.abstain(rater, ticket)
                    return _back(request, "none")
            await desk.answer(rater, ticket, sent)
            return _back(request, "saved")
        except ValueError as fault:
            return await self._shown(rater, fault=fault, posted=sent)
        except NotTheirs as fault:
            return refusal(str(fault), 409, sent)
        except NotReady as fault:
            answer = refusal(f"{fault} Send it again in a moment.", 503, sent)
            answer.headers["Retry-After"] = str(RETRY_AFTER)
            return answer

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """One event as soon as there is something for the rater."""
        desk, rater = self.desk, self._rater(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while not (desk.over or desk.has_for(rater)):
                await response.write(b": nothing yet\n\n")
                await desk.news(KEEP_ALIVE)
            await response.write(b"data: ready\n\n")
        except ConnectionError:
            pass  # the rater closed the page
        return response


class DeskLinks(Links):
    """The pages of a rater: without links, but listening for events."""

    connects = True


def rater_page(stage: str, title: str, **values: object) -> str:
    """A page of the raters. stage: which part of it, with the values that this part takes."""
    return page(f"{PAGES}rating", DeskLinks(), title=title, sheets=SHEETS, stage=stage, **values)


def refusal(said: str, status: int, posted: Mapping[str, str] | None = None) -> web.Response:
    """The page shown when an answer was not saved, with what was typed: nobody types it twice."""
    typed = [text for name, text in (posted or {}).items() if text and name != CONFIRMED]
    return html(rater_page("refused", "This was not saved", said=said, typed=typed), status)


def _fields(posted: Mapping[str, object]) -> dict[str, str]:
    """The fields of an answer, of all that was sent."""
    texts = {name: text for name, text in posted.items() if isinstance(text, str)}
    return {name: text for name, text in texts.items() if FIELD_NAMES.fullmatch(name)}


def _back(request: web.Request, said: str) -> web.Response:
    place = f"/?said={said}" if said else "/"
    if SCRIPT_HEADER in request.headers:
        # A script that followed a redirect would fetch the page in vain.
        return web.Response(text=place)
    return web.Response(status=303, headers={"Location": place})
