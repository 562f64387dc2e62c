"""Notes that readers write about transcripts, as lines of `notes.jsonl` in a run folder.

A note is one line of JSON. Removing a note appends a line with its id."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args
from uuid import uuid4

import msgspec

from ..errors import UsageError
from ..system.files import read_bounded, sync_folder
from .events import appending
from .reader import Place, RunReader

NOTES = "notes.jsonl"
MAX_NOTE = 2_000
MAX_FILE = 2**26
"""Maximum characters of a note, and bytes of the file."""

NoteKind = Literal["interesting", "broken", "quote"]
NOTE_KINDS: Sequence[NoteKind] = get_args(NoteKind)
JUDGE = "judge"
"""Stands for the number of a turn in notes on the judge's verdict."""


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    at: int
    """Seconds since 1970."""
    cell: str = ""
    """Address of the cell."""
    row: int = 0
    problem: str = ""
    draw: int = 0
    turn: str = ""
    """World and turn, as `A3` or `Ajudge`; empty for the whole transcript."""
    kind: str = ""
    """One of NOTE_KINDS; empty in the line that removes a note."""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReaderNotes:
    notes: tuple[tuple[Note, Place | None], ...]
    """Each with its place; None for a note of another run."""
    skipped: tuple[str, ...]
    """The lines that are not notes, as `notes.jsonl:3`."""

    def at(self, place: Place) -> list[Note]:
        return [note for note, its_place in self.notes if its_place == place]


_decoder = msgspec.json.Decoder(Note)


def read_notes(run: RunReader) -> ReaderNotes:
    """The notes that were not removed, in order. RunFolderError if they cannot be read."""
    file = run.folder / NOTES
    lines = read_bounded(file, MAX_FILE).split(b"\n") if file.exists() else []
    notes: dict[str, Note] = {}
    skipped = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            note = _decoder.decode(line)
        except msgspec.MsgspecError:
            skipped.append(f"{NOTES}:{number}")
            continue
        if note.kind in NOTE_KINDS and len(note.text) <= MAX_NOTE:
            notes[note.id] = note
        else:
            notes.pop(note.id, None)
    numbers = {problem.id: n for n, problem in enumerate(run.problems)} if notes else {}
    return ReaderNotes(
        tuple((note, _place(run, note, numbers)) for note in notes.values()), tuple(skipped)
    )


def _place(run: RunReader, note: Note, numbers: dict[str, int]) -> Place | None:
    problem = numbers.get(note.problem, -1)
    if problem < 0 or not 0 <= note.row < len(run.sweep.rows):
        return None
    if not 0 <= note.draw < run.sweep.draws:
        return None
    place = Place(note.row, problem, note.draw)
    records = run.records(run.worlds(place)).values()
    return place if any(record.cell == note.cell for record in records) else None


def add_note(run: RunReader, place: Place, turn: str, kind: str, text: str) -> Note:
    """Add a note, durably. UsageError for a note that does not fit the transcript."""
    if kind not in NOTE_KINDS:
        raise UsageError(f"unknown kind of note {kind!r}: choose {', '.join(NOTE_KINDS)}")
    if not text.strip() or len(text) > MAX_NOTE:
        raise UsageError(f"a note has 1 to {MAX_NOTE:,} characters; this one has {len(text):,}")
    problem = run.problems[place.problem]
    labels = [answer.label for answer in problem.question.answers]
    # The longest first: of the labels 1 and 10, the turn 103 names the second.
    by_length = sorted(labels, key=len, reverse=True)
    label = next((known for known in by_length if turn.startswith(known) and turn != known), "")
    number = turn.removeprefix(label)
    if turn and (not label or not (number == JUDGE or (number.isascii() and number.isdecimal()))):
        raise UsageError(f"unknown turn {turn!r}: name the world and the turn, as {labels[0]}1")
    worlds = run.worlds(place)
    cells = run.records(worlds)
    cell = cells.get(worlds[labels.index(label)]) if label else next(iter(cells.values()), None)
    if cell is None:
        raise UsageError(f"{problem.id} has no transcript in this row yet")
    note = Note(
        *(uuid4().hex[:12], int(time.time()), cell.cell, place.row, problem.id),
        *(place.draw, turn, kind, text),
    )
    _append(run, note)
    return note


def remove_note(run: RunReader, id: str) -> None:
    """Append the line that removes a note. UsageError if it does not exist."""
    if not any(note.id == id for note, _ in read_notes(run).notes):
        raise UsageError(f"unknown note {id!r}")
    _append(run, Note(id, int(time.time())))


def _append(run: RunReader, note: Note) -> None:
    path = run.folder / NOTES
    with appending(path) as file:
        empty = not file.seek(0, os.SEEK_END)
        file.write(msgspec.json.encode(note) + b"\n")
        os.fsync(file.fileno())
        if empty:
            sync_folder(path.parent)
