"""Vendors' prompt caches: the prefix of a call that is worth caching there."""

from itertools import takewhile

from ...cache.call import Call, Message, ToolSpec
from .capabilities import abilities

_CHARACTERS_A_TOKEN = 4


def leading(call: Call) -> tuple[Message, ...]:
    """The leading system messages of a call, which all calls of one question share."""
    return tuple(takewhile(lambda message: message.role == "system", call.messages))


def keeps_prefixes(model: str) -> bool:
    """Whether the vendor of a model caches marked prefixes."""
    return bool(abilities(model).prompt_cache_minimum)


def kept_prefix(call: Call) -> tuple[tuple[ToolSpec, ...], str] | None:
    """The tools and the leading system text, if the vendor caches marked prefixes and this one is
    long enough; else None."""
    least = abilities(call.model).prompt_cache_minimum
    if not least:
        return None
    text = "".join([message.text for message in leading(call)])
    return (call.tools, text) if len(text) / _CHARACTERS_A_TOKEN >= least else None
