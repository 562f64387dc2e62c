"""Listing run folders: how far each is, and whether a process is running it."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ...protocols.errors import ProtocolError
from ..errors import EngineError, RunFolderError
from ..models.accounting.ledger import sum_usage
from ..models.accounting.ledger_file import read_ledger
from ..providers.simulated import PREFIX
from ..sweep.grid import GridRow
from ..system.files import holder, refuse_links_within
from ..system.settings import flag
from .folders import RUNS, is_run, manifest_in, newest_first, run_folders, touched
from .record.schema import no_run
from .record.tables import RunTables

MAX_NAMED = 8
"""Maximum number of folders listed where a name is ambiguous or unknown."""

UNREADABLE = (EngineError, ProtocolError, OSError)
"""Errors of one run, which hide no other one."""

_HELP = "Only rows with this text in the {}'s name."

SIMULATED, OWN_SERVER, REAL = "simulated", "own server", "real"
"""Kinds of models; an own server is one of this machine or of its network."""

RunState: TypeAlias = Literal["running", "finished", "stopped"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    folder: Path
    sweep: str
    """The sweep's name."""
    touched: float
    """When it was last written to; seconds since 1970."""
    cells: int
    finished: int
    failed: int
    running: str | None
    """The process that is running it, as `pid 4121, since 14:02`."""
    spent: float
    """Dollars."""
    overrides: tuple[str, ...] = ()
    """The `--set` flags that it was started with."""
    models: str = ""
    """The models that replied: `simulated` if any is, `own server` or `real`; else empty."""

    @property
    def simulated(self) -> bool:
        return self.models == SIMULATED

    @property
    def state(self) -> RunState:
        return state_of(self.running is not None, self.finished, self.cells)


def state_of(running: bool, finished: int, cells: int) -> RunState:
    if running:
        return "running"
    return "finished" if finished == cells else "stopped"


def summarize(folder: Path) -> RunSummary:
    """Read the state of a run. Raises RunFolderError if any part of it cannot be read."""
    refuse_links_within(folder)
    with RunTables.open(folder) as tables:
        manifest, (finished, failed) = manifest_in(tables), tables.count()
        endpoints = tables.fetched("SELECT DISTINCT model, came FROM endpoints")
        kinds = {_kind(*one) for one in endpoints}
    return RunSummary(
        *(folder, manifest.name, touched(folder), manifest.cells, finished, failed),
        holder(folder),
        sum_usage(read_ledger(folder).values()).dollars,
        manifest.overrides,
        next((kind for kind in (SIMULATED, OWN_SERVER, REAL) if kind in kinds), ""),
    )


def _kind(model: str, came: str) -> str:
    """The kind of a model by its name and the origin of its replies, as `live URL`."""
    if model.startswith(PREFIX):
        return SIMULATED
    with suppress(ValueError):
        host = urlsplit(came.partition(" ")[2]).hostname or ""
        if host == "localhost" or ip_address(host).is_private:
            return OWN_SERVER
    return REAL


def folder_named(word: str) -> Path:
    """The run folder at a path, or the only one in runs/ whose name begins so. The beginning of a
    path, as `elsewhere/sm`, is looked for where it says. RunFolderError, with the candidates, if it
    is none or may be several."""
    path = Path(word)
    place = RUNS if path.parent == Path() else path.parent
    for exact in (path, place / path.name):
        if path.name and is_run(exact):
            return exact
    starting = [run for run in run_folders(place) if path.name and run.name.startswith(path.name)]
    if len(starting) == 1:
        return starting[0]
    if starting:
        raise RunFolderError(
            f"{word!r} may be one of these, the newest first; choose one:\n{_listed(starting)}"
        )
    if path.is_dir():
        place, fault = path, str(no_run(path))
    else:
        fault = f"no run folder in {place} has a name that begins with {path.name!r}"
    if folders := list(run_folders(place)):
        raise RunFolderError(f"{fault}: choose from\n{_listed(folders)}")
    raise RunFolderError(f"{fault}\n  to list runs: oversight status; to start one: oversight run")


def summaries(folders: Iterable[Path]) -> tuple[list[RunSummary], list[str]]:
    """The state of each run, the newest first, and a message for each one that cannot be read."""
    runs, faults = [], []
    for folder in newest_first(folders):
        try:
            runs.append(summarize(folder))
        except UNREADABLE as exc:
            faults.append(str(exc))
    return runs, faults


def _listed(folders: Sequence[Path]) -> str:
    names = [f"  {folder}" for folder in newest_first(folders)[:MAX_NAMED]]
    return "\n".join([*names, "  …"] if len(folders) > MAX_NAMED else names)


@dataclass(frozen=True, slots=True)
class Parts:
    """Selects rows of the report by parts of their names; an empty part selects all."""

    protocol: str = flag(_HELP.format("protocol"), default="", metavar="TEXT")
    agent: str = flag(_HELP.format("agent"), default="", metavar="TEXT")
    judge: str = flag(_HELP.format("judge"), default="", metavar="TEXT")

    def fit(self, row: GridRow) -> bool:
        pairs = (
            (self.protocol, row.kind, row.shown),
            (self.agent, row.agent, row.shown_agent),
            (self.judge, row.judge, row.shown_judge),
        )
        return all(part.lower() in "\n".join(names).lower() for part, *names in pairs)
