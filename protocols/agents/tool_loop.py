"""The tool loop: runs a model's tool calls until it gives its speech."""

from dataclasses import replace

from ...cache.call import Ask, Call, Message
from ...cache.reply import Reply
from ..transcript import ToolUse
from .tool import Scene
from .tools import Allowance, use

MAX_TOOL_ROUNDS = 8
"""Maximum number of replies with tool calls; after the last, the speaker must give its speech."""

MAX_CALLS = 16
"""Maximum number of tool calls in one reply that are run."""

OUT_OF_ROUNDS = "error: no more tool calls; give your speech now"
TOO_MANY = f"error: no more than {MAX_CALLS} tool calls at once are run"


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
