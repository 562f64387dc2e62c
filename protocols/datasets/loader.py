"""The loader interface: settings that a sweep file can hold, and one way to load problems."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, Self

from ..errors import DatasetError
from ..question import Problem, balanced, randomness
from ..settings import check_numbers, ranged


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader(ABC):
    """The settings of one data set.

    Paths are kept as written, so that equal settings are equal on every machine.
    """

    quoted: ClassVar[bool] = False
    """Whether agents quote its passages to a judge who cannot read them, unless the sweep file sets
    `quotes`."""
    names_rows: ClassVar[bool] = False
    """Whether ids come from the file; else they are row numbers, not comparable across files."""

    limit: int | None = ranged(None)
    """Maximum number of problems; None for all. A higher limit keeps those of a lower one."""
    shuffle: bool = False
    """Take problems in an order drawn from (seed, id) and not in the order of the file."""
    seed: int = 0
    """Seeds the shuffled order, and the labels and wrong answers where they are drawn. Each label
    is right as often as the others."""
    proposals: bool = False
    """Split each problem into two proposals to accept or reject, its right answer and a wrong one:
    open answers instead of a choice. `limit` counts the problems before the split."""

    def __post_init__(self) -> None:
        check_numbers(self)

    @abstractmethod
    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        """The problems, with distinct ids. DatasetError where a file is wrong.

        root: where relative paths start; the folder of the sweep file, as a rule.
        """

    def pinned(self) -> Self:
        """These settings, with what may mean something else tomorrow made definite. DatasetError if
        that cannot be found out."""
        return self

    def skipped(self, root: Path = Path()) -> tuple[DatasetError, ...]:
        """The rows that `load` leaves out because they are wrong, each with its fault."""
        return ()

    def _picked(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems after shuffle and limit; read lazily unless shuffled."""
        if self.shuffle:
            problems = sorted(problems, key=lambda problem: self._rank(problem.id))
        return self._asked(islice(problems, self.limit))

    def _asked(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems, or their proposals where those are set."""
        problems = balanced(problems, self.seed)
        if self.proposals:
            from .proposals import proposals

            problems = balanced(proposals(problems, self.seed), self.seed)
        return tuple(problems)

    def _rank(self, id: str) -> float:
        """Sort key of an id in a shuffle, of the id alone: new rows do not reorder old ones."""
        return randomness(self.seed, id, "order").random()


@dataclass(frozen=True, slots=True)
class FileLoader(Loader):
    """The settings of a data set in one file."""

    path: str

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        return self._picked(self._problems(root / self.path))

    @abstractmethod
    def _problems(self, path: Path) -> Iterator[Problem]: ...
