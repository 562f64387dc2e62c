"""The use of tools within a budget, until a model gives its speech, and claims checked by one.

A side's budget is drawn on by the uses in the transcript that its speaker reads: nothing else is
kept. A claim is a use of a tool inside a speech, with the result that the speaker expects.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import orjson

from ...cache.call import Ask, Call, Message
from ...cache.reply import Reply, ToolCall
from ..tags import find_tags
from ..transcript import ToolUse, Turn
from .tool import ERROR_PREFIX, Found, Scene, Tool, listed

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
MAX_CLAIMS = 32
"""Most claims of a speech that are looked at."""

MAX_EXPECTED = 40
"""Characters that may be expected of a claim: the judge reads them among the words of a program."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a speaker may use."""

    toolbox: Mapping[str, Tool]
    """By name, the tools that there are."""
    tools: tuple[str, ...] = ()
    budget: float | None = None
    """What may be spent, with what was spent before; None: as much as one likes."""


async def ask_with_tools(
    call: Call, ask: Ask, may: Allowance, scene: Scene
) -> tuple[Reply, tuple[ToolUse, ...]]:
    """Ask until the reply is a speech; that reply, and the uses of tools on the way, in order.

    At most MAX_TOOL_ROUNDS + 1 calls. The last reply counts as the speech even if it asks for
    tools again.
    """
    used: list[ToolUse] = []
    for left in reversed(range(MAX_TOOL_ROUNDS)):
        reply = await ask(call)
        if not reply.tool_calls or not may.tools:
            return reply, tuple(used)
        results = [TOO_MANY if left else OUT_OF_ROUNDS] * len(reply.tool_calls)
        for number, wish in enumerate(reply.tool_calls[:MAX_CALLS] if left else ()):
            used.append(await use(may, wish, replace(scene, before=(*scene.before, *used))))
            results[number] = used[-1].result
        call = _answered(call, reply, results)
    return await ask(call), tuple(used)


def _answered(call: Call, reply: Reply, results: list[str]) -> Call:
    """The call continued with the model's tool calls and their results."""
    asked = Message("assistant", reply.text, reply.tool_calls, opaque=reply.opaque)
    answers = (
        Message("tool", result, tool_call_id=wish.id)
        for wish, result in zip(reply.tool_calls, results, strict=True)
    )
    return call.changed(messages=(*call.messages, asked, *answers))


async def use(may: Allowance, wish: ToolCall, scene: Scene) -> ToolUse:
    """Run a model's tool call; a faulty call yields an error text for the model to read.

    Everyone reads the result as the words of a program. So a failed use holds nothing that the
    model wrote, and a successful one only what its tool lets through.
    """
    if wish.name not in may.tools:
        return ToolUse("none", "", f"error: there is no such tool; there is {listed(may.tools)}")
    tool = may.toolbox[wish.name]
    arguments = tool.read(wish.arguments)
    if isinstance(arguments, str):
        return ToolUse(wish.name, "", arguments)
    if may.budget is not None and spent(scene.before) + tool.cost > may.budget + 1e-9:
        return ToolUse(wish.name, "", OVER_BUDGET)
    found = await tool.run(arguments, scene)
    if not isinstance(found, Found):
        raise TypeError(f"the tool {wish.name!r} gives a Found, and gave {found!r:.60}")
    failed = found.result.startswith(ERROR_PREFIX)
    return ToolUse(wish.name, "" if failed else found.shown, found.result, tool.cost)


async def check_claims(may: Allowance, speech: str, scene: Scene) -> tuple[ToolUse, ...]:
    """What was found of each claim in a speech, in order: `verified`, `refuted`, or an error where
    it could not be checked or was over budget."""
    found: list[ToolUse] = []
    for claim in islice(_claims(speech), MAX_CLAIMS):
        so_far = replace(scene, before=(*scene.before, *found))
        found.append(await _checked(may, *claim, so_far))
    return tuple(found)


def spent(uses: Sequence[ToolUse]) -> float:
    return math.fsum(use.cost for use in uses)


def unspoken(turn: Turn) -> float:
    """What a draft of a turn that nobody heard spent more than the one that was spoken."""
    spoken = spent(turn.tools)
    return max([spoken, *(spent(draft.tools) for draft in turn.drafts)]) - spoken


def _claims(speech: str) -> Iterator[tuple[str, str, str]]:
    """Tool, expected result and body of each `<claim tool="…" expect="…">…</claim>`."""
    claim, opened = ("", ""), -1
    for tag in find_tags(speech, (CLAIM,)):
        if not tag.closing and opened < 0:
            stop = speech.find("<", tag.start + 1)
            end = speech.find(">", tag.start, len(speech) if stop < 0 else stop)
            match speech[tag.start : end + 1].split('"'):
                case [head, tool, middle, expected, last] if (
                    head.casefold().split() == ["<claim", "tool="]
                    and middle[:1].isspace()
                    and middle.strip().casefold() == "expect="
                    and last.strip() == ">"
                ):
                    claim, opened = (tool, expected), end + 1
        elif tag.closing and opened >= 0:
            yield *claim, speech[opened : tag.start]
            opened = -1


async def _checked(may: Allowance, name: str, expected: str, body: str, scene: Scene) -> ToolUse:
    expected, body = expected.strip(), body.strip()
    if name not in may.tools:
        return ToolUse(CLAIM, "", f"error: no such checker; there is {listed(may.tools)}")
    if not 0 < len(expected) <= MAX_EXPECTED or not all(
        char.isalnum() or char in "_.,:%+-" for char in expected
    ):
        return ToolUse(CLAIM, "", "error: what is expected must be a number or a word")
    arguments = {argument: body for argument in may.toolbox[name].required}
    used = await use(may, ToolCall("", name, orjson.dumps(arguments).decode()), scene)
    if used.failed:
        return ToolUse(CLAIM, "", used.result, used.cost)
    finding = VERIFIED if _same(used.result, expected) else REFUTED
    return ToolUse(CLAIM, f"{name}: {used.arguments} = {expected}", finding, used.cost)


def _same(result: str, expected: str) -> bool:
    try:
        return math.isclose(float(result), float(expected), rel_tol=1e-9)
    except ValueError:
        return result.casefold() == expected.casefold()
