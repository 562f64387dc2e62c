"""The tools of agents: what a program computes for a speaker, whose results no model writes; and
their use within a budget, until a model gives its speech, or by claims in it that are checked.

A side's budget is drawn on by the uses in the transcript that its speaker reads: nothing else is
kept. A claim is a use of a tool inside a speech, with the result that the speaker expects.
"""

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
from ...cache.folding import folded
from ...cache.reply import Reply, ToolCall
from ..question import Answer, Question
from ..quotes import plain_signs
from ..spelling import suggestion
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
class ToolContext:
    """Where a tool is used: all that its result may depend on beside its arguments."""

    question: Question
    """With the passage and the environment, whether or not the speaker reads them."""
    side: Answer | None
    before: tuple[ToolUse, ...] = ()
    """What the same side used so far in this world, in order. A tool keeps no state of its own:
    whatever it has is a function of these, so that a run can be resumed and replayed."""
    claimed: bool = False
    """Whether a claim is checked: then what does not come out of the data is an error."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a use."""

    result: str
    """A text, or one that starts with `error:`."""
    display: str = ""
    """What others read of the arguments, as the words of a program: a tool keeps a model's own
    sentences out of it."""

    def __post_init__(self) -> None:
        for text in (self.result, self.display):
            if not isinstance(text, str):
                raise TypeError(f"what a tool found is a text, not {text!r:.60}")


@dataclass(frozen=True)
class Tool:
    """A tool: to add one, write its `run` and name it in the `toolbox` of an agent of one's own.

    run: from arguments that fit the schema, and the scene, to what was found. It never raises for
    what a model wrote, always ends, and gives the same for the same; it may await.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
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
                article = "an" if kind[0] in "aio" else "a"
                return f"error: the arguments need {name!r}, {article} {kind}"
            found[name] = folded(value)[0].strip() if isinstance(value, str) else value
        return found


CHECKERS = ("calculator", "query")
"""The tools that check claims: what they compute stands in the claim, for everyone to read."""


def tool_of_text(
    name: str,
    what: str,
    argument: str,
    use: Callable[[str, ToolContext], Awaitable[ToolResult]],
    cost: float = 0.0,
) -> Tool:
    """A tool with one argument, which is a text."""
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string"}},
        "required": [argument],
        "additionalProperties": False,
    }

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await use(arguments[argument], context)

    return Tool(ToolSpec(name, what, orjson.dumps(schema).decode()), run, cost)


def require_tool(name: str, toolbox: Mapping[str, Tool]) -> None:
    """ValueError if there is no tool of that name, with the near names, or if its entry is none."""
    if not isinstance(toolbox, Mapping):
        raise ValueError(f"toolbox: a mapping from names to tools is expected, not {toolbox!r:.60}")
    if name not in toolbox:
        raise ValueError(
            f"tools: there is no {name!r}{suggestion(name, toolbox)}; there is "
            f"{joined_names(toolbox)}"
        )
    tool = toolbox[name]
    if not isinstance(tool, Tool) or tool.spec.name != name:
        raise ValueError(f"toolbox: {name!r} stands for {tool!r:.60}, no tool of this name")


def joined_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


_AT_ONCE: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


def turns() -> asyncio.Semaphore:
    """Limits processes under way to the number of cores, for each event loop."""
    loop = asyncio.get_running_loop()
    return _AT_ONCE.setdefault(loop, asyncio.Semaphore(os.cpu_count() or 1))


MAX_TOOL_ROUNDS = 8
"""Maximum number of replies with tool calls; after the last, the speaker must give its speech."""

MAX_CALLS = 16
"""Maximum number of tool calls in one reply that are run."""

OUT_OF_ROUNDS = "error: no more tool calls; give your speech now"
TOO_MANY = f"error: no more than {MAX_CALLS} tool calls at once are run"
OVER_BUDGET = "error: over budget"
CLAIM = "claim"
"""Name of a checked claim among the uses of a turn."""
VERIFIED, REFUTED = "verified", "refuted"
MAX_EXPECTED = 40
"""Characters of the number that a claim expects: the judge reads it as a program's words."""


@dataclass(frozen=True, slots=True)
class ToolBudget:
    """What a speaker may use."""

    toolbox: Mapping[str, Tool]
    """By name, the tools that there are."""
    tools: tuple[str, ...] = ()
    budget: float | None = None
    """What may be spent, with what was spent before; None: as much as one likes."""


