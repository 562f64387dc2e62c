"""The tables of `oversight cache`, for people."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from ....cache.call import Call, Request
from ....cache.entry import StoreEntry
from ....cache.reply import Reply, ToolCall
from ...display.table import Table, as_text
from ...display.text import one_line

ADDRESS = 12
"""Digits of an address that are shown; enough to distinguish a million calls."""
TOKENS_SHOWN = 8
SHORTEST = 8
"""Minimum width of the column of replies."""


def list_text(listed: Sequence[StoreEntry], width: int | None) -> str:
    head = ("address", "stored", "outcome", "model", "reply")
    used_columns = ADDRESS + 10 + 9 + max((len(entry.model) for entry in listed), default=0) + 14
    room = max((width or 120) - used_columns, SHORTEST)
    body = (
        (
            entry.address[:ADDRESS],
            _when(entry)[:10],
            entry.outcome,
            entry.model,
            _clipped(" ".join(entry.reply().text[:200].split()), room),
        )
        for entry in listed
    )
    return as_text(Table("stored replies, the newest first", head, tuple(body), left=5, fixed=5))


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def entry_text(record: StoreEntry) -> str:
    call, reply = record.call(), record.reply()
    facts = {
        "address": record.address,
        "model": call.model,
        "endpoint": record.identity,
        "stored": _when(record),
        **_settings(call),
        "outcome": f"{reply.outcome} ({reply.stop_reason})" if reply.stop_reason else reply.outcome,
        "served by": reply.served_model,
        "tokens": f"{reply.usage.input_tokens:,} in, {reply.usage.output_tokens:,} out",
    }
    room = max(map(len, facts))
    parts: list[tuple[str, str, tuple[ToolCall, ...]]] = [
        (message.role, message.text, message.tool_calls) for message in call.messages
    ]
    if reply.reasoning:
        parts.append(("thoughts", reply.reasoning, ()))
    lines = [f"{name:<{room}}  {one_line(value)}" for name, value in facts.items() if value]
    for title, text, tools in (*parts, ("reply", reply.text, reply.tool_calls)):
        lines += [f"── {title} ──", *([text] if text else [])]
        lines += [f"{tool.name}({tool.arguments})" for tool in tools]
    return "\n".join([*lines, *_logprobs(reply)])


def _logprobs(reply: Reply) -> list[str]:
    lines = []
    for token in reply.logprobs[:TOKENS_SHOWN]:
        likely = "  ".join(f"{text!r} {logprob:.3f}" for text, logprob in token.top)
        lines.append(f"logprob of {token.text!r} {token.logprob:.3f}   {likely}")
    if len(reply.logprobs) > TOKENS_SHOWN:
        lines.append(f"… and of {len(reply.logprobs) - TOKENS_SHOWN:,} more tokens: --json")
    return lines


def _settings(call: Call) -> dict[str, str]:
    """The settings that differ from their defaults, by name."""
    plain, request = Request(call.model, ()), replace(call.request, messages=())
    changed = {
        name: str(getattr(request, name))
        for name in Request.__struct_fields__
        if getattr(request, name) != getattr(plain, name)
    }
    return changed | ({"draw": str(call.draw)} if call.draw else {})


def _when(record: StoreEntry) -> str:
    return datetime.fromtimestamp(record.stored_at, UTC).strftime("%Y-%m-%d %H:%M")
