"""Vendors' own client libraries, each over our HTTP client; imported when first needed.

All settings are passed explicitly: clients read nothing but cloud credentials from the environment.
"""

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2
    from anthropic import (
        AsyncAnthropic,
        AsyncAnthropicBedrock,
        AsyncAnthropicFoundry,
        AsyncAnthropicVertex,
    )
    from openai import AsyncAzureOpenAI, AsyncOpenAI

    from .settings import Settings


def load_clients() -> None:
    """Import the clients now, so that the first call is not delayed by about a second."""
    importlib.import_module("openai")
    importlib.import_module("anthropic")


def openai_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncOpenAI":
    from openai import AsyncOpenAI

    return AsyncOpenAI(
        api_key=settings.key,
        organization=settings.option("organization") or None,
        project=settings.option("project") or None,
        base_url=settings.base_url,
        **_once(settings, http),
    )


def azure_v1_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncOpenAI":
    # The address may have been given with the path already, as the plain client needs it.
    root = settings.base_url.removesuffix("/openai/v1")
    return openai_client(replace(settings, base_url=f"{root}/openai/v1"), http)


def azure_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncAzureOpenAI":
    from openai import AsyncAzureOpenAI

    return AsyncAzureOpenAI(
        api_key=settings.key,
        azure_endpoint=settings.base_url,
        api_version=settings.option("version"),
        **_once(settings, http),
    )


def anthropic_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncAnthropic":
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(api_key=settings.key, **_untraced(settings, http))


def foundry_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncAnthropicFoundry":
    from anthropic import AsyncAnthropicFoundry

    return AsyncAnthropicFoundry(api_key=settings.key, **_untraced(settings, http))


def bedrock_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncAnthropicBedrock":
    from anthropic import AsyncAnthropicBedrock

    return AsyncAnthropicBedrock(
        api_key=settings.key or None,
        aws_region=settings.option("region"),
        **_untraced(settings, http),
    )


def vertex_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncAnthropicVertex":
    from anthropic import AsyncAnthropicVertex

    return AsyncAnthropicVertex(
        access_token=settings.key or None,
        region=settings.option("region"),
        project_id=settings.option("project"),
        **_untraced(settings, http),
    )


def _once(settings: "Settings", http: "httpx2.AsyncClient") -> dict[str, Any]:
    """Options of a client: our connections and deadline, and no retries of its own."""
    return {"timeout": settings.deadline, "max_retries": 0, "http_client": http}


def _untraced(settings: "Settings", http: "httpx2.AsyncClient") -> dict[str, Any]:
    """`_once` for Anthropic's clients, with the address, and without their tracing of each call."""
    return {
        "base_url": settings.base_url,
        "open_telemetry": False,
        **_once(settings, http),
    }
