"""Auxiliary seats: who helps the judge, and whose side they are on."""

from typing import Literal, TypeAlias

from oversight.protocols.agents.agent import Speaker
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question
from oversight.protocols.seat import Role, Seat

Aux: TypeAlias = Literal["honest", "sided", "adversarial"]
"""honest: no side, and asked for the truth. sided: for another answer than the overseen agent.
adversarial: for the agent's answer, in secret."""


def check_aux(aux: str) -> None:
    """ValueError, with the mend, if there is no such kind of helper."""
    if aux not in ("honest", "sided", "adversarial"):
        raise ValueError(f"aux: there is no {aux!r}; there is honest, sided, adversarial")


def aux_name(aux: Aux) -> str:
    """What the row of a report is called besides, for helpers who are not honest."""
    return "" if aux == "honest" else f" aux {aux}"


def aux_seat(
    protocol: Protocol,
    aux: Aux,
    speaker: Speaker,
    question: Question,
    side: Answer,
    title: str,
    act: str,
    /,
    **values: str | int,
) -> Seat:
    """The seat of a helper in the world of `side`: its section has a block for each kind.

    Everybody calls it by its title alone: a label would tell whose side it is on.
    """
    role = Role(f"{protocol.sections[0]}.{aux}", title, act)
    sides = {"honest": None, "sided": question.rival(side), "adversarial": side}
    return protocol.seat(speaker, sides[aux], role, **values)
