"""`oversight show`: the worlds of a problem, side by side; or where words occur."""

from pathlib import Path

from annotated_types import Interval
from msgspec.structs import asdict

from ....analysis.reports.side_by_side import as_plain, side_by_side
from ....display.console import PrintableConsole
from ....display.text import counted, one_line
from ....errors import UsageError
from ....run.listing import Parts
from ....run.lookup import FoundHit, Query, found_in, fullest, locate, worlds_of
from ....run.reader import RunReader
from ....run.reader_notes import NOTES, NoteKind, add_note, read_notes
from ....system.settings import argument, flag
from ..completing import cells
from ..flags import JSON, SCORE, as_command
from ..naming import RUN, reader_of
from ..output import say, show_json, show_line


@as_command
def command(
    *,
    run: Path = RUN,
    cell: str | None = argument(complete=cells),
    parts: Parts,
    draw: int | None = flag(
        "Number of the repetition, from 0, in a sweep with several draws.", within=Interval(ge=0)
    ),
    search: str = flag(
        "Search all transcripts instead: turns, private reasoning, and what judges wrote. All "
        'words must occur; "words in quotes" side by side; an asterisk stands for the rest of a '
        "word.",
        default="",
        metavar="WORDS",
    ),
    note: str = flag("Write a note on the transcript instead.", default="", metavar="TEXT"),
    kind: NoteKind = flag("Kind of the note.", default="interesting"),
    turn: str = flag(
        "World and turn of the note, as A3; otherwise it is on the whole transcript.",
        default="",
        metavar="TURN",
    ),
    noted: bool = flag("List all notes instead.", default=False),
    limit: int = flag("List at most this many; 0: all.", default=20, within=Interval(ge=0)),
    score: str = SCORE,
    as_json: bool = JSON,
) -> None:
    """Print the transcript of one problem of RUN, one column per world, with the verdicts.

    CELL is the id of a problem, or of a cell as outcomes.jsonl has it. Everything is read from the
    run folder: no code is run, no store is opened, nothing is sent."""
    read = reader_of(run) if search else RunReader(run)
    if search:
        _search(read, search, parts, cell, limit, as_json)
        return
    if noted:
        _list_notes(read, as_json)
        return
    places = locate(read, cell or "", parts, draw)
    place = fullest(read, places)
    if note:
        written = add_note(read, place, turn, kind, note)
        say(f"{written.kind} note {written.id} on {written.problem} in {read.folder / NOTES}")
        return
    if turn or kind != "interesting":
        raise UsageError("--turn and --kind belong to a note: --note TEXT")
    row, about = read.sweep.rows[place.row], read.problems[place.problem]
    worlds = worlds_of(read, place)
    if as_json:
        show_json(as_plain(row, about, worlds, score))
        return
    console = PrintableConsole()
    console.print(side_by_side(row, about, worlds, score, console.width))
    if others := [read.sweep.rows[twin.row] for twin in places if twin is not place]:
        names = dict.fromkeys(other.shown for other in others)
        have = "has" if len(others) == 1 else "have"
        known_names = f"{'; '.join(list(names)[:8])}{'; …' * (len(names) > 8)}"
        say(f"{counted(len(others), 'more row')} {have} this problem: {known_names}")
        say("choose with parts of their names: --protocol, --agent, --judge")


def _list_notes(read: RunReader, as_json: bool) -> None:
    """Print all notes, in the order in which they were written."""
    notes = read_notes(read)
    if as_json:
        lines = [{**asdict(note), "of_this_run": place is not None} for note, place in notes.notes]
        show_json({"notes": lines, "skipped": notes.skipped})
        return
    for note, place in notes.notes:
        row = read.sweep.rows[place.row].shown if place else "of another run"
        head = " · ".join(filter(None, (note.problem, row, note.turn, note.kind)))
        show_line(f"{one_line(head)}: {one_line(note.text)}")
    say(counted(len(notes.notes), "note"))
    for line in notes.skipped:
        say(f"{line} is no note; it was skipped")


def _search(
    read: RunReader, words: str, parts: Parts, problem: str | None, limit: int, as_json: bool
) -> None:
    """Print where all of the words occur, in the order of row, problem, world and turn. Text that
    two worlds or rows have in common is one hit."""
    query = Query.read(words)
    count, hits = found_in(read, query, parts, problem, limit or None)
    if as_json:
        show_json({"words": query.parts, "hits": count, "shown": hits})
        return
    before = None
    for hit in hits:
        head = " · ".join(filter(None, (hit.protocol, hit.agent, hit.judge)))
        if head != before:
            show_line(head)
            before = head
        show_line(f"  {_where(hit)}: {hit.snippet}")
    ending = f", the first {len(hits)} shown; for more: --limit" * (count > len(hits))
    say(f"{counted(count, 'hit')}{ending}")
    if hits:
        say(f"to read one: oversight show {read.folder} {hits[0].cell}")


def _where(hit: FoundHit) -> str:
    speaker = f"{hit.speaker}, turn {hit.turn + 1}" if hit.turn is not None else "judge"
    privacy = ", in private" * (hit.source == "reasoning")
    shared = f" (and {counted(hit.cells - 1, 'more cell')})" if hit.cells > 1 else ""
    return f"{hit.problem}, world {hit.world}, {speaker}{privacy}{shared}"
