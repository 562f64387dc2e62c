"""Where the original files of data sets are: a table, and what a user adds to it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from pydantic import TypeAdapter


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
