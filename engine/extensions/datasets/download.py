"""`oversight dataset fetch`: files of data sets, checked, each put in place whole or not at all."""

import hashlib
from dataclasses import replace
from pathlib import Path

import httpx2

from ....protocols.spelling import suggestion
from ...errors import DownloadError, UsageError
from ...sweep.originals import originals
from ...system.files import replace_file
from ...views.cli.output import say, show

TIMEOUT = httpx2.Timeout(60.0, connect=30.0)
"""Seconds of a silent connection, and of connecting; a whole file takes as long as bytes come."""


def fetch_all(name: str, folder: Path, mirror: str | None) -> None:
    """Fetch the missing files of a data set into `folder`; print them, and how to use them."""
    table = originals()
    if (wanted := table.get(name)) is None:
        near = suggestion(name, table)
        raise UsageError(f"no data set is called {name!r}{near}; there are: {', '.join(table)}")
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
    for file in files:
        path = folder / file.name
        try:
            digest = download(file.url, path, sha256=file.sha256)
        except DownloadError as exc:
            raise DownloadError(f"{exc}\n  see {wanted.page}; another place: --from URL") from exc
        vouched = "as it must be" if file.sha256 else "its authors publish none to compare"
        say(f"{path}: {path.stat().st_size:,} bytes, sha256 {digest}, {vouched}")
    show(f"problems: {{{wanted.loader.format(folder=folder)}}}")


def download(url: str, path: Path, *, sha256: str = "") -> str:
    """Download `url` to `path`; returns its sha256. A file that is there is not fetched again.

    sha256: the checksum that it must have; empty takes any. DownloadError otherwise: `path` is as
    it was, and nothing is kept of what had come.
    """
    try:
        if path.exists():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if sha256 not in ("", digest):
                raise DownloadError(
                    f"{path} is there already, with sha256 {digest} and not {sha256}; move it away "
                    "to fetch the file anew"
                )
            return digest
        path.parent.mkdir(parents=True, exist_ok=True)
        answer = httpx2.get(url, timeout=TIMEOUT, follow_redirects=True)
        if answer.status_code != 200:
            said = f"{answer.status_code} {answer.reason_phrase}"
            raise DownloadError(f"{url}: the server answers {said}")
        digest = hashlib.sha256(answer.content).hexdigest()
        if sha256 not in ("", digest):
            raise DownloadError(
                f"{url}: sha256 is {digest}, not {sha256}; nothing was kept. Either the file was "
                "changed there, or on its way here"
            )
        replace_file(path, [answer.content])
        return digest
    except httpx2.HTTPError as exc:
        raise DownloadError(f"{url}: {type(exc).__name__}: {exc}; nothing was kept") from exc
    except OSError as exc:
        raise DownloadError(f"{path}: cannot be written: {exc.strerror or exc}") from exc
