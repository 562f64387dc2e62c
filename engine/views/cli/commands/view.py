"""`oversight view`: a run, or all runs of a folder, as pages in the browser."""

import asyncio
import secrets
import signal
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from annotated_types import Interval

from ....display.text import counted
from ....errors import UsageError
from ....run.folders import RUNS, is_run, run_folders
from ....system.settings import argument, flag
from ..flags import HOST, RECORDED_STORE, as_command, port
from ..naming import reader_of, run_named
from ..output import say, show

PORT = 7720
SAID_EVERY = 50
"""Transcripts between two lines of progress."""


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """Settings of a site's content."""

    transcripts: int = flag(
        "Number of transcripts: failed, flagged, and of lowest and highest ASD.",
        default=200,
        within=Interval(ge=0),
    )
    all_transcripts: bool = flag("Include every transcript.", default=False)
    no_calls: bool = flag("Leave out requests and replies.", default=False)
    no_notes: bool = flag("Leave out your notes on transcripts.", default=False)


@as_command
def command(
    *,
    word: str | None = argument("[RUN|FOLDER]"),
    port: int = port(PORT),
    host: str = HOST,
    store: str | None = RECORDED_STORE,
    no_open: bool = flag("Print the address; open no browser.", default=False),
    to: Path | None = flag(
        "Write the pages of RUN into this folder instead: a site, to open from disk or to serve.",
        name="--write",
    ),
    settings: SiteSettings,
) -> None:
    """Show RUN, or all runs in FOLDER (default: runs/), as pages in the browser until Ctrl-C.

    Transcripts come from the record in RUN, and requests from your store or from --store; nothing
    is sent to any model. Only this machine can reach the server, unless --host says otherwise; then
    a token, part of the address that is printed, is needed to see anything.

    With --write the pages become files. They load nothing from elsewhere, and contain model
    output and your problems: check them before sharing."""
    if to is not None:
        _write_site(run_named(word or ""), to, store, settings)
        return
    if settings != SiteSettings():
        raise UsageError(
            "--transcripts, --all-transcripts, --no-calls and --no-notes are for --write"
        )
    from ...pages.guard import is_loopback
    from ...pages.server import PageServer

    place = _place(word)
    token = "" if is_loopback(host) else secrets.token_urlsafe(24)
    server = PageServer(place, store, host=host, token=token)
    path = f"run/{place.resolve().name}" if is_run(place) else ""

    async def serve() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        try:
            async with server.serving(port) as root:
                at, question, query = root.partition("?")
                address = f"{at}{path}{question}{query}"
                say(f"{address}   (Ctrl-C ends it)")
                if not no_open:
                    await asyncio.to_thread(webbrowser.open, address)
                await stopped.wait()
        except OSError as taken:
            raise UsageError(
                f"--port {port} of {host}: {taken.strerror or taken}; take another, or 0 for any"
            ) from taken

    asyncio.run(serve())


def _place(word: str | None) -> Path:
    if word is None:
        return RUNS
    path = Path(word)
    if path.is_dir() and not is_run(path) and (any(run_folders(path)) or path == RUNS):
        return path
    return run_named(word)


def _write_site(run: Path, to: Path, store: str | None, settings: SiteSettings) -> None:
    """Write a run as a folder of pages: a new one, or an earlier site, which is replaced."""
    from ...pages.site import write_site

    def on_progress(written: int, all: int) -> None:
        if written % SAID_EVERY == 0:
            say(f"{written:,} of {all:,} transcripts")

    with reader_of(run, store) as opened:
        most = None if settings.all_transcripts else settings.transcripts
        written = write_site(
            opened,
            to,
            most=most,
            calls=not settings.no_calls,
            notes=not settings.no_notes,
            on_progress=on_progress,
        )
    size = f"{written.size / 1e6:.1f} MB"
    say(f"{counted(written.readings, 'transcript')} in {counted(written.files, 'file')}, {size}")
    show(str(to / "index.html"))
