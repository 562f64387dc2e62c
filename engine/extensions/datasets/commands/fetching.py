"""`oversight dataset fetch`: downloads the files of a data set and checks their checksums."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from .....protocols.spelling import meant
from ....errors import DownloadError, UsageError
from ....extensions.datasets.download import download
from ....sweep.originals import Original, Originals, originals
from ....views.cli.output import say, show


def fetch_all(name: str, folder: Path, mirror: str | None) -> None:
    """Fetch the missing files of a data set into `folder`; print them, and how to use them."""
    wanted = _wanted(name)
    if wanted.accept:
        raise DownloadError(
            f"{name} has terms to be accepted: accept them at {wanted.accept}, download the file "
            "there, and read it with\n"
            f"  problems: {{{wanted.loader.format(folder=folder)}}}"
        )
    files = wanted.files
    if mirror:
        base = mirror.rstrip("/")
        files = tuple(replace(each, url=f"{base}/{each.name}") for each in files)
    say(f"{name}: {wanted.page} (licence: {wanted.licence})")
    try:
        fetch_files(files, folder)
    except DownloadError as exc:
        raise DownloadError(f"{exc}\n  see {wanted.page}; another place: --from URL") from exc
    show(f"problems: {{{wanted.loader.format(folder=folder)}}}")


def fetch_files(files: Sequence[Original], folder: Path) -> None:
    """Download what is missing of some files, each checked. DownloadError."""
    columns = (TextColumn("·"), TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    screen = Console(stderr=True, highlight=False, force_jupyter=False)
    speed, shown = TransferSpeedColumn(), screen.is_terminal
    with Progress(*columns, speed, console=screen, transient=True, disable=not shown) as progress:
        for file in files:
            task = progress.add_task(file.name, total=None)

            def see(there: int, total: int | None, task: TaskID = task) -> None:
                progress.update(task, completed=there, total=total)

            path = folder / file.name
            digest = download(file.url, path, sha256=file.sha256, see=see)
            say(f"{path}: {path.stat().st_size:,} bytes, sha256 {_vouched(file, digest)}")


def _vouched(file: Original, digest: str) -> str:
    if file.sha256:
        return f"{digest}, as it must be"
    return f"{digest}; its authors publish none to compare"


def _wanted(name: str) -> Originals:
    table = originals()
    if name not in table:
        near = meant(name, table)
        raise UsageError(f"no data set is called {name!r}{near}; there are: {', '.join(table)}")
    return table[name]
