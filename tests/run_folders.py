"""Run folders and stores that a test looks into, or does something to."""

from pathlib import Path

from cache.disk import ReadOnlyStore
from engine.runs.outcome import line, read
from engine.sweeps.sweepfile import read_sweep_file
from protocols.transcript import Failure


def only_run(place: Path) -> Path:
    """The run folder of a working folder that has one."""
    (folder,) = (place / "runs").iterdir()
    return folder


def written(folder: Path) -> bytes:
    """The outcomes of a run."""
    return (folder / "outcomes.jsonl").read_bytes()


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def with_failures(folder: Path, kind: str, places: set[int]) -> bytes:
    """Put failures in place of outcomes, as if a provider had been down; the bytes before."""
    before = written(folder)
    file = read_sweep_file(folder / "sweep.yaml")
    cells = {cell.place: cell for cell in file.sweep({}).cells()}
    lines = [
        line(cells[record.place], Failure(kind, "for a while"))
        if (record := read(each)).place in places
        else each
        for each in before.splitlines(keepends=True)
    ]
    (folder / "outcomes.jsonl").write_bytes(b"".join(lines))
    return before


def len_of(store: Path) -> int:
    """How many replies a store holds."""
    reading = ReadOnlyStore(store)
    count = len(reading)
    reading.close()
    return count
