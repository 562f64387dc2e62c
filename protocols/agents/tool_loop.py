"""The loop in which a model asks for tools until it speaks."""

from oversight.cache.call import Ask, Call, Message
from oversight.cache.reply import Reply
from oversight.protocols.agents.tools import use
from oversight.protocols.transcript import ToolUse

MAX_TOOL_ROUNDS = 8
"""After so many replies that ask for tools, the speaker is told to speak."""

OUT_OF_ROUNDS = "error: no more tool calls; give your speech now"


async def ask_with_tools(
    call: Call, ask: Ask, tools: tuple[str, ...]
) -> tuple[Reply, tuple[ToolUse, ...]]:
    """Ask until the reply is a speech; that reply, and the uses of tools on the way, in order.

    At most MAX_TOOL_ROUNDS + 1 calls. The last reply counts as the speech even if it asks for
    tools again.
    """
    used: list[ToolUse] = []
    for left in reversed(range(MAX_TOOL_ROUNDS)):
        reply = await ask(call)
        if not reply.tool_calls or not tools:
            return reply, tuple(used)
        if left:
            uses = [use(tools, wish) for wish in reply.tool_calls]
            used += uses
            results = [each.result for each in uses]
        else:
            results = [OUT_OF_ROUNDS] * len(reply.tool_calls)
        call = _answered(call, reply, results)
    return await ask(call), tuple(used)


def _answered(call: Call, reply: Reply, results: list[str]) -> Call:
    """The call again, with what the model wished and what the tools gave."""
    wish = Message("assistant", reply.text, reply.tool_calls, opaque=reply.opaque)
    gave = (
        Message("tool", result, tool_call_id=made.id)
        for made, result in zip(reply.tool_calls, results, strict=True)
    )
    return call.changed(messages=(*call.messages, wish, *gave))
