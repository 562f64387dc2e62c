"""Tools of agents: programs that compute results for a speaker, within a budget.

A model calls tools until it gives its speech. A claim is a tool call inside a speech, with the
result that the speaker expects; a program checks it. A side's budget is reduced by the uses in the
transcript that its speaker reads; no other state is kept."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from msgspec import structs

from ...cache.call import Ask, Call, Message, ToolSpec
from ...cache.normalize import normalized
from ...cache.reply import Reply, ToolCall
from ..prompts.forms import TEXT, object_of
from ..question import Answer, Question
from ..quotes import plain_signs
from ..settings import suggestion
from ..tags import Claim, claims_in
from ..transcript import ToolUse, Turn

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
    """The context of a tool call: its result depends only on this and on the arguments."""

    question: Question
    """With the passage and the environment, whether or not the speaker reads them."""
    side: Answer | None
    before: tuple[ToolUse, ...] = ()
    """Earlier uses by the same side in this world, in order. Tools keep no other state, so that a
    run can be resumed and replayed."""
    claimed: bool = False
    """Whether a claim is checked. Then a value that does not come from the data is an error."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    result: str
    """The result, or an error text that starts with `error:`."""
    display: str = ""
    """The part of the arguments that others read, as words of a program. It must not hold a model's
    sentences."""

    def __post_init__(self) -> None:
        for text in (self.result, self.display):
            if not isinstance(text, str):
                raise TypeError(f"a tool's result is a text, not {text!r:.60}")


@dataclass(frozen=True)
class Tool:
    """A tool. To add one, write its `run` and name it in the `toolbox` of your agent class. run: an
    async function of the arguments, which fit the schema, and the context. It must terminate, be
    deterministic and keep no state, and must not raise because of a model's text."""

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], Scene], Awaitable[ToolResult]]
    cost: float = 0.0
    """Cost of a call, charged to the budget of the speaker's side even if the call fails."""

    def __post_init__(self) -> None:
        """Raise ValueError for a bad cost or schema."""
        if not isinstance(self.cost, (int, float)) or not 0 <= self.cost < math.inf:
            raise ValueError(f"tool {self.spec.name!r}: cost {self.cost!r} is not 0 or more")
        _ = self.required

    @cached_property
    def properties(self) -> dict[str, dict[str, Any]]:
        """The schema of each argument, by name."""
        properties = self._schema.get("properties", {})
        if not isinstance(properties, dict) or not all(
            isinstance(schema, dict) and schema.get("type", "string") in [*_TYPES]
            for schema in properties.values()
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
            raise ValueError(f"{self._parameters}: not JSON: {exc}") from exc
        if not isinstance(schema, dict):
            raise ValueError(f"{self._parameters}: not a JSON Schema of an object")
        return schema

    def read(self, arguments: str) -> dict[str, Any] | str:
        """Parse the arguments that a model wrote. An error text repeats none of them. Texts are
        stripped, numbers are accepted as texts, and names outside the schema are ignored."""
        try:
            values = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return "error: the arguments are not JSON"
        arguments_read = {}
        for name, schema in self.properties.items():
            value = values.get(name) if isinstance(values, dict) else None
            if value is None and name not in self.required:
                continue
            kind, is_bool = schema.get("type", "string"), isinstance(value, bool)
            if kind == "string" and isinstance(value, (int, float)) and not is_bool:
                value = str(value)
            if not isinstance(value, _TYPES[kind]) or is_bool != (kind == "boolean"):
                article = "an" if kind[0] in "aio" else "a"
                return f"error: the arguments need {name!r}, {article} {kind}"
            arguments_read[name] = normalized(value)[0].strip() if isinstance(value, str) else value
        return arguments_read


CHECKERS = ("calculator", "query")
"""Tools that may check claims. The claim shows everyone what they compute."""


def tool_of_text(
    name: str,
    description: str,
    argument: str,
    use: Callable[[str, Scene], Awaitable[ToolResult]],
    cost: float = 0.0,
) -> Tool:
    """A tool with one text argument."""
    schema = object_of({argument: TEXT})

    async def run(arguments: Mapping[str, Any], context: Scene) -> ToolResult:
        return await use(arguments[argument], context)

    return Tool(ToolSpec(name, description, orjson.dumps(schema).decode()), run, cost)


def require_tool(name: str, toolbox: Mapping[str, Tool]) -> None:
    """Raise ValueError for an unknown name, with similar names, or if the entry is not a tool."""
    if not isinstance(toolbox, Mapping):
        raise ValueError(f"toolbox: a mapping from names to tools is expected, not {toolbox!r:.60}")
    if name not in toolbox:
        near, names = suggestion(name, toolbox), joined_names(toolbox)
        raise ValueError(f"tools: unknown tool {name!r}{near}; choose from {names}")
    tool = toolbox[name]
    if not isinstance(tool, Tool) or tool.spec.name != name:
        raise ValueError(f"toolbox: {name!r} stands for {tool!r:.60}, not for a tool of this name")


def joined_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


_AT_ONCE: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


def turns() -> asyncio.Semaphore:
    """Limit the tool processes of an event loop to the number of cores."""
    return _AT_ONCE.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(os.cpu_count() or 1))


