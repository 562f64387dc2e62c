"""A wire from the server's side: it parses calls, and writes replies and errors."""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from ....cache.call import Call, ResponseFormat, ToolSpec
from ....cache.reply import Reply
from .meter import MeterReading
from .profile import FaultKind
from .vendor_rules import Endpoint

REFUSAL = "I cannot help with that."
"""Text of a refusal if the model gave none."""

_FRAME = 3
"""Tokens added by each message and each tool."""


COMPLAINTS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    files(__package__).joinpath("complaints.toml").read_text("utf-8")
)


@cache
def recorded_faults() -> Mapping[str, Mapping[str, Any]]:
    """Recorded error answers of servers, by id."""
    lines = files(__package__).joinpath("recorded_faults.jsonl").read_bytes().splitlines()
    return {fault["id"]: fault for fault in map(orjson.loads, lines)}


class ServerWire(ABC):
    """One wire, spoken by the rehearsal server. Field names live here and in
    `oversight.engine.providers`."""

    endpoint: Endpoint
    complaints: Mapping[str, str]
    """By `FaultKind`, the id of the recorded answer that is given."""

    @abstractmethod
    def call(self, body: dict[str, Any], model: str) -> Call:
        """The call in a request. model: from the path; empty if the body names it.

        Raises: KeyError, TypeError or ValueError for an invalid body.
        """

    @abstractmethod
    def reply(self, call: Call, reply: Reply, number: int) -> dict[str, Any]:
        """A reply in the vendor's format. number: of the request, for the reply's id."""

    @abstractmethod
    def error(self, kind: str, message: str, code: str | int) -> dict[str, Any]:
        """An error in the vendor's format."""

    @abstractmethod
    def limit(self, kind: str, reading: MeterReading) -> str:
        """Header lines, each ended by CRLF, with one limit. kind: `requests` or `tokens`."""

    @abstractmethod
    def wait(self, seconds: float) -> str:
        """Header lines that ask to wait."""

    @abstractmethod
    def stop_oddly(self, data: dict[str, Any]) -> None:
        """Give a reply a stop reason that does not exist."""

    def complaint(self, fault: FaultKind, message: str = "") -> tuple[int, bytes]:
        """Status and body of a recorded error; with a message, that instead of the recorded one."""
        answer = recorded_faults()[self.complaints[fault]]
        body: bytes = answer["body"].encode()
        if message:
            told = orjson.loads(body)
            told["error"]["message"] = message
            body = orjson.dumps(told)
        return answer["status"], body

    def bad_request(self, message: str, code: str = "") -> bytes:
        """Body of a 400 for a request that is invalid, or that the vendor refuses."""
        return orjson.dumps(self.error("invalid_request_error", message, code))

    def limits(self, readings: Mapping[str, MeterReading]) -> str:
        """Header lines, each ended by CRLF, with the current limits. readings: by kind."""
        return "".join(self.limit(kind, reading) for kind, reading in readings.items())


def json_text(value: Any) -> str:
    return orjson.dumps(value).decode()


def tool_spec(tool: dict[str, Any], schema: str = "parameters") -> ToolSpec:
    """A tool from the vendor's format. schema: key of the schema of its arguments."""
    return ToolSpec(tool["name"], tool.get("description") or "", json_text(tool.get(schema) or {}))


def response_format(wanted: dict[str, Any] | None) -> ResponseFormat | None:
    """A response format from the vendor's format, which may lack a name."""
    return ResponseFormat(wanted.get("name", ""), json_text(wanted["schema"])) if wanted else None


def input_tokens(call: Call) -> int:
    """A rough count of the prompt's tokens, at least 1; tools and schemas count, as they do for
    vendors."""
    count = sum(_FRAME + _tokens(message.text) for message in call.messages)
    for tool in call.tools:
        count += _FRAME + _tokens(tool.description) + _tokens(tool.parameters)
    if call.response_format is not None:
        count += _tokens(call.response_format.schema)
    return max(count, 1)


def output_tokens(reply: Reply) -> int:
    """The reply's own usage, else a rough count of its tokens, at least 1."""
    if reply.usage.output_tokens:
        return reply.usage.output_tokens
    return 1 + _tokens(reply.text) + sum(_tokens(asked.arguments) for asked in reply.tool_calls)


def _tokens(text: str) -> int:
    """Estimated tokens: four per three words, or one per six characters of text without spaces.

    The client estimates from length alone; a server that did the same would test nothing.
    """
    return max(4 * (text.count(" ") + text.count("\n")) // 3, len(text) // 6)
