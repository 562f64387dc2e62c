"""Simulated models, as far as the core knows them: computed in the process, free, and repeatable.

They are what an extension registers under `oversight.simulation`. Their names begin with `sim/`.
Real models are never asked in a dry run: stand-ins, which are simulated models, answer for them.
Without the extension a sweep may name no simulated model, and what only a dry run finds out is left
to the first calls.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache

from ...cache.call import Call
from ...cache.reply import Reply
from ...protocols.question import Problem
from ..system.process import SIMULATION_GROUP, load_one, registered

PREFIX = "sim/"
"""Prefix of the names of simulated models."""


class SimulatedModel:
    """How a simulated model speaks and judges: a dataclass, filled from `models:` of a sweep."""


class SimulatedModels(ABC):
    """An `Ask` of simulated models, which know the truth of their problems."""

    @abstractmethod
    async def __call__(self, call: Call) -> Reply:
        """The reply, after the model's latency."""

    @abstractmethod
    def reply(self, call: Call) -> Reply:
        """The reply, at once; a function of the call, the model's parameters and the truth."""

    @abstractmethod
    def identity(self, call: Call) -> str:
        """What a reply depends on besides the call."""

    @abstractmethod
    def model_identity(self, model: str) -> str:
        """The part of the identity that all calls of a model share."""


class Simulation(ABC):
    """What the extension registers: its models, and those that stand in for real ones."""

    kind: type[SimulatedModel]
    """The dataclass of a model's parameters."""
    presets: Mapping[str, SimulatedModel]
    """Models that need no description, by full name."""
    stand_in: SimulatedModel
    """Answers for a real model: speeches are about as long, and tools are used about as often."""
    casts: tuple[SimulatedModel, ...]
    """Models that answer while rows are compared: any difference should show with one of them."""

    @abstractmethod
    def models(
        self, problems: Iterable[Problem], models: Mapping[str, SimulatedModel]
    ) -> SimulatedModels:
        """The models, by full name, which know the truth of these problems."""

    @abstractmethod
    def drawn(self, call: Call, salt: int) -> Reply | None:
        """A reply in the form that a call asks for, filled in by lot; None if it asks for none."""


@cache
def simulation() -> Simulation | None:
    """The registered simulation; None where there is none."""
    names = registered(SIMULATION_GROUP)
    return next((load_one(SIMULATION_GROUP, name, Simulation) for name in names), None)
