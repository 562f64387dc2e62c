"""Downloading one file: checked, and put in place whole or not at all."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeAlias

import httpx2

from ...errors import DownloadError
from ...system.files import sync_folder

See: TypeAlias = Callable[[int, int | None], None]
"""Called with the bytes so far, and the total if the server states it."""

TIMEOUT = httpx2.Timeout(60.0, connect=30.0)
"""Seconds of a silent connection, and of connecting; a whole file takes as long as bytes come."""


def download(url: str, path: Path, *, sha256: str = "", see: See) -> str:
    """Download `url` to `path`; returns its sha256. A file that is there is not fetched again.

    sha256: the checksum that it must have; empty takes any. DownloadError otherwise: `path` is as
    it was, and nothing is kept of what had come.
    """
    try:
        if path.exists():
            return _standing(path, sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as part:
            digest = hashlib.sha256()
            with httpx2.stream("GET", url, timeout=TIMEOUT, follow_redirects=True) as response:
                if response.status_code != 200:
                    said = f"{response.status_code} {response.reason_phrase}"
                    raise DownloadError(f"{url}: the server answers {said}")
                length = response.headers.get("content-length")
                for chunk in response.iter_bytes():
                    part.write(chunk)
                    digest.update(chunk)
                    see(response.num_bytes_downloaded, int(length) if length else None)
            if sha256 not in ("", found := digest.hexdigest()):
                raise DownloadError(
                    f"{url}: sha256 is {found}, not {sha256}; nothing was kept. Either the file "
                    "was changed there, or on its way here"
                )
            part.flush()
            os.fsync(part.fileno())
            os.link(part.name, path)
            sync_folder(path.parent)
            return found
    except httpx2.HTTPError as exc:
        raise DownloadError(f"{url}: {type(exc).__name__}: {exc}; nothing was kept") from exc
    except OSError as exc:
        raise DownloadError(f"{path}: cannot be written: {exc.strerror or exc}") from exc


def _standing(path: Path, sha256: str) -> str:
    """The sha256 of the file that is there already."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 not in ("", digest):
        raise DownloadError(
            f"{path} is there already, with sha256 {digest} and not {sha256}; move it away to "
            "fetch the file anew"
        )
    return digest
