"""`oversight doctor`: check keys, models and limits with a few small requests."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import orjson
from msgspec import structs

from ....cache.call import Call, Message, Request
from ....cache.reply import Reply
from ...errors import (
    EngineError,
    InvalidRequest,
    OutcomeUnknown,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    Unreachable,
    UsageError,
)
from ...providers.capabilities import (
    RESPONSES_LEAST,
    Endpoint,
    Retirement,
    abilities,
    default_endpoint,
    reached_abilities,
    retirement,
    today,
)
from ...providers.catalogue import entry, provider_names, provider_of, same_model
from ...providers.connecting import connect
from ...providers.fault import HeaderLimits
from ...providers.keys import settings_of
from ...providers.provider import Provider
from ...providers.sdk import load_clients
from ...providers.self_hosted import local_server, model_facts
from ...providers.settings import Api, Settings, environment
from ...providers.simulated import PREFIX
from ...run.dry_run import require_abilities
from ...run.loaded_sweep import LoadedSweep, open_sweep
from ...system.settings import argument
from ...views.cli.completing import sweep_files
from ...views.cli.exit_codes import ExitCode
from ...views.cli.flags import JSON, SET, as_command
from ...views.cli.output import show, show_json
from .estimate import cramped

ANSWER_SECONDS = 60.0
"""Timeout of one answer, in seconds."""

ASKED_IN_BROWSER = "persons answer in the browser: oversight human serve"

OUTPUT_LIMIT_REACHED = "output limit was reached"
"""Text in the error of reasoning models when one token is too few; it shows that they exist."""


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """One check and its result."""

    about: str
    """The subject: a provider, or something else."""
    fine: bool
    text: str
    remedy: str = ""


Finding: TypeAlias = tuple[bool, str, str]
"""A result without its subject: (fine, text, remedy)."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One call, and the check of its reply for the ability that it tests."""

    name: str
    call: Call
    fault: Callable[[Reply], str]
    """Describes the fault of a reply; empty without a fault."""
    remedy: str
    then: Callable[[Reply], Call] | None = None
    """The follow-up call to a reply without fault, or None."""


def probes_of(shapes: Iterable[Call]) -> dict[str, list[Probe]]:
    """Model -> probes made from its first calls with logprobs, with a schema and with tools. Tools
    take two calls: some servers write a tool call, but fail when its result is sent back. A probe
    keeps the other parameters of its call, since vendors also refuse combinations."""
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
            return "it reports no candidates besides the drawn token"
        return ""

    return Probe(
        "logprobs",
        _saying(shape, "Which letter comes first, A or B? Answer with the letter alone."),
        fault,
        "judge by stated probabilities or votes",
    )


def _schema(shape: Call) -> Probe:
    format = shape.response_format
    schema = orjson.loads(format.schema) if format is not None else {}

    def fault(reply: Reply) -> str:
        if reply.outcome == "truncated":
            return f"its answer does not fit into {shape.max_tokens:,} tokens"
        try:
            document = orjson.loads(reply.text)
        except orjson.JSONDecodeError:
            return "it answers with no JSON"
        fields = document if isinstance(document, dict) else {}
        missing = [name for name in schema.get("required", ()) if name not in fields]
        return f"its JSON lacks {', '.join(missing)}" if missing else ""

    text = f"Make up values, and answer with JSON of this schema: {orjson.dumps(schema).decode()}"
    return Probe("a JSON schema", _saying(shape, text), fault, "choose another model, or kind")


