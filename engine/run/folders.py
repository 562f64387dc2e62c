"""Run folders on the disk: their manifests, their places, and what this machine remembers of them.

A run folder from elsewhere may name any store and any address. So this machine remembers both for
each run that it makes, in the user's data folder under the id of the run, and uses no others."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
import platformdirs

from ..errors import RunFolderError
from ..models.accounting.prices import Price
from ..providers.settings import Api
from ..system.files import read_bounded, refuse_links_within, replace_file
from .record.schema import RUN_DB
from .record.tables import RunTables

if TYPE_CHECKING:
    from ..sweep.code import RowCode
    from ..sweep.sweep import Row, Sweep


MAX_SHOWN = 8
"""Number of rows, and of parts of each, that a message names at most."""


@dataclass(frozen=True, slots=True)
class RunCode:
    """The code behind each row of a run."""

    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Address of a row -> digest of its code; several, in order, where later code was adopted."""
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Digest of a row's code -> its parts: `oversight.engine.sweep.code.RowCode.parts`."""

    def adopting(self, codes: "Mapping[str, RowCode]", rows: Iterable[str]) -> Self:
        """Return this code, with the given code as the latest of some rows. rows: addresses."""
        adopted = {row: (*self.rows.get(row, ()), codes[row].digest) for row in rows}
        parts = {codes[row].digest: codes[row].parts for row in adopted}
        return type(self)({**self.rows, **adopted}, {**self.codes, **parts})

    def changes(self, now: "Mapping[str, RowCode]", rows: "Iterable[Row]") -> dict[str, str]:
        """The rows whose code is not the latest that the run had: address -> the row's name, with
        the files and the blocks of prompts that differ."""
        changes = {}
        for row in rows:
            before, after = "".join(self.rows.get(row.address, ())[-1:]), now[row.address]
            if before != after.digest:
                differ = self.codes.get(before, {}).items() ^ after.parts.items()
                changes[row.address] = (
                    f"{row.title}: {listed({place for place, _ in differ}, ', ')}"
                )
        return changes


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Enough to know whether a sweep belongs to a run folder, and to open the sweep again."""

    identity: str
    """The sweep's: oversight.engine.sweep.sweep.Sweep.identity."""
    name: str
    cells: int
    overrides: tuple[str, ...]
    """The `--set` flags that the run was started with, as written."""
    version: str
    """The version of this program with which the run was started."""
    store: str
    """Path of the store; empty for a run that kept none."""
    id: str = ""
    """16 hex digits, made once: the run has it wherever its folder is moved."""
    replies: int = 0
    """How many replies the store held when the run last stopped; fewer than that is a loss."""
    store_id: str = ""
    """The id of that store, wherever it is; empty in a run that has noted none yet."""
    part: str = ""
    """Which part of a larger sweep this is, as `3/16`; empty for a whole one."""
    apis: Mapping[str, Api] = {}
    """By model of OpenAI, the endpoint that answers for it."""
    prompts: str = ""
    """12 hex digits of all words that the seats of the run read."""
    prompt_sets: Mapping[str, Mapping[str, str]] = {}
    """By path, as the sweep names them: the blocks of the prompt sets that were read from files."""
    data: tuple[str, ...] = ()
    """Notes on its data sets: skipped rows, merged options, copied questions."""
    code: RunCode = RunCode()
    prices: Mapping[str, Price] = {}
    """By billed model, the price with which the run started; it holds when the run resumes."""

    @property
    def mixed(self) -> frozenset[str]:
        """Addresses of the rows whose cells were run with several codes, one after the other."""
        codes = self.code.rows.items()
        return frozenset(row for row, digests in codes if len(set(digests)) > 1)

    def code_of(self, sweep: "Sweep") -> RunCode | None:
        """The code behind the rows of the run, if it is one of this sweep; None if of another."""
        return self.code if self.identity == sweep.identity else None


