"""Writing the pages of a run as a folder: what `view --write` does, and `bundle` did."""

from dataclasses import dataclass
from pathlib import Path

from ...display.quantity import counted
from ...system.flags import flag
from .output import say, show

READINGS = 200
SAID_EVERY = 500
"""Transcripts between two lines of progress."""


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """What goes into a site."""

    readings: int = flag(
        "How many transcripts: failed, doubtful, and those of lowest and highest ASD.",
        default=READINGS,
        least=0,
    )
    whole: bool = flag("Include every transcript.", default=False)
    no_calls: bool = flag("Leave out requests and replies.", default=False)
    zip: bool = flag("Also pack the folder into a zip file beside it.", default=False)


def write_site(run: Path, to: Path, store: str | None, settings: SiteSettings) -> None:
    """Write a run as a folder of pages: a new one, or an earlier site, which is replaced."""
    from ...run.reader import RunReader
    from ..pages.site import write_bundle, zip_bundle

    def told(done: int, all: int) -> None:
        if done % SAID_EVERY == 0:
            say(f"{done:,} of {all:,} transcripts")

    with RunReader(run, store) as opened:
        most = None if settings.whole else settings.readings
        written = write_bundle(opened, to, most=most, calls=not settings.no_calls, told=told)
    size = f"{written.size / 1e6:.1f} MB"
    say(f"{counted(written.readings, 'transcript')} in {counted(written.files, 'file')}, {size}")
    if settings.zip:
        file = zip_bundle(to)
        say(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    show(str(to / "index.html"))
