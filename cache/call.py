"""What is asked: a `Call`, all that decides what one model will answer, and the seam `Ask`."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from oversight.cache.errors import AddressError
from oversight.cache.reply import Reply, ToolCall

ADDRESS, PREFIX_HASH = "_address", "_stem"
"""Where a call remembers its address, and what the addresses of all its draws have in common;
orjson passes over names that begin with an underscore."""

MessageRole: TypeAlias = Literal["system", "user", "assistant", "tool"]
Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True, slots=True)
class Message:
    role: MessageRole
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant asked tools to do in this message."""
    tool_call_id: str = ""
    """On a `tool` message: the ToolCall.id that it answers."""
    opaque: str = ""
    """JSON of reasoning blocks that the provider wants back as they came; empty if none."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str
    parameters: str
    """JSON Schema of the arguments, as JSON text."""


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A reply that must be JSON of a given schema."""

    name: str
    schema: str
    """JSON Schema, as JSON text."""


@dataclass(frozen=True)
class Call:
    """One request to one model.

    Every field is part of the address: two calls are the same call if and only if all their
    fields are equal. What must not change the answer (timeouts, priorities, prompt-caching
    hints, tags) is therefore not a field.

    It has no slots: oversight.cache.address keeps the address beside the fields once it is known.
    """

    model: str
    """`provider/name`, as the user writes it."""
    messages: tuple[Message, ...]
    temperature: float | None = None
    """In [0, 2]; None leaves it to the provider, as reasoning models demand."""
    top_p: float | None = None
    """In (0, 1]; None leaves it to the provider."""
    max_tokens: int = 1024
    """The most tokens that the reply may have, hidden reasoning included."""
    stop: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    response_format: ResponseFormat | None = None
    top_logprobs: int = 0
    """How many candidates to report for each output token, in [0, 20]; 0 asks for none."""
    effort: Effort = ""
    """Reasoning effort; empty leaves it to the provider."""
    draw: tuple[int, ...] = ()
    """Which independent sample this is. Each layer that repeats a call prefixes its own index.
    The last field: what comes before it is the same for all draws."""

    def __post_init__(self) -> None:
        # 0, 0.0 and -0.0 are equal and must have one address.
        for field, value in (("temperature", self.temperature), ("top_p", self.top_p)):
            if value is None:
                continue
            if not math.isfinite(value):
                raise AddressError(field, f"{value} is not a finite number")
            object.__setattr__(self, field, float(value) + 0.0)
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature: {self.temperature} is not between 0 and 2")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: {self.top_p} is not above 0 and at most 1")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens: {self.max_tokens} is not a positive number of tokens")
        if not 0 <= self.top_logprobs <= 20:
            raise ValueError(f"top_logprobs: {self.top_logprobs} is not between 0 and 20")

    def drawn(self, index: int) -> "Call":
        """This call as sample `index` of a layer that repeats it."""
        # Copied, not made anew: what was right once is right still, and every call comes by here.
        drawn = object.__new__(Call)
        # Whichever of them is addressed first fills the list for the others.
        vars(self).setdefault(PREFIX_HASH, [])
        vars(drawn).update(vars(self), draw=(index, *self.draw))
        vars(drawn).pop(ADDRESS, None)
        return drawn


Ask: TypeAlias = Callable[[Call], Awaitable[Reply]]
"""The one seam of the house: everything that can answer a Call has this type."""

Identity: TypeAlias = Callable[[Call], str]
"""Who answers a call: what decides its reply beside the call. Two servers that serve one model
name have two identities."""


def nth(ask: Ask, index: int) -> Ask:
    """The `Ask` of the repeat number `index`: its calls are draws of their own."""

    def drawn(call: Call) -> Awaitable[Reply]:
        return ask(call.drawn(index))

    return drawn
