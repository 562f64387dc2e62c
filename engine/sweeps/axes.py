"""The settings of a row by which people plot and group: one name each, whatever the protocol."""

from dataclasses import dataclass

from ...protocols.agents.agent import Speaker
from ...protocols.drafting.best_of import BestOf
from ...protocols.protocol import Protocol


@dataclass(frozen=True, slots=True)
class Axes:
    """Settings of one row; None where the row has no such setting."""

    model: str | None = None
    """Of the overseen agent."""
    judge_model: str | None = None
    rounds: int | None = None
    """Rounds, or the turns of a consultancy."""
    simultaneous: bool | None = None
    best_of: int | None = None
    """Drafts per speech; 1 for an agent that speaks its first one."""
    temperature: float | None = None
    """Sampling temperature of the overseen agent; None also where the provider's default holds."""
    seed: int | None = None
    """Of the sweep; None in a row, which may stand in several."""


def axes(protocol: Protocol) -> Axes:
    """The axes of a protocol with its roles."""
    agent = getattr(protocol, "agent", None)
    speaker = agent if isinstance(agent, Speaker) else None
    return Axes(
        speaker.base_agent.model if speaker else None,
        protocol.judge.base_agent.model,
        getattr(protocol, "rounds", getattr(protocol, "turns", None)),
        getattr(protocol, "simultaneous", None),
        _best_of(speaker) if speaker else None,
        speaker.base_agent.temperature if speaker else None,
    )


def _best_of(speaker: Speaker) -> int:
    """The drafts of the outermost best-of-N in an agent, however deep it is wrapped."""
    if isinstance(speaker, BestOf):
        return speaker.n
    for name in getattr(speaker, "__dataclass_fields__", ()):
        inner = getattr(speaker, name)
        if isinstance(inner, Speaker):
            return _best_of(inner)
    return 1
