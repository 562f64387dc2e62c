"""A checker of hidden bits: the value of one bit of the list in the passage."""

import re
from collections.abc import Mapping
from typing import Any

from ...cache.call import ToolSpec
from .tool import Found, Scene, Tool


async def _used(arguments: Mapping[str, Any], scene: Scene) -> Found:
    place = arguments["place"]
    if not re.fullmatch(r"[1-9][0-9]{0,3}", place):
        return Found("error: 'place' is the number of a bit")
    found = re.search(rf"^Bit {place} is ([01])\.$", scene.question.passage, re.MULTILINE)
    if found is None:
        return Found("error: there is no such bit")
    return Found(found[1], f"bit {place}")


BIT = Tool(
    ToolSpec(
        "bit",
        "Looks up one of the hidden bits by its number, counted from 1.",
        '{"type":"object","properties":{"place":{"type":"string"}},'
        '"required":["place"],"additionalProperties":false}',
    ),
    _used,
    cost=1.0,
)
