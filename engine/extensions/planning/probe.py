"""Small test calls for the abilities of a model that a sweep needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson
from msgspec import structs

from ....cache.call import Call, Message
from ....cache.reply import Reply


@dataclass(frozen=True, slots=True)
class Probe:
    """One call, and the check of its reply for the ability that it tests."""

    name: str
    call: Call
    fault: Callable[[Reply], str]
    """Describes the fault of a reply; empty if there is none."""
    remedy: str
    then: Callable[[Reply], Call] | None = None
    """The follow-up call to a reply without fault; None if there is none."""


def probes_of(shapes: Iterable[Call]) -> dict[str, list[Probe]]:
    """Model -> probes made from its first calls with logprobs, with a schema and with tools.

    Tools take two calls: some servers write a tool call, but fail when its result is sent back.
    A probe keeps the other parameters of its call, since vendors also refuse combinations.
    """
    probes: dict[str, dict[str, Probe]] = {}
    for shape in shapes:
        of_model = probes.setdefault(shape.model, {})
        if shape.top_logprobs:
            of_model.setdefault("logprobs", _logprobs(shape))
        if shape.response_format is not None:
            of_model.setdefault("schema", _schema(shape))
        if shape.tools:
            of_model.setdefault("tools", _tools(shape))
    return {model: [*of_model.values()] for model, of_model in probes.items()}


def _saying(shape: Call, text: str) -> Call:
    return Call(structs.replace(shape.request, messages=(Message("user", text),)))


def _logprobs(shape: Call) -> Probe:
    def fault(reply: Reply) -> str:
        if not reply.logprobs:
            return "it answers without logprobs"
        if shape.top_logprobs > 1 and not any(len(token.top) > 1 for token in reply.logprobs):
            return "it reports no candidates beside the token that it drew"
        return ""

    return Probe(
        "logprobs",
        _saying(shape, "Which letter comes first, A or B? Answer with the letter alone."),
        fault,
        "judge by stated probabilities or votes",
    )


def _schema(shape: Call) -> Probe:
    wanted = shape.response_format
    schema = orjson.loads(wanted.schema) if wanted is not None else {}

    def fault(reply: Reply) -> str:
        if reply.outcome == "truncated":
            return f"its answer does not fit into {shape.max_tokens:,} tokens"
        try:
            said = orjson.loads(reply.text)
        except orjson.JSONDecodeError:
            return "it answers with no JSON"
        missing = [
            name
            for name in schema.get("required", ())
            if not isinstance(said, dict) or name not in said
        ]
        return f"its JSON lacks {', '.join(missing)}" if missing else ""

    text = f"Make up values, and answer with JSON of this schema: {orjson.dumps(schema).decode()}"
    return Probe("a JSON schema", _saying(shape, text), fault, "choose another model, or kind")


def _tools(shape: Call) -> Probe:
    tool = shape.tools[0]

    def fault(reply: Reply) -> str:
        if not reply.tool_calls:
            return f"it was required to call {tool.name}, and did not"
        asked = reply.tool_calls[0]
        try:
            orjson.loads(asked.arguments)
        except orjson.JSONDecodeError:
            return "its arguments are no JSON"
        return "" if asked.name == tool.name else f"it calls a tool of its own, {asked.name}"

    text = f"Call the tool {tool.name} once, with arguments of your choice, and say nothing else."
    first = _saying(shape, text)

    def then(reply: Reply) -> Call:
        said = Message("assistant", reply.text, reply.tool_calls, opaque=reply.opaque)
        results = (Message("tool", "4", tool_call_id=each.id) for each in reply.tool_calls)
        return Call(structs.replace(shape.request, messages=(*first.messages, said, *results)))

    return Probe("tools", first, fault, "leave them out, or choose another model", then)
