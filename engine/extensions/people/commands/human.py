"""`oversight human`: people in the seats of a sweep, or as judges of finished transcripts."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from .....cache.call import Ask
from ....display.quantity import counted
from ....errors import UsageError
from ....run.batching import Deferred
from ....run.folders import holder, is_run, locked, take_lock
from ....run.listing import Parts
from ....run.loaded_sweep import LoadedSweep, open_run
from ....run.lookup import cells_with_verdict
from ....run.replay import replay_cache
from ....run.settings import FolderSettings, RunSettings
from ....sweep.sweepfile import SweepFile, read_sweep_file
from ....system.files import read_bounded, replace_file
from ....system.flags import argument, flag
from ....views.api.prepared import run_settings
from ....views.cli.beside import ask_beside, store_of
from ....views.cli.completing import run_names
from ....views.cli.exit_codes import ExitCode
from ....views.cli.faults import halt_code
from ....views.cli.group import NamedGroup
from ....views.cli.naming import RUN, run_named
from ....views.cli.options import FILE, HOST, JSON, LIMIT, OWN_SWEEP, SEED, SET, output, port
from ....views.cli.output import say, show, show_json, typed, width
from ..desk import DeskSettings
from ..history import Roster
from ..journal import PERSONS, RaterJournal
from ..panel import PERSON, panels_of, read_raters

PORT = 7721
PANEL = "raters"
"""The panel that judges finished transcripts."""

MOST_RATERS = 500
"""Of a panel: the page of each who waits holds a connection open, and a server has 512."""

WATCHED = 2.0
"""Seconds between two looks of `status --watch`."""

MOST_LANES = 5_000
"""Cells in progress at once. With few of them, raters would run out of tasks to choose from."""


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


@click.group(cls=NamedGroup)
def command() -> None:
    """Seat people in a sweep, or have them judge its transcripts; print how well they agree."""


@command.adds()
def serve(
    *,
    what: str = argument("SWEEP|RUN", complete=run_names),
    raters: int = flag(
        "Raters of each panel; each gets a link of their own.",
        default=2,
        least=1,
        most=MOST_RATERS,
        metavar="N",
    ),
    each: int = flag("With RUN: raters for each transcript.", default=1, least=1, metavar="K"),
    budget: float | None = flag(
        "Time for one task. Default: no limit.", least=1, metavar="SECONDS"
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
        least=0,
        metavar="MINUTES",
    ),
    seed: int = SEED,
    port: int = port(PORT),
    host: str = HOST,
    url: str = URL,
    consent: Path | None = CONSENT,
    sweep: Path | None = OWN_SWEEP,
    parts: Parts,
    overrides: tuple[str, ...] = SET,
    limit: int | None = LIMIT,
    settings: FolderSettings,
) -> None:
    """Run SWEEP with people in its seats, or have people judge the transcripts of RUN.

    In a sweep, `person/NAME` stands where a model does, in any seat; NAME is a panel of raters. Of
    a finished RUN, the transcripts are judged again, with the words that its judges read; no score
    of the run changes.

    A link is printed for each rater, who may leave at any time. A rater never gets two worlds of
    one problem. Answers are saved before the page says so, and stored like any reply: the same
    command resumes after a stop.
    Exit codes are those of `oversight run`.
    """
    text = consent_text(consent) if consent else ""
    desk = DeskSettings(seed, budget, before, 60 * return_after, text)
    seating = Seating(desk, raters, host, port, url)
    path = Path(what)
    if path.is_file() and not is_run(path):
        if parts != Parts() or each > 1:
            raise UsageError(f"{what} is a sweep file: rows and --each are for a RUN")
        file = read_sweep_file(path, overrides, limit)
        raise SystemExit(_run_with_persons(file, run_settings(settings), seating))
    asks = settings.batch or settings.prices
    of_a_sweep = (settings.folder, settings.max_cost, settings.max_tokens)
    if overrides or asks or any(each is not None for each in of_a_sweep):
        raise UsageError(
            f"{what} is a run: --set, --run-folder and what models are asked with are for a SWEEP"
        )
    store = None if settings.store is None else str(settings.store)
    opened = open_run(run := run_named(what), own=sweep)
    raise SystemExit(_judged_by_persons(run, opened, parts, limit, each, store, seating))


@dataclass(frozen=True, slots=True)
class Seating:
    """The raters and the address of their pages."""

    settings: DeskSettings
    raters: int
    host: str
    port: int
    url: str = ""


def _run_with_persons(
    file: SweepFile,
    settings: RunSettings,
    seating: Seating,
) -> int:
    from ....run.loaded_sweep import load_sweep
    from ....run.observer import Observer
    from ....run.run import Run
    from ....views.cli.terminal import Presentation, run_in_terminal
    from ..session import RaterPages, SeatedPersons, conversations, seated_desk

    loaded = load_sweep(file)
    panels = panels_of(loaded.sweep.models)
    if not panels:
        raise UsageError(
            f"{file.document.source}: no seat has a person; write person/NAME for a model, or run "
            "it and have persons judge its transcripts: oversight human serve RUN"
        )
    for panel, needed in asyncio.run(conversations(loaded)).most_common(1):
        if needed > seating.raters:
            raise UsageError(
                f"a problem has {needed} conversations with {panel}, and nobody may have two of "
                f"them: take --raters {needed}, or fewer rows"
            )
    known = loaded.file.top.max_cells or loaded.models.cells_at_once(loaded.sweep.models)
    top = replace(loaded.file.top, max_cells=max(known, min(len(loaded.sweep), MOST_LANES)))
    loaded = replace(loaded, file=replace(loaded.file, top=top))
    served: list[Path] = []

    def pages(run: Run) -> Sequence[Observer]:
        persons = run.folder.path / PERSONS
        persons.mkdir(exist_ok=True)
        take_lock(persons)
        desk = seated_desk(loaded.models, run.folder.path, panels, seating.raters, seating.settings)
        run.later = SeatedPersons(desk, panels)
        served.append(run.folder.path)
        return (RaterPages(desk, seating.host, seating.port, seating.url),)

    shown = Presentation(typed(), "text", "brier")
    code = run_in_terminal(loaded, settings, shown, pages)
    for run in served:
        delete_from_run(run)
    return code


def _judged_by_persons(
    run: Path,
    opened: LoadedSweep,
    parts: Parts,
    problems: int | None,
    each: int,
    store: str | None,
    seating: Seating,
) -> int:
    from ..judging import (
        JudgedCase,
        ask_persons,
        judged_cases,
        raters_needed,
        tasks_of,
    )
    from ..plan import write_plan
    from ..session import RaterPages, seated_desk

    cells = cells_with_verdict(opened.sweep, run, parts, problems)
    model = f"{PERSON}{PANEL}"
    with closing(store_of(run, store)) as replies:
        recorded = replay_cache(replies, opened.models.identity, tags=opened.models.tags)

        async def cases() -> list[JudgedCase]:
            return [case async for case in judged_cases(cells, recorded)]

        judged = asyncio.run(cases())
        tasks = tasks_of(judged, model, each)
        if not tasks:
            raise UsageError(f"{run}: no verdict of these rows is a judgement of one transcript")
        if left := len(cells) - len(judged):
            say(
                f"{counted(left, 'cell')} left out: the verdict is not a judgement of one "
                "transcript"
            )
        kinds = {address: case.task_kind(call) for address, (call, case) in tasks.items()}
        if (needed := raters_needed(kinds.values())) > seating.raters:
            raise UsageError(
                f"a problem has up to {needed} transcripts to be judged, and nobody may have two "
                f"of them: take --raters {needed}, a lower --each, or fewer rows"
            )
        folder = run / PERSONS
        folder.mkdir(exist_ok=True)
        with locked(folder):
            desk = seated_desk(opened.models, run, [PANEL], seating.raters, seating.settings)
            desk.pool.assign(kinds)
            write_plan(folder, (case.planned(call) for call, case in tasks.values()))
            answered = 0

            async def work(ask: Ask, later: Deferred | None) -> None:
                nonlocal answered
                pages = RaterPages(desk, seating.host, seating.port, seating.url)
                async with pages.open():
                    calls = [call for call, _ in tasks.values()]
                    answered = await ask_persons(calls, ask, stop_token=opened.stop_token)

            halt, _ = ask_beside(
                opened,
                folder,
                replies,
                work,
                lambda: (len(tasks), answered),
                roles=[(model, "judge")],
            )
    delete_from_run(run)
    if halt is not None:
        say(f"{str(halt).rstrip('.')}. What was answered is saved. The same command goes on.")
        return halt_code(halt)
    say(f"{counted(answered, 'judgement')} of {counted(len(judged), 'transcript')}")
    say(f"see them: oversight measure people {run}")
    return ExitCode.DONE


@command.adds()
def status(
    run: Path = RUN,
    watch: bool = flag("Print it again every two seconds while RUN is served.", default=False),
    as_json: bool = JSON,
) -> None:
    """Print the progress of each rater of RUN."""
    from ..raters import rater_standings, standings_finding

    while True:
        found = rater_standings(run)
        if as_json:
            show_json(found)
        else:
            show(standings_finding(found).text("text", width()))
        if not (watch and (holder(run / PERSONS) or holder(run))):
            return
        time.sleep(WATCHED)
        click.clear()


def delete_from_run(run: Path) -> None:
    """Delete what raters took back from record, outcomes and store, and say how much."""
    from ..results import delete_withdrawn

    gone = delete_withdrawn(run)
    if gone.cells or gone.replies:
        say(
            f"deleted: {counted(gone.replies, 'stored reply', 'stored replies')}, and the "
            f"outcomes of {counted(gone.cells, 'cell')} that rested on them"
        )


@command.adds()
def export(run: Path = RUN, output: Path = output()) -> None:
    """Write the judgements of the raters of RUN, for `oversight measure judgements`.

    A line is one rater's judgement of one transcript: problem, values of its answers, the row as
    setting, the world, and the belief before, where it was asked for. Raters have pseudonyms made
    for this run alone; whoever withdrew is left out.
    """
    from ..results import judgements

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
    folder = run / PERSONS
    if not folder.is_dir():
        raise UsageError(f"{run}: nobody was asked about it: oversight human serve {run}")
    with locked(folder):
        yield Roster(read_raters(folder), RaterJournal(run))


@command.adds()
def withdraw(
    run: Path = RUN,
    rater: str = argument(),
    erase: bool = flag("Also delete what they answered.", default=False),
) -> None:
    """Remove RATER of RUN: from agreement, pages and exports.

    Their tasks count as answered: nobody else gets them. With --erase their answers are deleted
    from the journal, the record, the outcomes that rest on them and the store that RUN was made
    with, and others are asked instead; packs made later hold none. While RUN is served, raters
    leave by a link on their first page; record, outcomes and store follow when it ends.
    """
    with _roster(run) as roster:
        asyncio.run(roster.withdraw(_seat(run, rater), erase=erase))
        if erase:
            delete_from_run(run)
    say(f"{rater} is withdrawn{', and what they answered is deleted' if erase else ''}")
