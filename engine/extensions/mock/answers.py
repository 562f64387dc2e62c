"""The mock server's replies: filler, or those of simulated models."""

import math
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from ....cache.call import Call
from ....cache.reply import Reply, Token, ToolCall, Usage
from ...providers.simulated import SimulatedModels
from ..simulation.form import Contents, filled

Responder: TypeAlias = Callable[[Call], Reply]
"""Produces the model's reply to a call. The call's model has no provider prefix, and its draw is
empty since wires do not carry it. Must be quick: it blocks the server."""


_FILLER = " ".join(f"word{n % 10}" for n in range(60))
_WORD = Contents("word", agrees=True)


def filler(call: Call) -> Reply:
    """60 words; or, where a call asks for it, JSON of its schema, a label with logprobs, or a tool
    call."""
    told = call.messages[-1].text if call.messages else ""
    if call.tools and f"Call the tool {call.tools[0].name}" in told:
        tool = call.tools[0]
        return Reply("", (ToolCall("call_0", tool.name, filled(tool.parameters, _WORD)),))
    if call.response_format is not None:
        return Reply(filled(call.response_format.schema, _WORD))
    if call.top_logprobs:
        shared = math.log(1 / call.top_logprobs)
        labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: call.top_logprobs]
        return Reply("A", logprobs=(Token("A", shared, tuple((c, shared) for c in labels)),))
    return Reply(_FILLER)


def simulated(provider: SimulatedModels) -> Responder:
    """A responder of simulated models. provider: has them by their names on the wire.

    Each repetition of a call is a new draw, as with real models.
    """
    times: Counter[str] = Counter()

    def answer(call: Call) -> Reply:
        address = call.address
        times[address] += 1
        # The server counts the tokens.
        return replace(provider.reply(call.drawn(times[address])), usage=Usage())

    return answer