MAX_TOOL_ROUNDS = 8
"""Maximum number of replies with tool calls; after the last, the speaker must give its speech."""

MAX_CALLS = 16
"""Maximum number of tool calls in one reply that are run."""

OUT_OF_ROUNDS = "error: no more tool calls; give your speech now"
TOO_MANY = f"error: no more than {MAX_CALLS} tool calls at once are run"
OVER_BUDGET = "error: over budget"
LEFT_IN_TEXT = "error: the server left a tool call in the text: turn on its tool parser"
_MARKS = (
    "<tool_call",
    "<|tool_call",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<function=",
    "<\uff5ctool",
)
"""Marks of tool calls, as models write them and servers should parse them."""
CLAIM = "claim"
"""Name of a checked claim among the uses of a turn."""
VERIFIED, REFUTED = "verified", "refuted"
MAX_EXPECTED = 40
"""Maximum length of a number expected by a claim, which the judge reads as a program's words."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The tools that a speaker may use, and the budget for them."""

    toolbox: Mapping[str, Tool]
    """The available tools, by name."""
    tools: tuple[str, ...] = ()
    budget: float | None = None
    """Maximum total cost, earlier uses included. None: no limit."""


async def ask_with_tools(
    call: Call, ask: Ask, allowed: Allowance, context: Scene
) -> tuple[Reply, tuple[ToolUse, ...]]:
    """Ask until the reply is a speech, running tools on the way. Return the reply and the uses. At
    most MAX_TOOL_ROUNDS + 1 calls. The last reply counts as the speech even if it asks for tools
    again."""
    uses: list[ToolUse] = []
    for rounds_left in reversed(range(MAX_TOOL_ROUNDS)):
        reply = await ask(call)
        if not reply.tool_calls or not allowed.tools:
            if allowed.tools and any(mark in reply.text for mark in _MARKS):
                uses.append(ToolUse("none", "", LEFT_IN_TEXT))
            return reply, tuple(uses)
        wishes = tuple(_undressed(wish, allowed.tools) for wish in reply.tool_calls)
        results = [TOO_MANY if rounds_left else OUT_OF_ROUNDS] * len(reply.tool_calls)
        for number, wish in enumerate(wishes[:MAX_CALLS] if rounds_left else ()):
            uses.append(await use(allowed, wish, replace(context, before=(*context.before, *uses))))
            results[number] = uses[-1].result
        call = _answered(call, reply, wishes, results)
    return await ask(call), tuple(uses)


