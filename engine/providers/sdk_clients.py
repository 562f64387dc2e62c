"""Vendors' own client libraries, each over our HTTP client; imported when first needed.

All settings are passed explicitly: clients read nothing but cloud credentials from the environment.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    from .settings import Settings


def load_clients() -> None:
    """Import the clients now, so that the first call is not delayed by about a second."""
    importlib.import_module("openai")
    importlib.import_module("anthropic")


AZURE_PATH = "/openai/v1"
"""Where Azure has OpenAI's own API."""

_CREDENTIALS: "dict[str, tuple[str, Callable[[Settings], dict[str, Any]]]]" = {
    "anthropic": ("AsyncAnthropic", lambda its: {"api_key": its.key}),
    "foundry": ("AsyncAnthropicFoundry", lambda its: {"api_key": its.key}),
    "bedrock": (
        "AsyncAnthropicBedrock",
        lambda its: {"api_key": its.key or None, "aws_region": its.option("region")},
    ),
    "vertex": (
        "AsyncAnthropicVertex",
        lambda its: {
            "access_token": its.key or None,
            "region": its.option("region"),
            "project_id": its.option("project"),
        },
    ),
}
"""By provider, its class in Anthropic's library, and the arguments of that which differ."""


def openai_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncOpenAI":
    from openai import AsyncOpenAI

    base_url = settings.base_url
    if settings.provider == "azure":
        # The address may have been given with the path already.
        base_url = base_url.removesuffix(AZURE_PATH) + AZURE_PATH
    return AsyncOpenAI(
        api_key=settings.key,
        organization=settings.option("organization") or None,
        project=settings.option("project") or None,
        base_url=base_url,
        **_once(settings, http),
    )


def anthropic_client(settings: "Settings", http: "httpx2.AsyncClient") -> "AsyncAnthropic":
    """Also for the clouds that resell its models. Without its tracing of each call."""
    library = importlib.import_module("anthropic")
    name, credentials = _CREDENTIALS[settings.provider]
    client: AsyncAnthropic = getattr(library, name)(
        base_url=settings.base_url,
        open_telemetry=False,
        **credentials(settings),
        **_once(settings, http),
    )
    return client


def _once(settings: "Settings", http: "httpx2.AsyncClient") -> dict[str, Any]:
    """Options of a client: our connections and deadline, and no retries of its own."""
    return {"timeout": settings.deadline, "max_retries": 0, "http_client": http}
