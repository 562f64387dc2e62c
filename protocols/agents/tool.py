"""The tools of agents: what a program computes for a speaker, whose results no model writes."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from ...cache.call import ToolSpec
from ...cache.folding import folded
from ..question import Answer, Question
from ..spelling import meant
from ..transcript import ToolUse

ERROR_PREFIX = "error:"
"""Prefix of the result of a failed use."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a tool is used: all that its result may depend on beside its arguments."""

    question: Question
    """With the passage and the environment, whether or not the speaker reads them."""
    side: Answer | None
    before: tuple[ToolUse, ...] = ()
    """What the same side used so far in this world, in order. A tool keeps no state of its own:
    whatever it has is a function of these, so that a run can be resumed and replayed."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a use."""

    result: str
    """A text, or one that starts with `error:`."""
    shown: str = ""
    """What others read of the arguments, as the words of a program: a tool keeps a model's own
    sentences out of it."""

    def __post_init__(self) -> None:
        for text in (self.result, self.shown):
            if not isinstance(text, str):
                raise TypeError(f"what a tool found is a text, not {text!r:.60}")


@dataclass(frozen=True)
class Tool:
    """A tool: to add one, write its `run` and name it in the `toolbox` of an agent of one's own.

    run: from arguments that fit the schema, and the scene, to what was found. It never raises for
    what a model wrote, always ends, and gives the same for the same; it may await.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], Scene], Awaitable[Found]]
    cost: float = 0.0
    """What a use takes of the budget of the speaker's side, failed or not."""

    def __post_init__(self) -> None:
        """ValueError for a cost or a schema that no use could have."""
        if not isinstance(self.cost, (int, float)) or not 0 <= self.cost < math.inf:
            raise ValueError(f"tool {self.spec.name!r}: cost {self.cost!r} is not 0 or more")
        _ = self.required

    @cached_property
    def properties(self) -> dict[str, dict[str, Any]]:
        """The schema of each argument, by its name."""
        properties = self._schema.get("properties", {})
        if not isinstance(properties, dict) or not all(
            isinstance(of, dict) and of.get("type", "string") in [*_TYPES]
            for of in properties.values()
        ):
            raise ValueError(f"{self._parameters}: each property has a type: {', '.join(_TYPES)}")
        return properties

    @cached_property
    def required(self) -> tuple[str, ...]:
        required, names = self._schema.get("required", []), [*self.properties]
        if not isinstance(required, list) or any(name not in names for name in required):
            raise ValueError(f"{self._parameters}: `required` lists names of its properties")
        return tuple(required)

    @property
    def _parameters(self) -> str:
        return f"tool {self.spec.name!r}: parameters {self.spec.parameters!r:.60}"

    @cached_property
    def _schema(self) -> dict[str, Any]:
        try:
            schema = orjson.loads(self.spec.parameters)
        except orjson.JSONDecodeError as exc:
            raise ValueError(f"{self._parameters}: no JSON: {exc}") from exc
        if not isinstance(schema, dict):
            raise ValueError(f"{self._parameters}: no JSON Schema of an object")
        return schema

    def read(self, arguments: str) -> dict[str, Any] | str:
        """The arguments that a model wrote, or an error text that holds nothing of them. Texts are
        stripped; a number will do for a text; what the schema does not name is left out."""
        try:
            given = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return "error: the arguments are not JSON"
        found = {}
        for name, of in self.properties.items():
            value = given.get(name) if isinstance(given, dict) else None
            if value is None and name not in self.required:
                continue
            kind = of.get("type", "string")
            if kind == "string" and isinstance(value, (int, float)) and not isinstance(value, bool):
                value = str(value)
            if not isinstance(value, _TYPES[kind]) or isinstance(value, bool) != (
                kind == "boolean"
            ):
                return f"error: the arguments need {name!r}, {_an(kind)}"
            found[name] = folded(value)[0].strip() if isinstance(value, str) else value
        return found


CHECKERS = ("calculator", "query")
"""The tools that check claims: what they compute stands in the claim, for everyone to read."""


def tool_of_text(
    name: str,
    what: str,
    argument: str,
    use: Callable[[str, Scene], Awaitable[Found]],
    cost: float = 0.0,
) -> Tool:
    """A tool with one argument, which is a text."""
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string"}},
        "required": [argument],
        "additionalProperties": False,
    }

    async def run(arguments: Mapping[str, Any], scene: Scene) -> Found:
        return await use(arguments[argument], scene)

    return Tool(ToolSpec(name, what, orjson.dumps(schema).decode()), run, cost)


def require_tool(name: str, toolbox: Mapping[str, Tool]) -> None:
    """ValueError if there is no tool of that name, with the near names, or if its entry is none."""
    if not isinstance(toolbox, Mapping):
        raise ValueError(f"toolbox: a mapping from names to tools is expected, not {toolbox!r:.60}")
    if name not in toolbox:
        raise ValueError(
            f"tools: there is no {name!r}{meant(name, toolbox)}; there is {listed(toolbox)}"
        )
    tool = toolbox[name]
    if not isinstance(tool, Tool) or tool.spec.name != name:
        raise ValueError(f"toolbox: {name!r} stands for {tool!r:.60}, no tool of this name")


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _an(kind: str) -> str:
    return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"