def _undressed(tool_call: ToolCall, tools: Collection[str]) -> ToolCall:
    """A tool call under the tool's plain name, without marks and namespaces that models write:
    `calculator<|channel|>commentary`, `functions.calculator:0`."""
    words = "".join([c if c.isalnum() or c in "_-" else " " for c in tool_call.name]).split()
    name = next((tool for word in words for tool in tools if tool.lower() == word.lower()), "")
    dressed = tool_call.name not in tools and name
    return structs.replace(tool_call, name=name) if dressed else tool_call


def _answered(call: Call, reply: Reply, wishes: tuple[ToolCall, ...], results: list[str]) -> Call:
    """The call continued with the model's tool calls and their results."""
    request = Message("assistant", reply.text, wishes, opaque=reply.opaque)
    answers = (
        Message("tool", result, tool_call_id=wish.id)
        for wish, result in zip(wishes, results, strict=True)
    )
    return call.changed(messages=(*call.messages, request, *answers))


async def use(allowed: Allowance, tool_call: ToolCall, context: Scene) -> ToolUse:
    """Run a model's tool call. A faulty call yields an error text, which the model reads. Everyone
    reads the result as the words of a program. So a failed use holds nothing that the model wrote,
    and a successful one holds only the parts that its tool allows."""
    if tool_call.name not in allowed.tools:
        names = joined_names(allowed.tools)
        return ToolUse("none", "", f"error: there is no such tool; there is {names}")
    tool = allowed.toolbox[tool_call.name]
    arguments = tool.read(tool_call.arguments)
    if isinstance(arguments, str):
        return ToolUse(tool_call.name, "", arguments)
    if allowed.budget is not None and spent(context.before) + tool.cost > allowed.budget + 1e-9:
        return ToolUse(tool_call.name, "", OVER_BUDGET)
    result = await tool.run(arguments, context)
    if not isinstance(result, ToolResult):
        raise TypeError(f"the tool {tool_call.name!r} gives a ToolResult, and gave {result!r:.60}")
    failed = result.result.startswith(ERROR_PREFIX)
    return ToolUse(tool_call.name, "" if failed else result.display, result.result, tool.cost)


async def check_claims(allowed: Allowance, speech: str, context: Scene) -> tuple[ToolUse, ...]:
    """Check each claim in a speech, in order: `verified`, `refuted`, or an error if it cannot be
    checked or is over budget."""
    uses: list[ToolUse] = []
    for claim in claims_in(speech):
        so_far = replace(context, before=(*context.before, *uses), claimed=True)
        uses.append(await _checked(allowed, claim, so_far))
    return tuple(uses)


def spent(uses: Sequence[ToolUse]) -> float:
    return math.fsum(use.cost for use in uses)


def unspoken(turn: Turn) -> float:
    """How much more the most expensive draft of a turn spent than the spoken one."""
    spoken = spent(turn.tools)
    return max([spoken, *(spent(draft.tools) for draft in turn.drafts)]) - spoken


async def _checked(allowed: Allowance, claim: Claim, context: Scene) -> ToolUse:
    name, expected = claim.tool, plain_signs(claim.expected).strip()
    if name not in allowed.tools:
        return ToolUse(CLAIM, "", f"error: no such checker; there is {joined_names(allowed.tools)}")
    if len(expected) > MAX_EXPECTED or (number := _number(expected)) is None:
        return ToolUse(CLAIM, "", "error: what is expected must be a number")
    arguments = {argument: claim.body.strip() for argument in allowed.toolbox[name].required}
    used = await use(allowed, ToolCall("", name, orjson.dumps(arguments).decode()), context)
    if used.failed:
        return ToolUse(CLAIM, "", used.result, used.cost)
    value = _number(used.result)
    holds = value is not None and math.isclose(value, number, rel_tol=1e-9)
    display = f"{name}: {used.arguments} = {expected}"
    return ToolUse(CLAIM, display, VERIFIED if holds else REFUTED, used.cost)


def _number(text: str) -> float | None:
    """The finite number written in digits in `text`, or None."""
    try:
        value = float(text) if set(text) <= set("0123456789.+-eE") else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
