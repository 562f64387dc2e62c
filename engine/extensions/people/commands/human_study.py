"""What raters judged as a file, and those who take it back; `oversight human` has it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from ....display.quantity import counted
from ....errors import UsageError
from ....extensions.people.journal import PERSONS, RaterJournal
from ....extensions.people.panel import read_raters
from ....extensions.people.roster import Roster
from ....system.files import read_bounded, replace_file
from ....system.flags import argument, flag
from ....views.cli.flags import as_command
from ....views.cli.options import FILE, RUN, output
from ....views.cli.output import say


def public_url(given: str) -> str:
    """An origin, without a path: the pages lie at its root."""
    parts = urlsplit(given)
    if given and (parts.scheme not in ("http", "https") or not parts.netloc):
        raise ValueError(f"{given!r} is no address; write it as https://study.example.org")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            f"{given!r} has more than a host; have the proxy serve the pages at the root of one, "
            f"as {parts.scheme}://{parts.netloc}"
        )
    return f"{parts.scheme}://{parts.netloc}" if given else ""


URL = flag(
    "Address under which raters open the pages, as https://study.example.org, where a proxy or a "
    "tunnel stands before them.",
    default="",
    metavar="URL",
    read=public_url,
    rare=True,
)
CONSENT = flag("File with the text that raters agree to before they begin.", type=FILE)
MAX_TEXT = 200_000
"""Bytes of that text at most."""


def consent_text(file: Path) -> str:
    """UsageError for a file that is no text."""
    try:
        return read_bounded(file, MAX_TEXT).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{file}: cannot be read as UTF-8 text: {exc}") from exc


def delete_from_run(run: Path) -> None:
    """Delete what raters took back from record, outcomes and store, and say how much."""
    from ....extensions.people.withdrawal import delete_withdrawn

    gone = delete_withdrawn(run)
    if gone.cells or gone.replies:
        say(
            f"deleted: {counted(gone.replies, 'stored reply', 'stored replies')}, and the "
            f"outcomes of {counted(gone.cells, 'cell')} that rested on them"
        )


@as_command
def export(run: Path = RUN, output: Path = output()) -> None:
    """Write the judgements of the raters of RUN, for `oversight measure judgements`.

    A line is one rater's judgement of one transcript: problem, values of its answers, the row as
    setting, the world, and the belief before, where it was asked for. Raters have pseudonyms made
    for this run alone; whoever withdrew is left out.
    """
    from ....extensions.people.results import judgements

    lines = list(judgements(run))
    replace_file(output, lines)
    say(f"{counted(len(lines), 'judgement')} in {output}")
    say(f"score them: oversight measure judgements {output}")


def _seat(run: Path, rater: str) -> str:
    names = [each.name for each in read_raters(run / PERSONS)]
    if rater not in names:
        raise UsageError(f"{run}: there is no rater {rater!r}; there are {', '.join(names)}")
    return rater


@contextmanager
def _roster(run: Path) -> Iterator[Roster]:
    """The raters of a run that nobody serves. RunFolderError where somebody does, by name."""
    from ....run.lock import locked

    folder = run / PERSONS
    if not folder.is_dir():
        raise UsageError(f"{run}: nobody was asked about it: oversight human serve {run}")
    with locked(folder):
        yield Roster(read_raters(folder), RaterJournal(run))


@as_command
def withdraw(
    run: Path = RUN,
    rater: str = argument(),
    erase: bool = flag("Also delete what they answered.", default=False),
) -> None:
    """Remove RATER of RUN: from agreement, pages and exports.

    What they answered stays answered: nobody else is asked it. With --erase it is deleted, and
    others are asked instead: from the journal, the record, the outcomes that rest on it and the
    store that RUN was made with; packs made later hold none of it. While RUN is served, raters
    leave by a link on their first page; record, outcomes and store follow when it ends.
    """
    with _roster(run) as roster:
        asyncio.run(roster.withdraw(_seat(run, rater), erase=erase))
        if erase:
            delete_from_run(run)
    say(f"{rater} is withdrawn{', and what they answered is deleted' if erase else ''}")
