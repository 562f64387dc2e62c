"""Where run folders are, and which of them was written to last."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from .record.schema import RUN_DB

RUNS = Path("runs")
"""Where run folders are made, in the working folder."""


def run_folders(place: Path) -> Iterator[Path]:
    """The run folders that stand in a folder, by name; none if there is no such folder."""
    if place.is_dir():
        yield from sorted(each for each in place.iterdir() if is_run(each))


def is_run(folder: Path) -> bool:
    """Whether it is a run folder, sound or not."""
    return (folder / RUN_DB).is_file()


def touched(folder: Path) -> float:
    """When a run was last written to; seconds since 1970."""
    files = (folder / RUN_DB, folder / f"{RUN_DB}-wal")
    return max(file.stat().st_mtime for file in files if file.exists())


def newest_first(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=touched, reverse=True)


def beside(folder: Path) -> list[Path]:
    """The other run folders beside one in `runs/`, the newest first; none for one elsewhere."""
    if folder.parent.resolve() != RUNS.resolve():
        return []
    others = [each for each in run_folders(folder.parent) if each.name != folder.name]
    return newest_first(others)
