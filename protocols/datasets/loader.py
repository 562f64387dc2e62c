"""What every loader is: settings that a sweep file can hold, and one way to load problems."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from oversight.protocols.datasets.proposals import proposals
from oversight.protocols.errors import DatasetError
from oversight.protocols.question import Problem, randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader(ABC):
    """The settings of one data set.

    Paths are kept as written, so that equal settings are equal on every machine.
    """

    quoted: ClassVar[bool] = False
    """Whether agents quote its passages to a judge who cannot read them, where a sweep file does
    not say."""
    names_rows: ClassVar[bool] = False
    """Whether its ids stand in the file. Others are places, and of two files two things."""

    limit: int | None = None
    """At most so many problems; None for all. A higher limit keeps those of a lower one."""
    shuffle: bool = False
    """Take problems in an order drawn from (seed, id) and not in the order of the file."""
    seed: int = 0
    """Decides the order if shuffled, the labels where they are drawn, and the wrong answers."""
    proposals: bool = False
    """Of each problem its right answer and a wrong one, each by itself, to be accepted or rejected:
    open answers in place of a choice. `limit` counts the problems before."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit: {self.limit} is not a positive number of problems")

    @abstractmethod
    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        """The problems, with distinct ids. DatasetError where a file is wrong.

        root: where relative paths start; the folder of the sweep file, as a rule.
        """

    def skipped(self, root: Path = Path()) -> tuple[DatasetError, ...]:
        """The rows that `load` leaves out because they are wrong, each with its fault."""
        return ()

    def _picked(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems that shuffle and limit leave; lazily unless shuffled."""
        if self.shuffle:
            problems = sorted(problems, key=lambda problem: self._rank(problem.id))
        return self._asked(islice(problems, self.limit))

    def _asked(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems as they are asked."""
        return tuple(proposals(problems, self.seed) if self.proposals else problems)

    def _rank(self, id: str) -> float:
        """Where a shuffle puts an id: by itself, so that new rows do not reorder old ones."""
        return randomness(self.seed, id, "order").random()
