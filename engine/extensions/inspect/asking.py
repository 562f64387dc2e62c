"""An `Ask` whose calls are answered by Inspect's models."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import orjson

from ....cache.call import Ask, Call
from ....cache.extras import install_command
from ....cache.reply import Outcome, Reply, Usage
from ....protocols.judges import LogprobJudge
from ....protocols.protocol import Protocol
from ...errors import UsageError
from ...sweep.sweep import dataclasses_in

ROLE = "role/"
"""Begins the name of a model that is given by its role: `role/judge` is `--model-role judge=…`, and
where that is not given, the model of the evaluation."""

OUTCOMES: dict[str, Outcome] = {
    "max_tokens": "truncated",
    "model_length": "truncated",
    "content_filter": "refused",
}

NOT_CARRIED = (
    "Inspect's providers change or drop {what} where a model has no such setting, and a verdict "
    "must rest on what was asked: {remedy}"
)


def require_inspect() -> None:
    """UsageError, with the command that installs it, where Inspect is missing."""
    if find_spec("inspect_ai") is None:
        raise UsageError(f"this needs inspect-ai: {install_command('inspect')}")


def inspect_ask() -> Ask:
    """An `Ask` within a running evaluation: each call is a model event of the current sample.

    `provider/name` is the model of that name, `role/NAME` the one that has this role. There is no
    store behind it: nothing is shared, and nothing can be replayed. UsageError for a call with
    tools, a response format, an effort or logprobs.
    """

    async def ask(call: Call) -> Reply:
        from inspect_ai.model import GenerateConfig, get_model

        request = call.request
        for what, there in (
            ("tools", request.tools),
            ("response formats", request.response_format),
            ("efforts", request.effort),
            ("logprobs", request.top_logprobs),
            ("min_p", request.min_p is not None),
            ("service tiers", request.service_tier),
        ):
            if there:
                raise _not_carried(what, f"a call to {call.model} has them")
        if call.model.startswith(ROLE):
            model = get_model(role=call.model.removeprefix(ROLE))
        else:
            model = get_model(call.model)
        config = GenerateConfig(
            temperature=request.temperature,
            top_p=request.top_p,
            max_tokens=request.max_tokens,
            stop_seqs=list(request.stop) or None,
            top_k=request.top_k,
            seed=call.seed,
            extra_body=orjson.loads(request.extra_body) if request.extra_body else None,
        )
        # Draws differ in nothing that a cache of Inspect's would see.
        options: dict[str, Any] = {"cache": False} if call.draw else {}
        output = await model.generate([*map(_message, request.messages)], config=config, **options)
        return _reply(call, output)

    return ask


def require_carried(protocol: Protocol) -> None:
    """UsageError, with the remedy, for settings that make calls which `inspect_ask` refuses."""
    for part in dataclasses_in(protocol):
        name = type(part).__name__
        if getattr(part, "tools", ()):
            raise _not_carried("tools", f"leave out the tools of {name}")
        if getattr(part, "effort", ""):
            raise _not_carried("efforts", f"leave out the effort of {name}, or set it in Inspect")
        if isinstance(part, LogprobJudge):
            raise _not_carried("logprobs", "take a stated judge")


def _not_carried(what: str, remedy: str) -> UsageError:
    return UsageError(NOT_CARRIED.format(what=what, remedy=remedy))


def _message(message: Any) -> Any:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds = {
        "system": ChatMessageSystem,
        "user": ChatMessageUser,
        "assistant": ChatMessageAssistant,
    }
    return kinds[message.role](content=message.text)


def _reply(call: Call, output: Any) -> Reply:
    usage, stop = output.usage, output.stop_reason if output.choices else "unknown"
    outcome: Outcome = OUTCOMES.get(stop, "ok")
    if outcome == "ok" and not output.completion.strip():
        outcome = "empty"
    return Reply(
        output.completion,
        outcome=outcome,
        stop_reason=stop,
        usage=Usage(usage.input_tokens, usage.output_tokens) if usage else Usage(),
        served_model=output.model,
        call=call.address,
        reasoning="\n\n".join(_thoughts(output)),
    )


def _thoughts(output: Any) -> Iterator[str]:
    from inspect_ai.model import ContentReasoning

    if output.choices and not isinstance(content := output.message.content, str):
        for part in content:
            if isinstance(part, ContentReasoning) and not part.redacted:
                yield part.reasoning