async def ask_with_tools(
    call: Call, ask: Ask, allowed: ToolBudget, context: ToolContext
) -> tuple[Reply, tuple[ToolUse, ...]]:
    """Ask until the reply is a speech; that reply, and the uses of tools on the way, in order.

    At most MAX_TOOL_ROUNDS + 1 calls. The last reply counts as the speech even if it asks for
    tools again.
    """
    used: list[ToolUse] = []
    for left in reversed(range(MAX_TOOL_ROUNDS)):
        reply = await ask(call)
        if not reply.tool_calls or not allowed.tools:
            return reply, tuple(used)
        wishes = tuple(_undressed(wish, allowed.tools) for wish in reply.tool_calls)
        results = [TOO_MANY if left else OUT_OF_ROUNDS] * len(reply.tool_calls)
        for number, wish in enumerate(wishes[:MAX_CALLS] if left else ()):
            used.append(await use(allowed, wish, replace(context, before=(*context.before, *used))))
            results[number] = used[-1].result
        call = _answered(call, reply, wishes, results)
    return await ask(call), tuple(used)


def _undressed(wish: ToolCall, tools: Collection[str]) -> ToolCall:
    """A tool call by the tool's own name, without marks and namespaces that models write:
    `calculator<|channel|>commentary`, `functions.calculator:0`."""
    name = wish.name.partition("<|")[0].partition(":")[0].rpartition(".")[2].strip(" `\"'()")
    dressed = wish.name not in tools and name in tools
    return structs.replace(wish, name=name) if dressed else wish


def _answered(call: Call, reply: Reply, wishes: tuple[ToolCall, ...], results: list[str]) -> Call:
    """The call continued with the model's tool calls and their results."""
    asked = Message("assistant", reply.text, wishes, opaque=reply.opaque)
    answers = (
        Message("tool", result, tool_call_id=wish.id)
        for wish, result in zip(wishes, results, strict=True)
    )
    return call.changed(messages=(*call.messages, asked, *answers))


async def use(allowed: ToolBudget, wish: ToolCall, context: ToolContext) -> ToolUse:
    """Run a model's tool call; a faulty call yields an error text for the model to read.

    Everyone reads the result as the words of a program. So a failed use holds nothing that the
    model wrote, and a successful one only what its tool lets through.
    """
    if wish.name not in allowed.tools:
        return ToolUse(
            "none", "", f"error: there is no such tool; there is {joined_names(allowed.tools)}"
        )
    tool = allowed.toolbox[wish.name]
    arguments = tool.read(wish.arguments)
    if isinstance(arguments, str):
        return ToolUse(wish.name, "", arguments)
    if allowed.budget is not None and spent(context.before) + tool.cost > allowed.budget + 1e-9:
        return ToolUse(wish.name, "", OVER_BUDGET)
    found = await tool.run(arguments, context)
    if not isinstance(found, ToolResult):
        raise TypeError(f"the tool {wish.name!r} gives a ToolResult, and gave {found!r:.60}")
    failed = found.result.startswith(ERROR_PREFIX)
    return ToolUse(wish.name, "" if failed else found.display, found.result, tool.cost)


async def check_claims(
    allowed: ToolBudget, speech: str, context: ToolContext
) -> tuple[ToolUse, ...]:
    """What was found of each claim in a speech, in order: `verified`, `refuted`, or an error where
    it could not be checked or was over budget."""
    found: list[ToolUse] = []
    for claim in claims_in(speech):
        so_far = replace(context, before=(*context.before, *found), claimed=True)
        found.append(await _checked(allowed, claim, so_far))
    return tuple(found)


def spent(uses: Sequence[ToolUse]) -> float:
    return math.fsum(use.cost for use in uses)


def unspoken(turn: Turn) -> float:
    """What a draft of a turn that nobody heard spent more than the one that was spoken."""
    spoken = spent(turn.tools)
    return max([spoken, *(spent(draft.tools) for draft in turn.drafts)]) - spoken


async def _checked(allowed: ToolBudget, claim: Claim, context: ToolContext) -> ToolUse:
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
    shown = f"{name}: {used.arguments} = {expected}"
    return ToolUse(CLAIM, shown, VERIFIED if holds else REFUTED, used.cost)


def _number(text: str) -> float | None:
    """The finite number that a text is, in digits; None if it is none."""
    try:
        value = float(text) if set(text) <= set("0123456789.+-eE") else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
