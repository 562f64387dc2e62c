"""The core's interface to simulated models: computed in the process, free, and repeatable.

An extension registers them under `oversight.simulation`. Their names start with `sim/`. In a dry
run, simulated stand-ins answer for real models. Without the extension a sweep cannot use simulated
models, and checks of a dry run are left to the first calls."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache

from ...cache.call import Call
from ...cache.reply import Reply
from ...protocols.question import Problem
from ..system.process import SIMULATION_GROUP, load_one, registered

PREFIX = "sim/"


class SimulatedModel:
    """Parameters of a simulated model: a dataclass, filled from `models:` of a sweep."""


class SimulatedModels(ABC):
    """An `Ask` of simulated models, which know the right answers."""

    @abstractmethod
    async def __call__(self, call: Call) -> Reply:
        """The reply, after the model's latency."""

    @abstractmethod
    def reply(self, call: Call) -> Reply:
        """The reply: a function of the call, the model's parameters and the right answer."""

    @abstractmethod
    def identity(self, call: Call) -> str:
        """Everything other than the call that a reply depends on."""

    @abstractmethod
    def model_identity(self, model: str) -> str:
        """The part of the identity that all calls of a model have in common."""


class Simulation(ABC):
    """The registered object: its models, and stand-ins for real ones."""

    kind: type[SimulatedModel]
    """The dataclass of a model's parameters."""
    presets: Mapping[str, SimulatedModel]
    """Models that need no description, by full name."""
    stand_in: SimulatedModel
    """Answers for a real model, with speeches of similar length and similar use of tools."""
    casts: tuple[SimulatedModel, ...]
    """Models that answer while rows are compared: a difference should show with one of them."""

    @abstractmethod
    def models(
        self, problems: Iterable[Problem], models: Mapping[str, SimulatedModel]
    ) -> SimulatedModels:
        """The models by full name, with the right answers of these problems."""

    @abstractmethod
    def drawn(self, call: Call, salt: int) -> Reply | None:
        """A random reply in the form that a call asks for; None if it asks for none."""


@cache
def simulation() -> Simulation | None:
    names = registered(SIMULATION_GROUP)
    return next((load_one(SIMULATION_GROUP, name, Simulation) for name in names), None)
