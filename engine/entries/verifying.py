"""Verifying an entry: offline, digests first, then every figure from the record, and every cell
from the replies where its code is trusted."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from ...cache.bundle import BundleStore
from ...cache.errors import CacheError
from ...cache.record import read_record
from ...protocols.transcript import Failure
from ..errors import EngineError, UsageError
from ..record.export import said
from ..record.values import RecordedCell
from ..runs.outcome import projected
from ..runs.reader import RunReader
from ..runs.recorded import REPLIES
from ..runs.run_folder import lines
from ..sharing.contents import SAID
from ..sharing.opening import contents_of, member_of, open_pack
from ..system.files import read_bounded
from .entry import (
    CELLS,
    ENTRY,
    FIGURES,
    MAX_FILE,
    PACK,
    REGISTRATION,
    Entry,
    cell_digests,
    digest_of,
    first_difference,
    named,
    read_entry,
)
from .publishing import described


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of verifying an entry."""

    entry: Entry
    wrong: tuple[str, ...]
    """What is not as the entry says, by the names of cells, figures and files; empty: nothing."""
    replayed: int = 0
    """Cells that came out equal when they were run again on their replies."""

    @property
    def badges(self) -> tuple[str, ...]:
        if self.wrong:
            return ()
        found = ["consistent"]
        if self.replayed:
            found.append("replayed")
        if self.entry.registration:
            found.append("self-registered" if not self.entry.deviations else "deviates")
        if self.entry.simulated:
            found.append("simulated")
        return tuple(found)


def verify(folder: Path, keep: Path | None = None) -> Verified:
    """Check an entry without running any of its code. keep: where its run folder is left, for who
    replays it. EntryError for a folder that is no entry."""
    entry, stated = read_entry(folder)
    wrong = list(_files(folder, entry, stated))
    with TemporaryDirectory(prefix="oversight-entry") as at:
        opened = keep or Path(at) / "opened"
        try:
            open_pack(folder / PACK, opened)
            wrong += _contents(folder, opened, entry)
        except (EngineError, CacheError) as exc:
            wrong.append(f"{PACK}: {str(exc).replace(f'{opened}', PACK)}")
    return Verified(entry, tuple(dict.fromkeys(wrong)))


def _files(folder: Path, entry: Entry, stated: str) -> Iterator[str]:
    if entry.digest != stated:
        yield f"{ENTRY}: its digest is {stated[:12]}…, and what it says makes {entry.digest[:12]}…"
    there = {str(f.relative_to(folder)) for f in folder.rglob("*") if not f.is_dir()}
    for name in sorted(there - {ENTRY} - set(entry.files)):
        yield f"{name}: it is not listed in {ENTRY}"
    for name, digest in entry.files.items():
        if name not in there:
            yield f"{name}: it is missing"
        elif digest_of(read_bounded(folder / name, MAX_FILE)) != digest:
            yield f"{name}: it was changed"


def _contents(folder: Path, opened: Path, entry: Entry) -> Iterator[str]:
    run = RunReader(opened)
    yield from _cells(folder, run)
    spans = map(run.sweep.span, range(len(run.problems)))
    recorded = (cell for span in spans for cell in run.cells(span).values())
    packed = member_of(folder / PACK, SAID).splitlines(keepends=True)
    for cell, line in zip_longest(recorded, packed):
        if cell is None or line is None:
            yield f"{PACK}: {SAID} has more or fewer lines than cells"
        elif said(cell) != line:
            yield f"{named(run, cell.place)}: its line of {SAID} contradicts those before it"
    about = {"submitter": entry.submitter, "licence": entry.licence, "track": entry.track}
    registration = folder / REGISTRATION
    try:
        made, files = described(
            run,
            contents_of(folder / PACK),
            about,
            registration if registration.exists() else None,
        )
    except UsageError as exc:
        yield str(exc)
        return
    for name, content in files.items():
        try:
            there = read_bounded(folder / name, MAX_FILE)
        except FileNotFoundError:
            continue  # said already
        if there == content:
            continue
        if name == FIGURES:
            yield f"{name}: {_figure(there, content)}"
        elif name != CELLS:
            yield f"{name}: it is not what the record makes"
    for name in sorted(set(entry.files) - set(files) - {PACK}):
        yield f"{name}: it is no file of an entry"
    for field in Entry.__slots__:
        one, other = getattr(entry, field), getattr(made, field)
        if field != "files" and (told := first_difference({field: one}, {field: other})):
            yield f"{ENTRY}: {told}"


def _figure(there: bytes, content: bytes) -> str:
    try:
        then = orjson.loads(there)
    except orjson.JSONDecodeError as exc:
        return f"it cannot be read: {exc}"
    return first_difference(then, orjson.loads(content)) or "another spelling"


def _cells(folder: Path, run: RunReader) -> Iterator[str]:
    """Cells that are missing or changed, and those whose record, outcome and replies contradict one
    another."""
    listed: dict[int, str] = {}
    try:
        for line in read_bounded(folder / CELLS, MAX_FILE).decode().splitlines():
            number, _, digest = line.partition(" ")
            listed[int(number)] = digest
    except (FileNotFoundError, ValueError):
        yield f"{CELLS}: it cannot be read"
    ended = {orjson.loads(line)["place"]: line for line in lines(run.folder)}
    file = run.folder / REPLIES
    store = BundleStore(file) if file.is_file() else None
    replies: dict[str, str] = {}
    if store is not None:
        for key in list(store.keys()):
            stored = read_record(key, store.get(key) or b"")
            address = stored.call().address if stored.call_size else stored.address
            replies[address] = stored.reply().text
        store.close()
    found = set()
    for place, digest, cell in cell_digests(run):
        found.add(place)
        if listed.get(place) != digest:
            known = "it was changed" if place in listed else f"it is not in {CELLS}"
            yield f"{named(run, place)}: {known}"
        if cell is None:
            yield f"{named(run, place)}: it has no record"
        elif place not in ended:
            yield f"{named(run, place)}: it has no outcome"
        else:
            yield from _said(run, cell, replies)
    for place in sorted(listed.keys() - found):
        yield f"{named(run, place)}: it is missing"
    for landed in projected(run.record):
        if landed.place in ended and ended[landed.place] != landed.line:
            yield f"{named(run, landed.place)}: its outcome is not that of its record"


def _said(run: RunReader, cell: RecordedCell, replies: dict[str, str]) -> Iterator[str]:
    if replies:
        for call in cell.calls:
            if call.address not in replies:
                lost = isinstance(cell.outcome, Failure)
                if not lost:
                    yield f"{named(run, cell.place)}: reply {call.address[:12]} is missing"
            elif replies[call.address] != call.text:
                yield f"{named(run, cell.place)}: reply {call.address[:12]} says something else"
