"""Packs: a run with its replies in one portable file, `NAME.oversight`; making and opening one.

All content is searched for the keys of the user who makes the pack. A pack from elsewhere is data:
it becomes a run folder completely or not at all, and none of its code is executed."""

import dataclasses
import os
import re
import shutil
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import msgspec
import orjson
from msgspec.structs import replace

from ....cache.disk import DiskStore
from ....cache.errors import DamagedEntry, StoreError
from ....cache.portable import (
    CHUNK,
    MANIFEST,
    MEMBER_NAME,
    Contents,
    PortableFile,
    merge,
    stage_replies,
    write_members,
)
from ....cache.store import Reader
from ....protocols.datasets.jsonl import jsonl
from ....protocols.errors import ProtocolError
from ....protocols.prompts.render import shared_beginning
from ....protocols.question import Problem
from ...analysis.reports.report import report
from ...analysis.rows import read_rows
from ...errors import EngineError, RunFolderError, UsageError
from ...run.events import EVENTS, MIXED, event_line, read_mixed
from ...run.folders import Manifest, encoded
from ...run.reader import REPLIES, RunReader
from ...run.reader_notes import NOTES
from ...run.record.database import RunDatabase
from ...run.record.schema import RUN_DB
from ...run.record.values import RecordedCell
from ...run.replay import left_out, without_passage, without_passages
from ...run.run_folder import OUTCOMES, SHOTS, SWEEP
from ...run.sides import SIDES
from ...sweep.document import MAX_SWEEP, Document, Shots, code_named
from ...sweep.grid import Grid, stored_grid
from ...sweep.loading import kept_shots, shots_files
from ...system.files import read_bounded, replace_file

RUN = "run/"
"""Beginning of the names of the members that are files of the run."""
FIGURES = "figures.json"
"""Every figure, as it follows from the other members."""
CODE = "code"
"""Folder of the user's code."""
NEEDED = SWEEP, RUN_DB, OUTCOMES
_ALLOWED = re.compile(
    rf"{SWEEP}|{RUN_DB}|{OUTCOMES}|{EVENTS}|{NOTES}|{FIGURES}|{CODE}/.+\.py|{SHOTS}/.+"
)
MAX_FILE = 2**26
"""Maximum size of a file of code, in bytes."""
AT_ONCE = 256
"""Number of cells that are recorded at a time."""
MIN_LENGTH = 12
"""Minimum characters of a key; shorter values occur in texts by chance."""
_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$|PGPASSWORD", re.IGNORECASE)
_FORMS = {
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an API key": re.compile(rb"\b(?:sk-(?:ant-|proj-|or-)?|hf_|ghp_|gsk_)[A-Za-z0-9_-]{24,}"),
    "an AWS key": re.compile(rb"\bAKIA[0-9A-Z]{16}\b"),
}
"""Patterns of keys, whoever owns them."""
_encode = msgspec.json.Encoder(enc_hook=str).encode


def make_pack(
    run: RunReader,
    to: Path,
    passages: bool,
    store: Callable[[], AbstractContextManager[Reader]] | None,
    variables: Mapping[str, str],
    sweep: Path | None = None,
    *,
    notes: bool = True,
) -> tuple[Contents, list[str]]:
    """Write a run into one file, whole or not at all. The same run gives the same bytes. Returns
    its contents, and the user's files and modules that the sweep names and the pack lacks.

    passages: whether source texts go in, and the requests, which quote them. store: opens the store
    of its replies; None leaves them out. variables: the environment, whose keys must not go in.
    notes: whether the notes of people on transcripts go in. sweep: the user's sweep file, whose
    code goes in; without it, the code of an opened pack. UsageError for a run whose files hold a
    key; RunFolderError for a damaged one; PackError."""
    keys = KeyFilter(variables)
    with TemporaryDirectory(prefix=".pack", dir=to.parent) as at:
        stage, folder = Path(at), Path(at) / "run"
        shots = kept_shots(run.folder / SHOTS)
        digests = _passages(run.problems, shots)
        texts = {text for text, digest in digests.items() if not digest}
        requests = not any(digests.values()) and (passages or not texts)
        problems, grid = run.problems, run.sweep
        if texts and not passages:
            problems = tuple(map(without_passage, problems))
            rows = [
                dataclasses.replace(row, settings=without_passages(row.settings, texts))
                for row in grid.rows
            ]
            grid = dataclasses.replace(grid, rows=rows)
            shots = {
                name: (tuple(map(without_passage, examples)), names_rows)
                for name, (examples, names_rows) in shots.items()
            }
        _write(folder / SWEEP, [read_bounded(run.folder / SWEEP, MAX_SWEEP)])
        missing = _copy_code(run, folder, sweep)
        for name, content in shots_files(shots):
            _write(folder / SHOTS / name, [content])
        manifest = encoded(_portable(run.manifest))
        keys.check(f"the manifest in {RUN_DB}", [manifest], written_by_us=True)
        keys.check(f"the grid in {RUN_DB}", [stored_grid(grid)], written_by_us=True)
        _write_database(run, problems, grid, manifest, folder / RUN_DB)
        events = [event_line(SIDES, event) for event in run.sides.values()]
        events += [event_line(MIXED, event) for event in read_mixed(run.folder)]
        if events:
            _write(folder / EVENTS, events)
        if notes and (run.folder / NOTES).exists():
            _write(folder / NOTES, [read_bounded(run.folder / NOTES)])
        count = 0
        if store is not None:
            with store() as replies:
                count = stage_replies(replies, run.keys(), stage, requests=requests)
        # Of the copy, not of the run: cells that a person took back are in the run alone.
        with RunReader(folder) as copy:
            keys.check(RUN_DB, jsonl(problems), written_by_us=False)
            keys.check(RUN_DB, map(_encode, checked_cells(copy)), written_by_us=False)
            _write(folder / OUTCOMES, (record.line for record in copy.recorded_outcomes()))
            _write(folder / FIGURES, [figures_of(copy)])
            counts = _counts(copy)
        for file in sorted(path for path in stage.rglob("*") if path.is_file()):
            name = file.relative_to(stage).as_posix()
            ours = name == RUN + SWEEP or name.startswith(RUN + CODE)
            keys.check(name, _overlapping(file), written_by_us=ours)
        counts |= {"replies": count, "requests": count if requests else 0}
        return write_members(stage, to, "run", counts), missing


