"""
RunFolderError
├── NotOfThisFormat   the file called run.db is none, or another version of this program wrote it
└── RunDamaged        it is torn, truncated or overwritten
"""

from pathlib import Path

from ...errors import RunFolderError


def made_again(run: Path) -> str:
    """How a run is had again whose database is lost: its store has every reply."""
    return f"make it again from its sweep file and its store: oversight cache rebuild {run}"


def no_run(folder: Path) -> RunFolderError:
    """What a folder is that has no run.db."""
    if any((folder / name).exists() for name in ("sweep.yaml", "outcomes.jsonl")):
        return RunFolderError(f"{folder} has no run.db; {made_again(folder)}")
    return RunFolderError(f"{folder} is no run folder: it has no run.db")


class NotOfThisFormat(RunFolderError):
    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file} {why}; {made_again(file.parent)}")


class RunDamaged(RunFolderError):
    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file} is damaged ({why}); {made_again(file.parent)}")
