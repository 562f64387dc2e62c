"""A checkup: whether every model can be asked, found out with one token each."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from oversight.cache.call import Call, Message, Request
from oversight.engine.errors import (
    EngineError,
    InvalidRequest,
    OutcomeUnknown,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    Unreachable,
)
from oversight.engine.providers.capabilities import abilities
from oversight.engine.providers.catalogue import connect, entry, provider_of
from oversight.engine.providers.limit_headers import HeaderLimits
from oversight.engine.providers.provider import Provider
from oversight.engine.providers.retirements import Retirement
from oversight.engine.providers.settings import Settings

PATIENCE = 60.0
"""Seconds that one answer may take."""

DRIFT = 60.0
"""Seconds by which the clock may be off before it matters to certificates and signatures."""

TOO_SHORT = "output limit was reached"
"""What some reasoning models say where one token is too few to say anything: they are there."""


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """One thing that was looked at."""

    about: str
    """The provider, or what else it is about."""
    fine: bool
    text: str
    mend: str = ""


async def examine(
    models: Iterable[str],
    settings: Callable[[str], Settings],
    environment: Mapping[str, str],
) -> list[PreflightResult]:
    """Look at the key, the address, every model, its limits and the clock, provider by provider.

    settings: how a provider is reached; its UsageError is a finding. Sends one request a model,
    for one token, all at once. environment: variables by name.
    """
    named: dict[str, list[str]] = {}
    for model in models:
        named.setdefault(provider_of(model), []).append(model)
    async with asyncio.TaskGroup() as group:
        looking = [
            group.create_task(_provider(provider, asked, settings, environment))
            for provider, asked in named.items()
        ]
    return [finding for looked in looking for finding in looked.result()]


def key_of(provider: str, environment: Mapping[str, str]) -> PreflightResult | None:
    """Whether the key of a provider is set; None if it has none."""
    row = entry(provider)
    if not row.key_variable:
        return None
    if environment.get(row.key_variable, "").strip():
        return PreflightResult(provider, True, f"{row.key_variable} is set")
    if not row.key_needed:
        return PreflightResult(
            provider, True, f"{row.key_variable} is not set; not every server needs it"
        )
    return PreflightResult(
        provider, False, f"{row.key_variable} is not set", "put it in the environment or in .env"
    )


def ending(told: Retirement, today: date) -> PreflightResult:
    """What the retirement of a model means on a given day."""
    due = told.past(today) or told.near(today)
    mend = "name another model; what is stored of it can still be replayed" if due else ""
    return PreflightResult(provider_of(told.model), not due, str(told), mend)


def clock_of(provider: str, told: Iterable[HeaderLimits], now: datetime) -> list[PreflightResult]:
    """The clock as against that of the server, whose answers say the time; none where none does.

    now: by this machine's clock.
    """
    drifts = [(now - there).total_seconds() for said in told if (there := said.clock) is not None]
    if not drifts:
        return []
    # Answers take a while to arrive, so the least drift is the nearest to the truth.
    drift = min(drifts, key=abs)
    if abs(drift) <= DRIFT:
        return [PreflightResult(provider, True, "the clock agrees with the server's")]
    which = "ahead of" if drift > 0 else "behind"
    return [
        PreflightResult(
            provider,
            False,
            f"the clock is {abs(drift):.0f} s {which} the server's",
            "set it right: certificates and signatures depend on it",
        )
    ]


async def _provider(
    provider: str,
    models: list[str],
    settings: Callable[[str], Settings],
    environment: Mapping[str, str],
) -> list[PreflightResult]:
    findings = [found for found in [key_of(provider, environment)] if found is not None]
    if not all(finding.fine for finding in findings):
        return findings
    try:
        reached = replace(settings(provider), deadline=PATIENCE)
    except EngineError as exc:
        return [*findings, PreflightResult(provider, False, str(exc))]
    findings.append(PreflightResult(provider, True, f"its address is {reached.base_url}"))
    told: dict[str, HeaderLimits] = {}
    asked = connect(reached, told.__setitem__)
    try:
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(_model(asked, model, told)) for model in models]
    finally:
        await asked.close()
    findings += [PreflightResult(provider, *task.result()) for task in asking]
    return [*findings, *clock_of(provider, told.values(), datetime.now(UTC))]


async def _model(
    provider: Provider, model: str, told: Mapping[str, HeaderLimits]
) -> tuple[bool, str, str]:
    began = time.perf_counter()
    try:
        reply = await provider(Call(Request(model, (Message("user", "Say yes."),), max_tokens=1)))
        served = reply.served_model
    except EngineError as exc:
        if not (isinstance(exc, InvalidRequest) and TOO_SHORT in str(exc)):
            return False, f"{model}: {exc}", _mend(exc)
        served = ""
    parts = [f"{model} answers in {time.perf_counter() - began:.2f} s"]
    name = model.removeprefix(f"{provider_of(model)}/")
    if served and served != name:
        parts[0] += f", as {served}"
    if served and not _alike(name, served):
        return (
            False,
            parts[0],
            f"that is another model: write {provider_of(model)}/{served}, or have it serve {name}",
        )
    parts += _limits(told.get(model, HeaderLimits()))
    if assumed := abilities(model).assumed:
        parts.append(assumed)
    return True, " · ".join(parts), ""


def _alike(asked: str, served: str) -> bool:
    """Whether a served model may be the one asked for: a dated version of it, or its file."""
    one, other = (
        re.sub(r"[^a-z0-9]", "", name.lower().removesuffix("-latest").removesuffix(":latest"))
        for name in (asked, served)
    )
    return one in other or other in one


def _limits(told: HeaderLimits) -> list[str]:
    limits = [
        f"{allowance.limit:,} {name}"
        for name, allowance in (
            ("requests", told.requests),
            ("tokens", told.tokens),
            ("input tokens", told.input_tokens),
            ("output tokens", told.output_tokens),
        )
        if allowance.limit
    ]
    return [f"{', '.join(limits)} a minute"] if limits else []


def _mend(exc: EngineError) -> str:
    """What the error itself does not say."""
    match exc:
        case Unreachable() | ProviderDown():
            return "is it running, and is its base URL right?"
        case OutcomeUnknown():
            return "it was reached, but gave no answer; ask again"
        case QuotaExhausted():
            return "pay, raise the limit, or wait for the next month"
        case RateLimited():
            return f"wait {exc.delay:.0f} s" if exc.delay else "wait a minute"
    return ""
