"""Table of the original files of data sets: their URLs, digests and licences."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from ...protocols.errors import DatasetError
from ...protocols.spelling import suggestion
from ..errors import UsageError


@dataclass(frozen=True, slots=True)
class Original:
    """One published file of a data set."""

    url: str
    sha256: str = ""
    """64 hex digits; empty if unknown."""

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
    """Line of a sweep file that loads it; {folder} is replaced by the folder of the files."""
    files: tuple[Original, ...] = ()
    accept: str = ""
    """URL of terms to accept first, instead of files; empty if there are none."""


@cache
def originals() -> Mapping[str, Originals]:
    """Name -> original files of every data set that can be downloaded or requested."""
    text = files("oversight.engine").joinpath("data", "datasets.toml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Originals]).validate_python(tomllib.loads(text))


@contextmanager
def missing_file_hint(name: str) -> Iterator[None]:
    """Turn the error about a data set's missing file into one with the command that fetches it."""
    try:
        yield
    except DatasetError as exc:
        if hint := hint_of_missing(exc, name):
            raise UsageError(f"{exc}{hint}") from None
        raise


def hint_of_missing(exc: DatasetError, name: str, where: str = "") -> str:
    """What to do about the missing file of a data set; empty for any other fault. where: says which
    folder was searched."""
    missing = Path(exc.file)
    if missing.exists() or not str(exc).endswith("no such file"):
        return ""
    fetch = f"\n  to have it: oversight dataset fetch {name}" if name in originals() else ""
    if name == "study":
        fetch = "\n  to have it: a script of examples/studies"
    beside = [each.name for each in missing.parent.glob(f"*{missing.suffix}")]
    return f"{suggestion(missing.name, beside)}{where}{fetch}"
