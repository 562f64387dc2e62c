"""How a reply and a call are written down as JSON, and read back without trust."""

from typing import Any, get_args

import orjson

from oversight.cache.address import plain
from oversight.cache.call import SCHEMA, Call, Message, Request, ResponseFormat, ToolSpec
from oversight.cache.errors import AddressError, DamagedEntry, StoreError
from oversight.cache.reply import Outcome, Reply, Token, ToolCall, Usage

_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def write_reply(reply: Reply) -> bytes:
    """StoreError, naming the field, unless the reply can be read back equal.

    Better refused here, where its sender can be told, than found unreadable when it is needed.
    """
    try:
        data = orjson.dumps(reply)
        if read_reply("", data, reply.call) == reply:
            return data
        reason = "it would not be read back equal"
    except (orjson.JSONEncodeError, DamagedEntry) as exc:
        reason = exc.reason if isinstance(exc, DamagedEntry) else str(exc)
    try:
        plain(reply)
    except AddressError as exc:
        reason = str(exc)
    raise StoreError(f"a reply of {reply.served_model!r} cannot be stored: {reason}")


def read_reply(key: str, data: bytes, address: str) -> Reply:
    """The reply, stamped with the address that it answers. DamagedEntry if it is none."""
    try:
        fields = orjson.loads(data)
        text, stop_reason = fields["text"], fields["stop_reason"]
        served_model, opaque = fields["served_model"], fields["opaque"]
        if not type(text) is type(stop_reason) is type(served_model) is type(opaque) is str:
            raise TypeError("a text of it is no text")
        if (outcome := fields["outcome"]) not in _OUTCOMES:
            raise ValueError(f"outcome {outcome!r} is unknown")
        return Reply(
            text,
            tuple(map(_tool_call, calls)) if (calls := fields["tool_calls"]) else (),
            outcome,
            stop_reason,
            tuple(map(_token, tokens)) if (tokens := fields["logprobs"]) else (),
            _usage(fields["usage"]),
            served_model,
            opaque,
            address,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise DamagedEntry(key, f"what it holds is no reply: {exc!r}") from exc


def read_call(key: str, data: bytes) -> Call:
    """The call behind its canonical JSON. DamagedEntry if there is none."""
    try:
        schema, fields = orjson.loads(data)
        if schema != SCHEMA:
            raise DamagedEntry(key, f"its call is of schema {schema}; this version reads {SCHEMA}")
        draw = tuple(fields.pop("draw"))
        call = Call(
            Request(
                fields.pop("model"),
                tuple(map(_message, fields.pop("messages"))),
                stop=tuple(fields.pop("stop")),
                tools=tuple(ToolSpec(**tool) for tool in fields.pop("tools")),
                response_format=ResponseFormat(**form)
                if (form := fields.pop("response_format"))
                else None,
                **fields,
            ),
            draw,
        )
        # Equal bytes prove that every part has the type that it was read as.
        if call.canonical != data:
            raise ValueError("it is not canonical")
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise DamagedEntry(key, f"what it holds is no call: {exc!r}") from exc
    return call


def _message(fields: dict[str, Any]) -> Message:
    calls = fields.pop("tool_calls")
    return Message(tool_calls=tuple(ToolCall(**call) for call in calls), **fields)


def _format(fields: dict[str, str] | None) -> ResponseFormat | None:
    return None if fields is None else ResponseFormat(**fields)


def _tool_call(fields: dict[str, str]) -> ToolCall:
    call = ToolCall(fields["id"], fields["name"], fields["arguments"])
    if not type(call.id) is type(call.name) is type(call.arguments) is str:
        raise TypeError("a text of a tool call is no text")
    return call


def _token(fields: dict[str, Any]) -> Token:
    top = tuple([_candidate(text, logprob) for text, logprob in fields["top"]])
    return Token(*_candidate(fields["text"], fields["logprob"]), top)


def _candidate(text: Any, logprob: Any) -> tuple[str, float]:
    # 0 is a logprob, and some servers write it without a point.
    if type(text) is not str or type(logprob) not in (float, int):
        raise TypeError(f"{logprob!r} is no logprob of {text!r}")
    return text, float(logprob)


def _usage(fields: dict[str, Any]) -> Usage:
    usage = Usage(
        fields["input_tokens"],
        fields["output_tokens"],
        fields["cache_read_tokens"],
        fields["cache_write_tokens"],
        fields["raw"],
    )
    asked, said = usage.input_tokens, usage.output_tokens
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    if not type(asked) is type(said) is type(read) is type(written) is int:
        raise TypeError("its usage counts no tokens")
    if type(usage.raw) is not str:
        raise TypeError("its raw usage is no text")
    return usage
