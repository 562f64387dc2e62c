"""Vendors' prompt caches: which part of a call is worth keeping there."""

from itertools import takewhile

from oversight.cache.call import Call, Message, ToolSpec
from oversight.engine.providers.capabilities import abilities

_CHARACTERS_A_TOKEN = 4


def leading(call: Call) -> tuple[Message, ...]:
    """The system messages with which a call begins: what the calls of one question share."""
    return tuple(takewhile(lambda message: message.role == "system", call.messages))


def kept_prefix(call: Call) -> tuple[tuple[ToolSpec, ...], str] | None:
    """The tools and the text of them, if its model's vendor keeps what is marked and this is long
    enough for it; else None."""
    least = abilities(call.model).prompt_cache_minimum
    if not least:
        return None
    text = "".join([message.text for message in leading(call)])
    return (call.tools, text) if len(text) / _CHARACTERS_A_TOKEN >= least else None
