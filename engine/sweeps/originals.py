"""Where the original files of data sets are: a table, and what a user adds to it."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from oversight.engine.errors import UsageError
from oversight.protocols.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Original:
    """One file as its authors published it."""

    url: str
    sha256: str = ""
    """64 hex digits; empty where the content is not known for certain."""

    @property
    def name(self) -> str:
        """Name of the file: the last part of its URL."""
        return PurePosixPath(urlsplit(self.url).path).name


@dataclass(frozen=True, slots=True)
class Originals:
    """The original files of one data set."""

    page: str
    """URL of its authors' description."""
    licence: str
    loader: str
    """A line of a sweep file that reads it; {folder} stands for where the files are."""
    files: tuple[Original, ...] = ()
    accept: str = ""
    """URL of terms that one has to agree to first, in place of files; else empty."""


@cache
def originals() -> Mapping[str, Originals]:
    """All data sets that can be downloaded, or be had on request, by name."""
    text = files("oversight.engine").joinpath("data", "datasets.toml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Originals]).validate_python(tomllib.loads(text))


@contextmanager
def missing_file_hint(name: str, where: str = "") -> Iterator[None]:
    """Raise UsageError, with the command that fetches the data set, for a file that is missing.

    name: of the data set. where: what to say of the place that was looked in.
    """
    try:
        yield
    except DatasetError as exc:
        if Path(exc.file).exists() or not str(exc).endswith("no such file"):
            raise
        fetch = f"\n  to have it: oversight dataset fetch {name}" if name in originals() else ""
        raise UsageError(f"{exc}{where}{fetch}") from None