def open_to_read(file: Path, to: Path) -> Contents:
    """Make a run folder of a pack, without its replies: reports need none."""
    return open_pack(file, to, replies=False)


def open_pack(file: Path, to: Path, *, replies: bool = True) -> Contents:
    """Make a run folder of a pack. Nothing in it is executed, and no link in it is followed.
    PackError, with the file and the reason, for a pack that is damaged, hostile or of another
    version; UsageError for a folder that exists. Nothing of the pack is left then."""
    if to.exists():
        raise UsageError(f"{to} already exists; choose another folder with -o")
    unfinished = to.with_name(f".{to.name}.{os.getpid()}")
    with PortableFile(file) as packed:
        try:
            unfinished.mkdir(parents=True)
            if damaged := unpack(packed, unfinished, replies=replies):
                raise packed.fault(f"the reply {damaged[0].key}: {damaged[0].reason}")
            (unfinished / FIGURES).unlink(missing_ok=True)
            with RunReader(unfinished) as run:
                manifest = replace(run.manifest, id=uuid4().hex[:16])
                lines = (record.line for record in run.recorded_outcomes())
                replace_file(unfinished / OUTCOMES, lines)
            with closing(RunDatabase(unfinished)) as database:
                database.tell("manifest", encoded(manifest))
            unfinished.rename(to)
        except (EngineError, ProtocolError, StoreError) as exc:
            raise packed.fault(str(exc).replace(str(unfinished), "run")) from exc
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return packed.contents


def unpack(packed: PortableFile, to: Path, *, replies: bool = True) -> tuple[DamagedEntry, ...]:
    """Write the members of a pack into an empty folder, and its replies into a store in it; returns
    the replies that are damaged. PackError for a member that may not stand in a run, and for a run
    that does not fit its counts; RunFolderError for a damaged run."""
    contents = packed.contents
    if contents.kind != "run":
        raise packed.fault(
            f"holds replies and no run; add them to a store: oversight cache import {packed.file}"
        )
    names = [name.removeprefix(RUN) for name in contents.members if name.startswith(RUN)]
    if strange := [name for name in names if not _ALLOWED.fullmatch(name)]:
        raise packed.fault(f"holds {RUN + strange[0]!r}, which is not allowed in a pack")
    if missing := [name for name in NEEDED if name not in names]:
        raise packed.fault(f"lacks {RUN + missing[0]}")
    try:
        for name in names:
            packed.extract(RUN + name, to / name)
    except OSError as exc:
        raise packed.fault(f"{name!r} cannot be unpacked: {exc.strerror}") from exc
    with RunReader(to) as run:
        if run.manifest != _portable(run.manifest):
            raise packed.fault(f"{RUN}{RUN_DB} names a store or an id, which may not travel")
        deque(checked_cells(run), 0)
        counts = _counts(run)
        if unlisted := {"replies", "requests", *counts} - contents.counts.keys():
            raise packed.fault(f"{MANIFEST} lists no number of {min(unlisted)}")
        for name, count in counts.items():
            if (listed := contents.counts[name]) != count:
                raise packed.fault(f"{MANIFEST} lists {listed} {name}, and it has {count:,}")
    if not replies or not contents.counts.get("replies"):
        return ()
    with closing(DiskStore(to / REPLIES)) as store:
        entries = packed.replies()
        return merge(entries, store, foreign=True, bare=True, shared=shared_beginning).damaged


