"""Executors: the seam between a run and the processes that run its missing cells."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...cache.cache import Mode
from ...cache.call import Ask, Call
from ...cache.store import Store
from ..errors import Halt
from ..models.accounting.ledger import UsageTotals
from ..models.router import RunPolicy
from ..sweep.sweep import Cell
from .loaded_sweep import LoadedSweep
from .record.values import RecordedCell
from .rounds import MakeRounds, one_round
from .row_pauses import RowPauses
from .run_folder import RunFolder


class AnsweredLater(ABC):
    """People in place of models: their replies come in their own time. Cells wait for them, or,
    where models are asked in batches, end and are run again once there are answers."""

    models: Sequence[str] = ()
    """Names under which they are asked, such as `person/experts`."""

    @abstractmethod
    def ask_of(self, cell: Cell, ask: Ask) -> Ask:
        """What a cell is to ask in place of `ask`."""

    @abstractmethod
    def has_answered(self, call: Call) -> bool:
        """Whether the reply is there; if not, it is waited for from now on."""

    @property
    @abstractmethod
    def answers(self) -> int:
        """How many replies there have been."""

    @property
    @abstractmethod
    def open(self) -> int:
        """How many calls wait."""

    @abstractmethod
    async def news(self, most: float) -> None:
        """Return when anything has changed, or after `most` seconds."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work of an executor, and its means."""

    loaded: LoadedSweep
    folder: RunFolder
    """Says which cells have an outcome. Outcomes reach it through `keep` alone."""
    store: Store
    mode: Mode
    policy: RunPolicy
    lanes: int
    """How many cells may be under way at a time."""
    run_id: str
    """Id of the run folder. A refresh does not ask again for what earlier sessions of it stored."""
    keep: Callable[[Sequence[RecordedCell]], None]
    """Takes outcomes as cells end; they are in the folder once `flush` has returned, or before.
    RunFolderError if the disk is full or fails."""
    flush: Callable[[], Awaitable[None]]
    before: Mapping[str, UsageTotals] = field(default_factory=dict)
    """What earlier sessions of the run asked and paid, by model."""
    run_again: int = 0
    """Number of cells that had failed and are run again."""
    pauses: RowPauses = field(default_factory=lambda: RowPauses((), active=False))
    """Which rows are paused; the owner of `keep` passes it the outcomes."""
    later: AnsweredLater | None = None
    rounds: MakeRounds = one_round
    """How the models are asked that answer in their own time, such as those in batches."""

    def missing(self) -> Iterator[Cell]:
        """The cells without an outcome whose rows are not paused, anew each time."""
        paused = self.pauses.paused
        return (cell for cell in self._without_outcome() if not paused(cell.row))

    def halted(self) -> Halt | None:
        """Why a run stops whose missing cells are done: cells of paused rows are left."""
        return self.pauses.halt(self._without_outcome())

    def _without_outcome(self) -> Iterator[Cell]:
        has = self.folder.has
        return (cell for cell in self.loaded.sweep.cells() if not has(cell.place))