def listed(names: Iterable[str], between: str) -> str:
    every = sorted(names)
    more = [f"and {len(every) - MAX_SHOWN} more"] if len(every) > MAX_SHOWN else []
    return between.join((*every[:MAX_SHOWN], *more))


def encoded(manifest: Manifest) -> bytes:
    # Words of a prompt set are a kind of str, which msgspec does not take for one.
    return msgspec.json.format(msgspec.json.encode(manifest, enc_hook=str))


def decoded(content: bytes, file: Path) -> Manifest:
    """Read a manifest from JSON. file: its file, for the RunFolderError."""
    try:
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise RunFolderError(f"{file}: its manifest is damaged: {exc}") from exc


def manifest_in(tables: RunTables) -> Manifest:
    return decoded(tables.told("manifest"), tables.file)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a run folder. RunFolderError, with the next step, for another folder."""
    refuse_links_within(folder)
    with RunTables.open(folder) as tables:
        return manifest_in(tables)


RUNS = Path("runs")
"""Where run folders are made, in the working folder."""

MAX_NOTE = 2**16


def run_folders(place: Path) -> Iterator[Path]:
    """Yield the run folders in a folder, by name; none if the folder does not exist."""
    if place.is_dir():
        yield from sorted(folder for folder in place.iterdir() if is_run(folder))


def is_run(folder: Path) -> bool:
    """Whether it is a run folder, sound or not."""
    return os.path.lexists(folder / RUN_DB)


def touched(folder: Path) -> float:
    """When a run was last written to; seconds since 1970."""
    files = (folder / RUN_DB, folder / f"{RUN_DB}-wal")
    return max((file.lstat().st_mtime for file in files if os.path.lexists(file)), default=0.0)


def newest_first(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=touched, reverse=True)


def runs_of(sweep: str, start: str = "") -> list[Path]:
    """The runs in `runs/` of sweeps of this name, the newest first; start: of the folder's name. A
    run that cannot be read is left out: commands that name it say what is wrong."""
    runs = []
    for folder in run_folders(RUNS):
        with suppress(RunFolderError, OSError):
            if folder.name.startswith(start) and read_manifest(folder).name == sweep:
                runs.append(folder)
    return newest_first(runs)


def sibling_runs(folder: Path) -> list[Path]:
    """Return the other run folders in `runs/`, the newest first; none for a folder elsewhere."""
    if folder.parent.resolve() != RUNS.resolve():
        return []
    return newest_first(other for other in run_folders(folder.parent) if other.name != folder.name)


class _Note(msgspec.Struct, frozen=True):
    store: str
    addresses: tuple[str, ...] = ()
    """Those that the user's sweep file gave to providers."""


def remember_run(folder: Path, id: str, store: str, addresses: tuple[str, ...] = ()) -> None:
    """Note the store and the addresses of a run under its id. Commands use the user's store where
    this fails."""
    with suppress(OSError, RunFolderError):
        file = _file(folder, id)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, [msgspec.json.encode(_Note(store, addresses))], durable=False)


def remembered_store(folder: Path, id: str | None = None) -> str:
    """The store in which this machine keeps the replies of a run; empty if it made no such run. id:
    the run's; None to read it from the folder."""
    return _noted(folder, id).store


def remembered_addresses(folder: Path) -> tuple[str, ...]:
    """The addresses that the user named when this machine made a run; none if it did not."""
    return _noted(folder).addresses


def _noted(folder: Path, id: str | None = None) -> _Note:
    try:
        file = _file(folder, read_manifest(folder).id if id is None else id)
        return msgspec.json.decode(read_bounded(file, MAX_NOTE), type=_Note)
    except (OSError, RunFolderError, msgspec.DecodeError):
        return _Note("")


def _file(folder: Path, id: str) -> Path:
    if not re.fullmatch("[0-9a-f]{16}", id):
        raise RunFolderError(f"{folder}: {id!r} is not the id of a run")
    return platformdirs.user_data_path("oversight") / "runs" / id