def _tools(shape: Call) -> Probe:
    tool = shape.tools[0]

    def fault(reply: Reply) -> str:
        if not reply.tool_calls:
            return f"it was required to call {tool.name}, and did not"
        wish = reply.tool_calls[0]
        try:
            orjson.loads(wish.arguments)
        except orjson.JSONDecodeError:
            return "its arguments are no JSON"
        return "" if wish.name == tool.name else f"it calls an undeclared tool, {wish.name}"

    text = f"Call the tool {tool.name} once, with arguments of your choice, and say nothing else."
    first = _saying(shape, text)

    def then(reply: Reply) -> Call:
        speech = Message("assistant", reply.text, reply.tool_calls, opaque=reply.opaque)
        results = (Message("tool", "4", tool_call_id=wish.id) for wish in reply.tool_calls)
        return Call(structs.replace(shape.request, messages=(*first.messages, speech, *results)))

    return Probe("tools", first, fault, "leave them out, or choose another model", then)


async def examine(
    models: Iterable[str],
    settings: Callable[[str, Api], Settings],
    environment: Mapping[str, str],
    reach: Callable[[str], Endpoint] = default_endpoint,
    shapes: Iterable[Call] = (),
) -> list[PreflightResult]:
    """Check keys, addresses, models and limits, provider by provider. settings: connection settings
    of a provider; its UsageError becomes a result. environment: variables by name. reach: API of a
    model. shapes: calls of a sweep, whatever their messages; for each model, the first with
    logprobs, the first with a schema and the first with tools are tried. Sends one request for one
    token per model, one per tried call (two for tools), all at once, and free requests to the
    vendors' Models endpoints."""
    by_endpoint: dict[tuple[str, Api], list[str]] = {}
    persons = []
    for model in models:
        if entry(provider_of(model)).origin == "person":
            persons.append(PreflightResult(model, True, ASKED_IN_BROWSER))
            continue
        by_endpoint.setdefault((provider_of(model), reach(model).api), []).append(model)
    look = partial(_provider, environment=environment, reach=reach, probes=probes_of(shapes))
    async with asyncio.TaskGroup() as group:
        looking = [
            group.create_task(look(provider, model_names, partial(settings, provider, api)))
            for (provider, api), model_names in by_endpoint.items()
        ]
    return persons + [finding for looked in looking for finding in looked.result()]


def key_of(provider: str, environment: Mapping[str, str]) -> PreflightResult | None:
    """Check that the key of a provider is set; None if the provider takes no key."""
    row = entry(provider)
    name = row.key_variable
    if not name:
        return None
    if environment.get(name, "").strip():
        return PreflightResult(provider, True, f"{name} is set")
    if not row.key_needed:
        return PreflightResult(provider, True, f"{name} is not set; not every server needs it")
    remedy = "put it in the environment or in .env"
    return PreflightResult(provider, False, f"{name} is not set", remedy)


def ending(retirement: Retirement, today: date) -> PreflightResult:
    """Check that a model is not retired, or about to be, on a given day."""
    due = retirement.past(today) or retirement.near(today)
    remedy = "choose another model; its stored replies can still be replayed" if due else ""
    return PreflightResult(provider_of(retirement.model), not due, str(retirement), remedy)


async def _provider(
    provider: str,
    models: list[str],
    settings: Callable[[], Settings],
    environment: Mapping[str, str],
    reach: Callable[[str], Endpoint],
    probes: Mapping[str, Sequence[Probe]],
) -> list[PreflightResult]:
    findings = list(filter(None, [key_of(provider, environment)]))
    if not all(finding.fine for finding in findings):
        return findings
    try:
        reached = replace(settings(), deadline=ANSWER_SECONDS)
    except EngineError as exc:
        return [*findings, PreflightResult(provider, False, str(exc))]
    if reached.refused:
        return [*findings, PreflightResult(provider, False, reached.refused)]
    findings.append(PreflightResult(provider, True, f"its address is {reached.base_url}"))
    header_limits: dict[str, HeaderLimits] = {}
    # Before the first request, whose time is told.
    load_clients(provider)
    client = connect(reached, header_limits.__setitem__)
    try:
        async with asyncio.TaskGroup() as group:
            asking: list[asyncio.Task[Finding | None]] = []
            for model in models:
                asking.append(group.create_task(_model(client, model, header_limits, reach(model))))
                for probe in probes.get(model, ()):
                    asking.append(group.create_task(_probed(client, model, probe)))
                asking.append(group.create_task(_facts(reached, model, reach(model))))
    finally:
        await client.close()
    answers = filter(None, [task.result() for task in asking])
    return [*findings, *(PreflightResult(provider, *answer) for answer in answers)]


