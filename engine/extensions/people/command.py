"""`oversight human`: people in the seats of a sweep, or as judges of finished transcripts."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import click
from annotated_types import Interval

from ....protocols.settings import unknown
from ...display.text import counted
from ...errors import UsageError
from ...run.folders import is_run
from ...run.listing import Parts
from ...run.lookup import cells_with_verdict
from ...run.opened import open_run
from ...run.settings import FolderSettings
from ...stop import StopToken
from ...sweep.sweepfile import read_sweep_file
from ...system.files import locked, read_bounded, replace_file
from ...system.settings import argument, flag
from ...views.api.prepared import run_settings
from ...views.cli.completing import run_names
from ...views.cli.flags import FILE, HOST, JSON, LIMIT, OWN_SWEEP, SEED, SET, output, port
from ...views.cli.group import NamedGroup
from ...views.cli.naming import RUN, run_named
from ...views.cli.output import say, show, show_json, width
from .journal import PERSONS, read_raters
from .task_queue import QueueSettings, TaskQueue

PORT = 7721
MOST_RATERS = 500
"""Of a panel: the page of each who waits holds a connection open, and a server has 512."""


def public_url(given: str) -> str:
    """An origin, without a path: the pages lie at its root."""
    parts = urlsplit(given)
    if given and (parts.scheme not in ("http", "https") or not parts.netloc):
        raise ValueError(f"the address must be like https://study.example.org, got {given!r}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            f"{given!r} has more than a host; have the proxy serve the pages at the root of one, "
            f"as {parts.scheme}://{parts.netloc}"
        )
    return f"{parts.scheme}://{parts.netloc}" if given else ""


MAX_TEXT = 200_000
"""Bytes of that text at most."""


def consent_text(file: Path) -> str:
    """UsageError for a file that is no text."""
    try:
        return read_bounded(file, MAX_TEXT).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{file}: cannot be read as UTF-8 text: {exc}") from exc


@click.group(cls=NamedGroup)
def command() -> None:
    """Seat people in a sweep, or have them judge its transcripts; print how well they agree."""


@command.adds()
def serve(
    *,
    what: str = argument("SWEEP|RUN", complete=run_names),
    raters: int = flag(
        "Raters of each panel; each gets a separate link.",
        default=2,
        within=Interval(ge=1, le=MOST_RATERS),
        metavar="N",
    ),
    raters_per_transcript: int = flag(
        "With RUN: raters for each transcript.", default=1, within=Interval(ge=1), metavar="K"
    ),
    before: bool = flag(
        "Ask for a belief before the transcript is shown.",
        name="--before/--no-before",
        default=True,
    ),
    return_after: float = flag(
        "Time after which an abandoned task goes to another rater.",
        rare=True,
        default=60.0,
        within=Interval(ge=0),
        metavar="MINUTES",
    ),
    seed: int = SEED,
    port: int = port(PORT),
    host: str = HOST,
    url: str = flag(
        "Address under which raters open the pages, as https://study.example.org, where a proxy or "
        "a tunnel stands before them.",
        default="",
        metavar="URL",
        read=public_url,
        rare=True,
    ),
    consent: Path | None = flag(
        "File with the text that raters agree to before they begin.", type=FILE
    ),
    sweep: Path | None = OWN_SWEEP,
    parts: Parts,
    overrides: tuple[str, ...] = SET,
    limit: int | None = LIMIT,
    settings: FolderSettings,
) -> None:
    """Run SWEEP with people in some roles, or let people judge the transcripts of RUN.

    In a sweep, `person/NAME` stands where a model does, in any seat; NAME is a panel of raters. Of
    a finished RUN, the transcripts are judged again, with the words that its judges read; no score
    of the run changes.

    A link is printed for each rater, who may leave at any time. A rater never gets two worlds of
    one problem. Answers are saved before the page says so, and stored like any reply: the same
    command resumes after a stop.
    Exit codes are those of `oversight run`.
    """
    from .serving import Seats, judged_by_persons, run_with_persons

    text = consent_text(consent) if consent else ""
    queue = QueueSettings(seed, before, 60 * return_after, text)
    seats = Seats(raters, queue, host, port, url)
    path = Path(what)
    if path.is_file() and not is_run(path):
        if parts != Parts() or raters_per_transcript > 1:
            raise UsageError(
                f"{what} is a sweep file: rows and --raters-per-transcript are for a RUN"
            )
        file = read_sweep_file(path, overrides, limit)
        raise SystemExit(run_with_persons(file, run_settings(settings), seats))
    run = run_named(what)
    asks = settings.batch or settings.prices
    of_a_sweep = (settings.folder, settings.max_cost, settings.max_tokens)
    if overrides or asks or any(each is not None for each in of_a_sweep):
        raise UsageError(
            f"{what} is a run: --set, --run-folder and what models are asked with are for a SWEEP"
        )
    store = None if settings.store is None else str(settings.store)
    opened = open_run(run, own=sweep)
    cells = cells_with_verdict(opened.sweep, run, parts, limit)
    raise SystemExit(judged_by_persons(run, opened, cells, raters_per_transcript, store, seats))


@command.adds()
def status(run: Path = RUN, as_json: bool = JSON) -> None:
    """Print the progress of each rater of RUN."""
    from ...analysis.findings.finding import Finding
    from .results import rater_standings, standings_part

    found = rater_standings(run)
    if as_json:
        show_json(found)
    else:
        show(Finding((standings_part(found),)).text("text", width()))


@command.adds()
def export(run: Path = RUN, output: Path = output()) -> None:
    """Write the judgements of the raters of RUN, for `oversight measure judgements`.

    A line is one rater's judgement of one transcript: problem, values of its answers, the row as
    setting, the world, and the belief before, where it was asked for. Raters have pseudonyms made
    for this run alone; whoever withdrew is left out.
    """
    from .results import judgements

    lines = list(judgements(run))
    replace_file(output, lines)
    say(f"{counted(len(lines), 'judgement')} in {output}")
    say(f"score them: oversight measure judgements {output}")


@command.adds()
def withdraw(
    run: Path = RUN,
    rater: str = argument(),
    erase: bool = flag("Also delete their answers.", default=False),
) -> None:
    """Remove RATER of RUN: from agreement, pages and exports.

    Their tasks count as answered: nobody else gets them. With --erase their answers are deleted
    from the journal, the record, the outcomes that rest on them and the store that RUN was made
    with, and others are asked instead; packs made later hold none. While RUN is served, raters
    leave by a link on their first page; record, outcomes and store follow when it ends.
    """
    from .serving import delete_from_run

    folder = run / PERSONS
    if not folder.is_dir():
        raise UsageError(f"{run}: nobody was asked about it: oversight human serve {run}")
    with locked(folder):
        queue = TaskQueue(read_raters(folder), run, StopToken())
        if rater not in queue.raters:
            raise UsageError(f"{run}: {unknown('rater', rater, queue.raters)}")
        asyncio.run(queue.withdraw(rater, erasing=erase))
        if erase:
            delete_from_run(run)
    say(f"{rater} is withdrawn{', and what they answered is deleted' if erase else ''}")
