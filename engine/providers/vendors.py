"""The known vendors and servers: endpoints, keys, options and identities in the store.

The code for connections is in `connecting`, which is imported with the first call."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from .provider import OnLimits, Provider
    from .settings import Settings

LocalApi: TypeAlias = Literal["", "llamacpp", "ollama", "vllm", "sglang", "any"]
"""The kind of server, by its API for context, slots and load; `any`: ask the server."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One provider of the catalogue. `…_variable`: name of an environment variable."""

    connect: "Callable[[Settings, OnLimits | None], Provider] | None" = None
    """Creates the provider; opens and imports nothing before its first call. None: OpenAI's wire
    over the plain transport, unless `connecting` says otherwise."""
    base_url: str = ""
    """Default address; may hold {options}. Empty: the user must set one."""
    base_url_variable: str = ""
    key_variable: str = ""
    """Empty if no key is ever needed."""
    key_needed: bool = True
    api: str = ""
    """Identity of the vendor's endpoint: family and version. Empty: the base URL is used."""
    own: bool = False
    """Whether it is self-hosted: its identity is its name, at any address."""
    options: tuple[tuple[str, str, str], ...] = ()
    """(option, variable or empty, default) of each. The default `!` marks a required option, and
    `?` one that is required unless the address is given."""
    has_responses: bool = False
    """Whether it has OpenAI's responses endpoint, in addition to chat completions."""
    dated: bool = False
    """Whether it has the dated versions of Anthropic's API, on which abilities depend."""
    local_api: LocalApi = ""
    """The API with which a self-hosted server states its context and slots."""
    deferred: bool = False
    """Whether calls can be deferred: it has a batch endpoint, with separate prices."""
    tells_models: bool = False
    """Whether its Models endpoint states retirement dates and the like."""
    models: tuple[str, ...] = ()
    """All of its models, if they are few; empty: any name is accepted."""
    require: Callable[[], object] | None = None
    """Raises UsageError if a required package is missing."""
    concurrency: int | None = None
    """Calls served at once; None if unknown in advance."""
    origin: Literal["new", "person"] = "new"
    """The origin of its replies, as run.db calls it."""


def _vendor(name: str, base_url: str, version: str = "v1") -> Entry:
    """A vendor with only the OpenAI wire."""
    return Entry(
        base_url=base_url,
        base_url_variable=f"{name.upper()}_BASE_URL",
        key_variable=f"{name.upper()}_API_KEY",
        api=f"{name} chat.completions {version}",
    )


def _server(name: str, port: int, local_api: LocalApi = "") -> Entry:
    """A self-hosted server, at its default port."""
    return Entry(
        base_url=f"http://127.0.0.1:{port}/v1",
        base_url_variable=f"{name.upper()}_BASE_URL",
        key_variable=f"{name.upper()}_API_KEY",
        key_needed=False,
        own=True,
        local_api=local_api,
    )


PROVIDERS: dict[str, Entry] = {
    "openai": Entry(
        base_url="https://api.openai.com/v1",
        base_url_variable="OPENAI_BASE_URL",
        key_variable="OPENAI_API_KEY",
        api="openai chat.completions v1",
        options=(("organization", "OPENAI_ORG_ID", ""), ("project", "OPENAI_PROJECT_ID", "")),
        has_responses=True,
        deferred=True,
        tells_models=True,
    ),
    "anthropic": Entry(
        base_url="https://api.anthropic.com",
        base_url_variable="ANTHROPIC_BASE_URL",
        key_variable="ANTHROPIC_API_KEY",
        api="anthropic messages {version}",
        options=(("version", "", "2023-06-01"),),
        dated=True,
        deferred=True,
        tells_models=True,
    ),
    "deepseek": _vendor("deepseek", "https://api.deepseek.com/v1"),
    "openrouter": _vendor("openrouter", "https://openrouter.ai/api/v1"),
    "gemini": _vendor(
        "gemini", "https://generativelanguage.googleapis.com/v1beta/openai", version="v1beta"
    ),
    "xai": _vendor("xai", "https://api.x.ai/v1"),
    "mistral": _vendor("mistral", "https://api.mistral.ai/v1"),
    "together": _vendor("together", "https://api.together.xyz/v1"),
    "groq": _vendor("groq", "https://api.groq.com/openai/v1"),
    "fireworks": _vendor("fireworks", "https://api.fireworks.ai/inference/v1"),
    "moonshot": _vendor("moonshot", "https://api.moonshot.ai/v1"),
    "ollama": replace(
        _server("ollama", 11434, "ollama"), base_url_variable="OLLAMA_HOST", key_variable=""
    ),
    "vllm": _server("vllm", 8000, "vllm"),
    "sglang": _server("sglang", 30000, "sglang"),
    "llamacpp": _server("llamacpp", 8080, "llamacpp"),
    "lmstudio": _server("lmstudio", 1234),
    # Most of them are llama.cpp, vLLM or SGLang servers; others just do not answer.
    "compatible": Entry(key_needed=False, own=True, local_api="any"),
    "azure": Entry(
        base_url_variable="AZURE_OPENAI_ENDPOINT",
        key_variable="AZURE_OPENAI_API_KEY",
        has_responses=True,
    ),
    "foundry": Entry(
        base_url="https://{resource}.services.ai.azure.com/anthropic",
        base_url_variable="ANTHROPIC_FOUNDRY_BASE_URL",
        key_variable="ANTHROPIC_FOUNDRY_API_KEY",
        options=(("resource", "ANTHROPIC_FOUNDRY_RESOURCE", "?"), ("version", "", "2023-06-01")),
        dated=True,
    ),
    "bedrock": Entry(
        base_url="https://bedrock-runtime.{region}.amazonaws.com",
        base_url_variable="ANTHROPIC_BEDROCK_BASE_URL",
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
        key_needed=False,
        api="bedrock messages {version}",
        options=(("region", "AWS_REGION", "!"), ("version", "", "bedrock-2023-05-31")),
    ),
    "vertex": Entry(
        base_url="https://{region}-aiplatform.googleapis.com/v1",
        base_url_variable="ANTHROPIC_VERTEX_BASE_URL",
        key_variable="CLOUDSDK_AUTH_ACCESS_TOKEN",
        key_needed=False,
        api="vertex messages {version}",
        options=(
            ("region", "CLOUD_ML_REGION", "!"),
            ("project", "ANTHROPIC_VERTEX_PROJECT_ID", "!"),
            ("version", "", "vertex-2023-10-16"),
        ),
    ),
}
"""To add a provider, add an entry. Its `connect` may return any Provider, over HTTP or not."""
