"""`oversight human`: people in the roles of a sweep, or as judges of finished transcripts."""

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
from ...run.replay import open_run
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
MAX_RATERS = 500
"""Per panel: each waiting page holds one of the server's 512 connections."""
MAX_CONSENT = 200_000
"""Maximum size of the consent text, in bytes."""


def public_url(url: str) -> str:
    """An origin without a path, since the pages are at its root. ValueError."""
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc):
        raise ValueError(f"the address must be like https://study.example.org, got {url!r}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            f"{url!r} has more than a host; let the proxy serve the pages at the root, as "
            f"{parts.scheme}://{parts.netloc}"
        )
    return f"{parts.scheme}://{parts.netloc}" if url else ""


def consent_text(file: Path) -> str:
    """The text of a file. UsageError."""
    try:
        return read_bounded(file, MAX_CONSENT).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"cannot read {file} as UTF-8 text: {exc}") from exc


@click.group(cls=NamedGroup)
def command() -> None:
    """Let people take roles in a sweep, or judge its transcripts; print how well they agree."""


@command.adds()
def serve(
    *,
    target: str = argument("SWEEP|RUN", complete=run_names),
    raters: int = flag(
        "Raters of each panel; each gets a separate link.",
        default=2,
        within=Interval(ge=1, le=MAX_RATERS),
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
        "Public address of the pages behind a proxy or a tunnel, as https://study.example.org.",
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

    In a sweep, write `person/NAME` instead of a model, for any role; NAME is a panel of raters. The
    transcripts of a finished RUN are judged again, in the words that its judges read; the scores of
    the run do not change.

    A link is printed for each rater, who may leave at any time. A rater never gets two worlds of
    one problem. An answer is on disk before the page says so, and is stored like any reply: the
    same command resumes after a stop. Exit codes are the same as for `oversight run`."""
    from .serving import Seats, judged_by_persons, run_with_persons

    text = consent_text(consent) if consent else ""
    seats = Seats(raters, QueueSettings(seed, before, 60 * return_after, text), host, port, url)
    path = Path(target)
    if path.is_file() and not is_run(path):
        if parts != Parts() or raters_per_transcript > 1:
            raise UsageError(
                f"{target} is a sweep file: rows and --raters-per-transcript are for a RUN"
            )
        file = read_sweep_file(path, overrides, limit)
        raise SystemExit(run_with_persons(file, run_settings(settings), seats))
    run = run_named(target)
    of_sweep = (settings.folder, settings.max_cost, settings.max_tokens)
    asks = settings.batch or settings.prices or any(value is not None for value in of_sweep)
    if overrides or asks:
        raise UsageError(
            f"{target} is a run: --set, --run-folder and options of models are for a SWEEP"
        )
    store = None if settings.store is None else str(settings.store)
    opened = open_run(run, user_file=sweep)
    cells = cells_with_verdict(opened.sweep, run, parts, limit)
    raise SystemExit(judged_by_persons(run, opened, cells, raters_per_transcript, store, seats))


@command.adds()
def status(run: Path = RUN, as_json: bool = JSON) -> None:
    """Print the progress of each rater of RUN."""
    from ...analysis.findings.finding import Finding
    from .results import rater_standings, standings_part

    standings = rater_standings(run)
    if as_json:
        show_json(standings)
    else:
        show(Finding((standings_part(standings),)).text("text", width()))


@command.adds()
def export(run: Path = RUN, output: Path = output()) -> None:
    """Write the judgements of the raters of RUN, for `oversight measure judgements`.

    Each line is one rater's judgement of one transcript: problem, values of its answers, the row as
    setting, the world, and the belief before, if it was asked for. Raters have pseudonyms made for
    this run alone; withdrawn raters are left out."""
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
    """Remove RATER of RUN from agreement, pages and exports.

    Answered tasks stay answered, and go to nobody else. With --erase, the answers are deleted from
    the journal, the record, the outcomes based on them and the store of RUN, and other raters get
    the tasks; packs made later hold none. While RUN is served, raters leave by a link on their
    first page; record, outcomes and store follow when it ends."""
    from .serving import delete_from_run

    folder = run / PERSONS
    if not folder.is_dir():
        raise UsageError(f"{run}: no people were asked; start with oversight human serve {run}")
    with locked(folder):
        queue = TaskQueue(read_raters(folder), run, StopToken())
        if rater not in queue.raters:
            raise UsageError(f"{run}: {unknown('rater', rater, queue.raters)}")
        asyncio.run(queue.withdraw(rater, erasing=erase))
        if erase:
            delete_from_run(run)
    say(f"{rater} is withdrawn{', and the answers are deleted' if erase else ''}")
