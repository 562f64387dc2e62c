"""The tables of `oversight cache`, for people."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from msgspec.structs import replace
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from ....cache.call import Call, Request
from ....cache.record import Record
from ....cache.reply import Reply, ToolCall
from ....cache.stats import ReplyCounts, StoreStatistics
from ...display.console import PrintableConsole
from ...display.printable import printable
from ...display.quantity import counted

ADDRESS = 12
"""Digits of an address that are shown; enough to distinguish a million calls."""
TOKENS_SHOWN = 8
SHORTEST = 8
"""Minimum width of the column of replies."""


def print_statistics(store: str, size: int, statistics: StoreStatistics) -> None:
    total = statistics.total
    parts = [f"store {store}", counted(total.replies, "reply", "replies")]
    if size:
        parts.append(f"{decimal(size)} ({total.plain_size / size:.1f} × compressed)")
    for outcome in ("refused", "truncated", "empty"):
        if count := total.outcomes.get(outcome, 0):
            parts.append(f"{count:,} {outcome}")
    if statistics.damaged:
        parts.append(f"{statistics.damaged:,} damaged: oversight cache verify")
    console = _console()
    console.print(" · ".join(parts), soft_wrap=True)
    if total.replies:
        console.print(_counts("by model", statistics.models))
        console.print(_counts("by month", statistics.months))
        came = ", ".join(f"{count:,} {origin}" for origin, count in statistics.origins.items())
        console.print(f"came from: {came}", soft_wrap=True)


def print_list(chosen: Iterable[Record]) -> None:
    listed = list(chosen)
    table = Table(box=None, pad_edge=False)
    # Only the reply is cut to the width: the other columns distinguish calls.
    model = min(max((len(record.model) for record in listed), default=0), 28)
    fixed = (("address", ADDRESS), ("stored", 10), ("outcome", 9), ("model", model))
    for name, width in fixed:
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=width, max_width=width)
    table.add_column("reply", no_wrap=True)
    console = _console()
    room = console.width - sum(width + 2 for _, width in fixed)
    for record in listed:
        beginning = " ".join(record.reply().text[:200].split())
        table.add_row(
            record.address[:ADDRESS],
            _when(record)[:10],
            record.outcome,
            record.model,
            _clipped(beginning, max(room, SHORTEST)),
        )
    if table.row_count:
        console.print(table)


def _clipped(text: str, width: int) -> str:
    """A line cut to `width` columns; some letters take two."""
    clipped = Text(printable(text))
    clipped.truncate(width, overflow="ellipsis")
    return clipped.plain


def print_entry(record: Record) -> None:
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
    console = _console()
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        if value:
            table.add_row(name, value)
    console.print(table)
    for message in call.messages:
        _print_part(console, message.role, message.text, message.tool_calls)
    if reply.reasoning:
        _print_part(console, "thoughts", reply.reasoning, ())
    _print_part(console, "reply", reply.text, reply.tool_calls)
    for line in _logprobs(reply):
        console.print(line, soft_wrap=True)


def _print_part(
    console: PrintableConsole, title: str, text: str, tool_calls: tuple[ToolCall, ...]
) -> None:
    console.rule(title, align="left")
    if text:
        console.print(text, soft_wrap=True)
    for each in tool_calls:
        console.print(f"{each.name}({each.arguments})", soft_wrap=True)


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
    plain, asked = Request(call.model, ()), replace(call.request, messages=())
    changed = {
        name: str(getattr(asked, name))
        for name in Request.__struct_fields__
        if getattr(asked, name) != getattr(plain, name)
    }
    return changed | ({"draw": str(call.draw)} if call.draw else {})


def _counts(title: str, counts: Mapping[str, ReplyCounts]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title)
    for name in ("replies", "refused", "truncated", "empty", "uncompressed"):
        table.add_column(name, justify="right")
    for name, each in counts.items():
        outcomes = (each.outcomes.get(o, 0) for o in ("refused", "truncated", "empty"))
        figures = (f"{count:,}" if count else "" for count in outcomes)
        table.add_row(name, f"{each.replies:,}", *figures, decimal(each.plain_size))
    return table


def _when(record: Record) -> str:
    return datetime.fromtimestamp(record.stored_at, UTC).strftime("%Y-%m-%d %H:%M")


def _console() -> PrintableConsole:
    return PrintableConsole(markup=False)
