"""Replies that come in their own time, as far as the core knows them: of batches, and of people.

An extension registers a `Batching` under `oversight.batching`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...cache.cache import Cache
from ...cache.call import Ask, Call
from ..models.accounting.ledger import UsageTotals
from ..models.router import Models
from ..sweep.sweep import Cell
from ..system.entry_points import BATCHING_GROUP, load_one, registered
from .settings import BatchTerms
from .waves import Deferred


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
class BatchedWork:
    """Work whose calls go in batches, as far as they may."""

    folder: Path
    """Keeps the events; this process holds its lock."""
    models: Models
    """Prepared."""
    cache: Cache
    terms: BatchTerms
    batched: Sequence[str]
    """Models to ask in batches."""
    entered: Mapping[str, UsageTotals] = field(default_factory=dict)
    """By model, what the ledger of the folder knows of earlier sessions."""
    later: AnsweredLater | None = None
    """People who answer meanwhile."""
    forgives: bool = False
    """Whether calls that can never be served are asked once more."""


class Batching(ABC):
    """Asks some models through their vendors' batch endpoints."""

    @abstractmethod
    def deferred(self, work: BatchedWork) -> Deferred | None:
        """The replies of batches; None where none are to be asked for, and none are out."""


@cache
def batching() -> Batching | None:
    """The registered one; None where there is none."""
    names = registered(BATCHING_GROUP)
    return next((load_one(BATCHING_GROUP, name, Batching) for name in names), None)
