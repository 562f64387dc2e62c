"""Problems shipped with the package: our own, free to use, no download needed.

`arithmetic`: grade-school word problems, each with a worked solution that is right and one that
rests on an error. `passages`: questions on a short text, for judges who may not read it.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from ..question import Problem
from ..settings import unknown
from .jsonl import problems
from .loader import Loader

BUNDLED = ("arithmetic", "passages")


@dataclass(frozen=True, slots=True)
class Bundled(Loader):
    """A data set shipped with the package, with its labels as stored."""

    names_rows: ClassVar[bool] = True
    balances: ClassVar[bool] = True

    name: str

    def __post_init__(self) -> None:
        super(Bundled, self).__post_init__()
        if self.name not in BUNDLED:
            raise ValueError(f"name: {unknown('data set', self.name, BUNDLED)}")

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        """root is not used: the data are inside the package."""
        file = f"{self.name}.jsonl"
        data = files("oversight.protocols").joinpath("data", file).read_bytes()
        return self._picked(problems(f"protocols/data/{file}", data))


def bundled(name: str) -> tuple[Problem, ...]:
    """All problems of a data set shipped with the package."""
    return Bundled(name).load()
