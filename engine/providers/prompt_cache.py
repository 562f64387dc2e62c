"""Vendors' prompt caches: the prefix of a call that is worth caching there.

A prompt begins with what all calls about a problem share, its passage and question; then come the
rules, which those of one protocol share (oversight.protocols.prompts.render).
"""

import hashlib
from functools import lru_cache

from ...cache.call import Call, ToolSpec
from ...protocols.prompts.parse import leading, marked_parts, problem_prefix, shared_beginning
from .capabilities import abilities

_CHARACTERS_A_TOKEN = 4
_OPENAI_MINIMUM = 1024 * _CHARACTERS_A_TOKEN
"""Characters. OpenAI caches longer prompts by itself, whatever the model."""


def keeps_prefixes(model: str) -> bool:
    """Whether the vendor of a model caches marked prefixes."""
    return bool(abilities(model).prompt_cache_minimum)


def kept_prefix(call: Call) -> tuple[tuple[ToolSpec, ...], str] | None:
    """The tools and the shortest part of the leading system text that the vendor caches if it is
    marked: what the problem's calls share if that is long enough, or else all of it; None if
    neither is."""
    least = abilities(call.model).prompt_cache_minimum * _CHARACTERS_A_TOKEN
    if not least:
        return None
    begun = ""
    for part in marked_parts(call):
        begun += part
        if len(begun) >= least:
            return call.tools, begun
    return None


def cache_key(call: Call) -> str:
    """A short name of what all calls about the problem share, by which OpenAI sends them to one
    machine; empty for a call that is too short to be cached."""
    texts = leading(call)
    if not texts or sum([len(each.text) for each in call.messages]) < _OPENAI_MINIMUM:
        return ""
    return _key(texts[0].text)


def expected_prefix(call: Call) -> str:
    """The text that the vendor's cache should have once the first call with it was answered; empty
    if it keeps none of this call."""
    if kept := kept_prefix(call):
        return kept[1]
    shared = shared_beginning(call)
    return shared if call.model.startswith("openai/") and len(shared) >= _OPENAI_MINIMUM else ""


@lru_cache(maxsize=1024)  # the calls of a problem come one after another
def _key(system: str) -> str:
    return hashlib.sha256(problem_prefix(system).encode()).hexdigest()[:16]
