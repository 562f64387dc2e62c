"""The axes of a row, from its protocol."""

from ...protocols.agents.agent import Speaker
from ...protocols.protocol import Protocol
from .grid import Axes


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
    if speaker is speaker.base_agent:
        return 1
    from ...protocols.drafting.best_of import BestOf

    if isinstance(speaker, BestOf):
        return speaker.n
    for name in getattr(speaker, "__dataclass_fields__", ()):
        inner = getattr(speaker, name)
        if isinstance(inner, Speaker):
            return _best_of(inner)
    return 1