async def _model(
    provider: Provider, model: str, header_limits: Mapping[str, HeaderLimits], reach: Endpoint
) -> Finding:
    began = time.perf_counter()
    least = RESPONSES_LEAST if reach.api == "responses" else 1
    try:
        request = Request(model, (Message("user", "Say yes."),), max_tokens=least)
        served = (await provider(Call(request))).served_model
    except EngineError as exc:
        if not (isinstance(exc, InvalidRequest) and OUTPUT_LIMIT_REACHED in str(exc)):
            return False, f"{model}: {exc}", _mend(exc)
        served = ""
    parts = [f"{model} answers in {time.perf_counter() - began:.2f} s"]
    name = model.removeprefix(f"{provider_of(model)}/")
    if served and served != name:
        parts[0] += f", as {served}"
    if served and not same_model(name, served):
        return (
            False,
            parts[0],
            f"that is another model: write {provider_of(model)}/{served}, or have it serve {name}",
        )
    if reach.api == "responses":
        parts.append("over the responses endpoint")
    parts += _limits(header_limits.get(model, HeaderLimits()))
    if assumed := abilities(reach.is_model or model).assumed:
        parts.append(assumed)
    return True, " · ".join(parts), ""


async def _probed(provider: Provider, model: str, probe: Probe) -> Finding:
    title = f"{model}: {probe.name}"
    try:
        reply = await provider(probe.call)
    except EngineError as exc:
        return False, f"{title}: {exc}", _mend(exc)
    name = model.removeprefix(f"{provider_of(model)}/")
    if reply.served_model and not same_model(name, reply.served_model):
        return False, f"{title}: answered by another model, {reply.served_model}", ""
    if wrong := probe.fault(reply):
        return False, f"{title}: {wrong}", probe.remedy
    if probe.then is not None:
        try:
            ended = await provider(probe.then(reply))
        except EngineError as exc:
            return False, f"{title}: it takes no result: {exc}", probe.remedy
        if ended.outcome == "empty":
            why = f"{title}: the model returned an empty reply after a tool result"
            return False, why, probe.remedy
    return True, f"{title}: as the sweep needs", ""


async def _facts(settings: Settings, model: str, reach: Endpoint) -> Finding | None:
    """A finding from the server's own description of a model; None if it has none."""
    row, name = entry(settings.provider), model.removeprefix(f"{settings.provider}/")
    if row.local_api:
        server = await local_server(settings, name)
        parts = [f"{server.context:,} tokens for one call"] if server.context else []
        parts += [f"{server.slots:,} at once"] if server.slots else []
        return (True, f"{model}: its server gives {', '.join(parts)}", "") if parts else None
    if not row.tells_models:
        return None
    try:
        facts = await model_facts(settings, name)
    except EngineError as exc:
        if not settings.vendors_own:
            return None  # Proxies seldom describe their models.
        return True, f"{model}: its vendor's Models endpoint could not be read: {exc}", ""
    if facts.retired or (facts.ends and facts.ends <= today()):
        return False, f"{model}: its vendor says that it is no longer served", "name another model"
    able = reached_abilities(model, reach)
    if able.assumed or not (differences := [*facts.differences(able, retirement(model))]):
        ends = f", until {facts.ends}" if facts.ends else ""
        return True, f"{model}: its vendor says that it is served{ends}", ""
    return (
        True,
        f"{model}: its vendor says otherwise than this program's tables: {'; '.join(differences)}",
        "its vendor is right; the sweep is held against the tables",
    )


