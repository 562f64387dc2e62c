"""Making a pack: one file with all of a run that others may have. Keys must not travel: what goes
in is searched for those of whoever makes it."""

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
import zstandard

from ....cache.bundle import BundleStore, export_bundle
from ....cache.record import read_record
from ....cache.store import Reader
from ....protocols.datasets.jsonl import jsonl
from ...errors import UsageError
from ...run.events import EVENTS, event_line
from ...run.manifest import encoded
from ...run.mixed import MIXED, read_mixed
from ...run.opened import without_passage
from ...run.reader import REPLIES, RunReader
from ...run.run_folder import SWEEP
from ...run.sides import SIDES
from ...sweep.document import MAX_SWEEP, Document, code_named
from ...sweep.grid import stored_grid
from ...system.files import read_bounded, unwritable
from .lines import cell_line, cells_of
from .opening import (
    CELLS,
    CODE,
    CONTENTS,
    COPIED,
    FIGURES,
    FORMAT,
    GRID,
    MANIFEST,
    PROBLEMS,
    Contents,
    PackedFile,
    make_run,
    may_hold,
    plain_member,
)
from .verifying import figures_of

LEVEL = 9
MAX_CODE = 2**24
"""Bytes of a file of code at most."""

MIN_LENGTH = 12
"""Characters; shorter values occur in texts by chance."""

_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$|PGPASSWORD", re.IGNORECASE)
_FORMS = {
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an API key": re.compile(rb"\b(?:sk-(?:ant-|proj-|or-)?|hf_|ghp_|gsk_)[A-Za-z0-9_-]{24,}"),
    "an AWS key": re.compile(rb"\bAKIA[0-9A-Z]{16}\b"),
}
"""What keys look like, whosever they are."""


def make_pack(
    run: RunReader,
    to: Path,
    passages: bool,
    store: Callable[[], AbstractContextManager[Reader]] | None,
    variables: Mapping[str, str],
    own: Path | None = None,
) -> Contents:
    """Write a run into one file, whole or not at all.

    passages: whether source texts go in. store: opens that of its replies, by which others can
    replay the run, with their requests where source texts go in, which these quote; None leaves
    them out. variables: the environment, whose keys must not go in. own: the user's sweep file,
    whose code goes in; without it, the code of an opened pack does. UsageError for a run whose
    files hold a key; RunFolderError for one that is damaged or has no record.
    """
    keys = KeyFilter(variables)
    with TemporaryDirectory(prefix=".pack", dir=to.parent) as at:
        stage = Path(at)
        policy: Literal["none", "included", "digests"] = "included" if passages else "digests"
        if not any(problem.question.passage for problem in run.problems):
            policy = "none"
        _write(stage / SWEEP, [read_bounded(run.folder / SWEEP, MAX_SWEEP)])
        _write(stage / GRID, [stored_grid(run.sweep)])
        problems = map(without_passage, run.problems) if policy == "digests" else run.problems
        _write(stage / PROBLEMS, jsonl(problems))
        missing = _code(run, stage, own)
        _write(stage / MANIFEST, [_manifest(run)])
        _write(stage / CELLS, map(cell_line, cells_of(run)))
        events = [event_line(SIDES, event) for event in run.sides.values()]
        events += [event_line(MIXED, event) for event in read_mixed(run.folder)]
        if events:
            _write(stage / EVENTS, events)
        for name in _names(stage):
            people = name.startswith(CODE) or name in (SWEEP, MANIFEST, GRID)
            keys.check(name, _read(stage / name), written_by_us=people)
        if store is not None:
            with store() as replies:
                export_bundle(replies, run.keys(), stage / REPLIES, requests=policy != "digests")
            with closing(BundleStore(stage / REPLIES)) as packed:
                keys.check(REPLIES, _texts(packed), written_by_us=False)
        its, files = run.manifest, tuple(_packed(stage, name) for name in _names(stage))
        about = its.name, its.identity, its.version, its.cells, len(run.problems)
        contents = Contents(FORMAT, *about, policy, tuple(missing), files)
        # Of what is packed, not of the run: cells that a person took back are in the run alone.
        make_run(stage, contents)
        with RunReader(stage) as staged:
            _write(stage / FIGURES, [figures_of(staged, contents)])
        files = (*files, _packed(stage, FIGURES))
        contents = msgspec.structs.replace(contents, files=files)
        _archive(stage, contents, to)
    return contents


