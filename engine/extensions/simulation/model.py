"""Parameters of a simulated model, from which every expected score follows, and its chance."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple, TypeAlias

from ....cache.call import value_address
from ...providers.simulated import SimulatedModel

Shift: TypeAlias = Literal[-1, 1]
"""Sign of the noise of one reply; both are equally likely."""

_WORDS = struct.Struct(">8I")

DECIMALS = 3
"""Number of decimals of a strength, in nats, as a speech states it."""


@dataclass(frozen=True, slots=True)
class SimModel(SimulatedModel):
    """A model that does not think: how it speaks and how it judges are set, in nats of log odds.

    The same model may sit in any seat: `persuasion` and `honesty_gap` matter when it argues for an
    answer, `insight` and `muddle` when it judges, the rest always."""

    persuasion: float = 1.0
    """Nats by which one of its speeches moves a simulated judge toward the answer argued for."""
    honesty_gap: float = 0.5
    """Nats by which a speech for the true answer is stronger than one for a wrong answer."""
    insight: float = 1.0
    """Nats by which its own reading of a question leans to the truth, before it hears anyone."""
    noise: float = 0.5
    """Nats by which each reply is off, up or down with equal chance. Two points, and no bell
    curve, so that every expectation is a finite sum."""
    refusal: float = 0.0
    """Probability that it declines a call, in [0, 1]."""
    muddle: float = 0.0
    """Probability that a judgement of its cannot be read, in [0, 1]."""
    tool_use: float = 0.0
    """Probability that it uses a tool that it is offered before it speaks, in [0, 1]."""
    words: int = 110
    """Mean length of a speech: 0.7 to 1.3 times as many, and no more than it is asked for."""
    latency: float = 0.0
    """Seconds that every reply takes, on the event loop's clock."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not math.isfinite(value):
                raise ValueError(f"{field.name}: {value} is not a finite number")
        for name in ("refusal", "muddle", "tool_use"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not a probability in [0, 1]")
        for name in ("noise", "latency"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative; use 0 or more")
        if self.words < 1:
            raise ValueError(f"words: {self.words} leaves nothing to say; use 1 or more")

    def strength(self, true: bool, shift: Shift) -> float:
        """Nats that one speech states for the true answer, or for a wrong one, rounded."""
        gap = self.honesty_gap if true else -self.honesty_gap
        return round(self.persuasion + gap / 2 + shift * self.noise, DECIMALS)

    def leaning(self, shift: Shift) -> float:
        """Nats toward the truth of one unaided reading."""
        return self.insight + shift * self.noise

    @property
    def digest(self) -> str:
        """Digest of all parameters that affect replies, so without latency; 12 hex digits."""
        return value_address(replace(self, latency=0.0))[:12]


PRESETS: Mapping[str, SimModel] = {
    "sim/strong": SimModel(persuasion=1.8, honesty_gap=1.0, insight=3.0, words=130),
    "sim/medium": SimModel(persuasion=1.2, honesty_gap=0.7, insight=1.5),
    "sim/weak": SimModel(persuasion=0.7, honesty_gap=0.3, insight=0.7, words=80),
    "sim/honest": SimModel(persuasion=1.2, honesty_gap=2.0, insight=2.0),
    "sim/deceptive": SimModel(persuasion=1.8, honesty_gap=-0.6, insight=3.0),
    "sim/reckoner": SimModel(persuasion=1.2, honesty_gap=0.7, insight=1.5, tool_use=0.8),
    "sim/judge": SimModel(persuasion=0.7, honesty_gap=0.3, insight=0.7, words=40),
    "sim/unruly": SimModel(insight=0.7, noise=1.0, refusal=0.05, muddle=0.05, tool_use=0.5),
}
"""Built-in simulated models; a sweep file may define more."""


class Chance(NamedTuple):
    """The chance of one reply: independent, uniform 32-bit numbers, one per purpose."""

    noise: int
    refusal: int
    muddle: int
    tool: int
    pick: int
    start: int
    stride: int
    length: int

    @property
    def shift(self) -> Shift:
        return 1 if self.noise & 1 else -1


def chance_of(address: str) -> Chance:
    """The random numbers of a call. address: 64 hex digits."""
    return Chance._make(_WORDS.unpack(bytes.fromhex(address)))


def share(number: int) -> float:
    """A number of a `Chance`, scaled to [0, 1): it is below p with probability p."""
    return number / 2**32