def _limits(headers: HeaderLimits) -> list[str]:
    names = ("requests", "tokens", "input_tokens", "output_tokens")
    values = {name.replace("_", " "): getattr(headers, name).limit for name in names}
    limits = [f"{limit:,} {name}" for name, limit in values.items() if limit]
    return [f"{', '.join(limits)} a minute"] if limits else []


def _mend(exc: EngineError) -> str:
    """Advice beyond the error's own message."""
    if isinstance(exc, RateLimited) and exc.delay:
        return f"wait {exc.delay:.0f} s"
    return next((advice for kind, advice in _ADVICE.items() if isinstance(exc, kind)), "")


_ADVICE: Mapping[type[EngineError], str] = {
    Unreachable: "is it running, and is its base URL right?",
    ProviderDown: "is it running, and is its base URL right?",
    OutcomeUnknown: "it was reached, but gave no answer; ask again, or correct its base URL",
    QuotaExhausted: "pay, raise the limit, or wait for the next month",
    RateLimited: "wait a minute",
}


LINE = "\n"


@as_command
def command(
    targets: tuple[str, ...] = argument("[SWEEP | MODEL…]", complete=sweep_files),
    overrides: tuple[str, ...] = SET,
    as_json: bool = JSON,
) -> None:
    """Check keys, addresses, models and limits, with a few small requests.

    SWEEP: each of its models is asked for one token, and its calls are checked against the model's
    abilities; logprobs, schemas and tools are tried with one small call each, where the sweep needs
    them. The vendors' lists of models are read, at no cost. MODEL: check only these, such as
    `openai/gpt-6-luna`. With neither, list which keys are set. Exit code 1 if a check fails."""
    variables = environment(Path())
    if len(targets) == 1 and Path(targets[0]).suffix in (".yaml", ".yml"):
        findings = asyncio.run(_sweep(open_sweep(Path(targets[0]), overrides), variables))
    elif overrides:
        raise UsageError("--set is for a sweep; name its file")
    else:
        findings = asyncio.run(
            examine(targets, lambda name, api: settings_of(name, variables, api=api), variables)
        )
    if not targets:
        findings = [
            replace(result, remedy="")
            for provider_name in provider_names()
            if (result := key_of(provider_name, variables)) is not None
        ]
    if as_json:
        # No provider was asked for, so a key that is not set is not a fault.
        show_json(findings if targets else [replace(result, fine=True) for result in findings])
    else:
        show("\n".join(_lines(findings, "✗" if targets else "–")))
    if targets and not all(finding.fine for finding in findings):
        raise SystemExit(ExitCode.FAILED)


async def _sweep(opened: LoadedSweep, variables: Mapping[str, str]) -> list[PreflightResult]:
    """Check the models of a sweep: their abilities, retirements and answers."""
    models, sweep = opened.models, opened.sweep
    needs: Iterable[Call] = ()
    try:
        needs = await require_abilities(sweep, models.simulated, models.reach)
        able = PreflightResult(sweep.name, True, "its models support all that it asks for")
    except UsageError as exc:
        able = PreflightResult(sweep.name, False, str(exc))
    tight = [PreflightResult(sweep.name, False, note) for note in cramped(sweep)]
    real = [model for model in sweep.models if not model.startswith(PREFIX)]
    ends = [ending(retirement, today()) for retirement in models.retirements(sweep.models)]
    looked = await examine(real, models.settings, variables, models.reach, needs)
    return [able, *tight, *ends, *looked]


def _lines(findings: Iterable[PreflightResult], wrong: str) -> Iterator[str]:
    """The findings, grouped by subject, a single one on its line. wrong: the mark of a fault."""
    for about, group in groupby(findings, key=lambda finding: finding.about):
        results = list(group)
        name = f"{about}: " if len(results) == 1 else ""
        if not name:
            yield about
        for result in results:
            mark = "✓" if result.fine else wrong
            yield f"  {mark} {name}{result.text.replace(LINE, LINE + '    ')}"
            if result.remedy:
                yield f"    {result.remedy}"