def _manifest(run: RunReader) -> bytes:
    """The manifest without what belongs to this machine: its store."""
    theirs = {"store": "", "store_id": "", "id": "", "replies": 0}
    return encoded(msgspec.structs.replace(run.manifest, **theirs))


def _code(run: RunReader, stage: Path, own: Path | None) -> list[str]:
    """Copy files of code, and return the names of the files and modules that cannot go along.

    A run folder names no path outside of it: files beside a sweep file go in if that names them.
    """
    missing, as_run = [], Document.read(run.folder / SWEEP)
    for assignment in run.manifest.overrides:
        as_run.set(assignment)
    names = set(code_named(as_run.value))
    granted = set(code_named(Document.read(own).value)) if own else names
    for name in sorted(names):
        try:
            if name not in granted or not may_hold(f"{CODE}/{name}"):
                raise FileNotFoundError
            file = (own.parent if own else run.folder.resolve() / CODE) / name
            if own is None and file.resolve() != file:
                raise FileNotFoundError
            _write(stage / CODE / name, [read_bounded(file.resolve(), MAX_CODE)])
        except FileNotFoundError:
            missing.append(name)
    return missing


def _texts(replies: BundleStore) -> Iterator[bytes]:
    for key in list(replies.keys()):
        value = replies.get(key)
        if value is not None:
            stored = read_record(key, value)
            yield stored.call_part
            yield stored.reply().text.encode()


def _archive(stage: Path, contents: Contents, to: Path) -> None:
    listed = msgspec.json.format(msgspec.json.encode(contents))
    unfinished = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        with (
            unfinished.open("wb") as file,
            zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).stream_writer(file) as out,
            tarfile.open(fileobj=out, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
        ):
            tar.addfile(plain_member(CONTENTS, len(listed)), io.BytesIO(listed))
            for each in contents.files:
                with (stage / each.path).open("rb") as content:
                    tar.addfile(plain_member(each.path, each.size), content)
        unfinished.replace(to)
    except OSError as exc:
        raise unwritable(to, exc) from exc
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def _packed(stage: Path, name: str) -> PackedFile:
    file = stage / name
    with file.open("rb") as content:
        return PackedFile(
            name, file.stat().st_size, hashlib.file_digest(content, "sha256").hexdigest()
        )


def _names(stage: Path) -> list[str]:
    return sorted(str(file.relative_to(stage)) for file in stage.rglob("*") if file.is_file())


def _write(file: Path, parts: Iterable[bytes]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        out.writelines(parts)


def _read(file: Path) -> Iterator[bytes]:
    """The parts of a file, each with the end of the one before: a key may lie across them."""
    before = b""
    with file.open("rb") as content:
        while part := content.read(COPIED):
            yield before + part
            before = part[-4096:]


class KeyFilter:
    """Refuses content that holds a key."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """variables: the environment, by name, and what `.env` adds to it."""
        self._values = {
            name: value.strip().encode()
            for name, value in variables.items()
            if _SECRET.search(name) and len(value.strip()) >= MIN_LENGTH
        }

    def check(self, file: str, parts: Iterable[bytes], *, written_by_us: bool) -> None:
        """UsageError that names the file and whose key it is, never the key.

        written_by_us: whether people wrote it; what models write may look like a key.
        """
        for part in parts:
            for name, value in self._values.items():
                if value in part:
                    raise UsageError(
                        f"{file} holds the value of ${name}: take it out, and change the key"
                    )
            if written_by_us:
                for what, form in _FORMS.items():
                    if form.search(part):
                        raise UsageError(
                            f"{file} holds what looks like {what}: take it out of the file, and "
                            "change the key"
                        )