def checked_cells(run: RunReader) -> Iterator[RecordedCell]:
    """Every cell that has an outcome, in the order of the sweep. RunFolderError for a cell that is
    out of place."""
    for number in range(len(run.problems)):
        # As recorded: findings of a later checker are not part of the record.
        cells = {cell.place: cell for cell in run.tables.cells(run.sweep.span(number))}
        for place in sorted(run.records(cells)):
            cell, (at, side) = cells[place], run.where(place)
            where = at.row, at.problem, at.draw, side
            if (cell.row, cell.problem, cell.draw, cell.side) != where:
                raise RunFolderError(f"{run.folder / RUN_DB}: cell {place} is out of place")
            yield cell


def figures_of(run: RunReader) -> bytes:
    """Every report of a run, under each score, as JSON."""
    rows = read_rows(run)
    figures = {score: orjson.loads(report(rows.results(score), "json")) for score in run.scores}
    return orjson.dumps(figures, option=orjson.OPT_INDENT_2)


def _counts(run: RunReader) -> dict[str, int]:
    passages = _passages(run.problems, kept_shots(run.folder / SHOTS))
    absent = sum(map(bool, passages.values()))
    return {
        "cells": sum(1 for _ in run.recorded_outcomes()),
        "problems": len(run.problems),
        "passages": len(passages) - absent,
        "passages_left_out": absent,
    }


def _passages(problems: Iterable[Problem], shots: Shots) -> dict[str, str]:
    """The source texts of problems and examples, each with its digest if it was left out."""
    examples = chain.from_iterable(examples for examples, _ in shots.values())
    passages = {
        problem.question.passage: left_out(problem) for problem in chain(problems, examples)
    }
    passages.pop("", None)
    return passages


def _portable(manifest: Manifest) -> Manifest:
    """The manifest without what belongs to one machine."""
    return replace(manifest, store="", store_id="", id="", replies=0)


def _write_database(
    run: RunReader, problems: tuple[Problem, ...], grid: Grid, manifest: bytes, to: Path
) -> None:
    """Write a new database of a run, without events, free pages and withdrawn cells."""
    with TemporaryDirectory(prefix=".pack", dir=to.parent) as scratch:
        with closing(RunDatabase(Path(scratch))) as database:
            database.begin(problems, grid.rows, {"manifest": manifest, "grid": stored_grid(grid)})
            database.problems = problems
            cells = checked_cells(run)
            while some := list(islice(cells, AT_ONCE)):
                database.write(some)
            database.finalize()
        with closing(sqlite3.connect(Path(scratch) / RUN_DB)) as db:
            db.execute("VACUUM INTO ?", (str(to),))


def _copy_code(run: RunReader, to: Path, sweep: Path | None) -> list[str]:
    """Copy files of code, and return the names of the files and modules that cannot go along. A run
    folder names no path outside of it. Files next to the user's sweep file go in if it names
    them."""
    missing, as_run = [], Document.read(run.folder / SWEEP)
    for assignment in run.manifest.overrides:
        as_run.set(assignment)
    names = set(code_named(as_run.value))
    allowed = set(code_named(Document.read(sweep).value)) if sweep else names
    for name in sorted(names):
        try:
            if name not in allowed or not (MEMBER_NAME.fullmatch(name) and name.endswith(".py")):
                raise FileNotFoundError
            file = (sweep.parent if sweep else run.folder.resolve() / CODE) / name
            if sweep is None and file.resolve() != file:
                raise FileNotFoundError
            _write(to / CODE / name, [read_bounded(file.resolve(), MAX_FILE)])
        except FileNotFoundError:
            missing.append(name)
    return missing


def _write(file: Path, parts: Iterable[bytes]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        out.writelines(parts)


def _overlapping(file: Path) -> Iterator[bytes]:
    """The parts of a file, each with the end of the part before: a key may lie across both."""
    before = b""
    with file.open("rb") as content:
        while part := content.read(CHUNK):
            yield before + part
            before = part[-4096:]


class KeyFilter:
    """Refuses content that holds a key."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """variables: the environment, by name, and the additions of `.env`."""
        self._values = {
            name: {value.strip().encode(), orjson.dumps(value.strip())[1:-1]}
            for name, value in variables.items()
            if _SECRET.search(name) and len(value.strip()) >= MIN_LENGTH
        }

    def check(self, file: str, parts: Iterable[bytes], *, written_by_us: bool) -> None:
        """UsageError that names the file and the owner of the key, never the key. written_by_us:
        whether people wrote it; texts of models may look like a key."""
        for part in parts:
            for name, values in self._values.items():
                if any(value in part for value in values):
                    why = "take it out, and change the key"
                    raise UsageError(f"{file} holds the value of ${name}: {why}")
            for form, pattern in _FORMS.items() if written_by_us else ():
                if pattern.search(part):
                    why = "take it out of the file, and change the key"
                    raise UsageError(f"{file} holds what looks like {form}: {why}")
