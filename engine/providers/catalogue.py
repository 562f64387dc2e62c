"""Providers by name: the known vendors and servers, and those that are registered."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocols.settings import suggestion
from ..errors import UsageError
from ..system.process import PROVIDERS_GROUP, load_registered, registered

if TYPE_CHECKING:
    from .vendors import Entry


def provider_names() -> list[str]:
    from .vendors import PROVIDERS

    return [*PROVIDERS, *registered(PROVIDERS_GROUP)]


PUBLIC_PROVIDERS = {
    **{name: name for name in ("openai", "anthropic", "azure", "deepseek", "fireworks", "groq")},
    **{name: name for name in ("mistral", "openrouter", "together")},
    "gemini": "google",
    "vertex": "google",
    "xai": "x-ai",
    "moonshot": "moonshotai",
    "bedrock": "aws",
}
"""Our name -> its name in genai-prices, for each provider there."""


def context_window(model: str) -> int:
    """The context of `provider/name` in tokens, by genai-prices; 0 if it is not known."""
    kind, _, name = model.partition("/")
    if (vendor := PUBLIC_PROVIDERS.get(kind)) is None:
        return 0
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, facts = get_snapshot().find_provider_model(name, None, vendor, None)
    except LookupError:
        return 0
    return facts.context_window or 0


def provider_of(model: str) -> str:
    """The provider in `provider/name`. UsageError if it is unknown. `compatible` is followed by the
    user's name for a server: `compatible/lab/llama-3` has the provider `compatible/lab`."""
    kind, _, model_name = model.partition("/")
    if kind not in (kinds := provider_names()):
        hint = (suggestion(kind, kinds) if model_name else f"; write PROVIDER/{model}.") or "."
        raise UsageError(f"{model!r}: unknown provider{hint} Choose from {', '.join(kinds)}")
    if kind == "compatible":
        server, _, model_name = model_name.partition("/")
        kind = f"compatible/{server}"
    if not model_name:
        raise UsageError(f"{model!r}: the model's name is missing; write {kind}/NAME")
    models = () if kind.startswith("compatible/") else entry(kind).models
    if models and model_name not in models:
        names = ", ".join(f"{kind}/{name}" for name in models)
        near = suggestion(model_name, models) or "."
        raise UsageError(f"{model!r}: unknown model{near} Choose from {names}")
    return kind


def entry(provider: str) -> "Entry":
    """The entry of a provider; for `compatible/NAME`, with its environment variables."""
    # Imported late, here and above: a run on simulated models needs no providers.
    from .vendors import PROVIDERS, Entry

    kind, _, name = provider.partition("/")
    row = PROVIDERS.get(kind) or load_registered(PROVIDERS_GROUP, kind)
    if not isinstance(row, Entry):
        raise UsageError(f"{kind}: {row!r}, which a package registers, is not an {Entry.__name__}")
    if not name:
        return row
    stem = "COMPATIBLE_" + re.sub(r"\W", "_", name).upper()
    return replace(row, base_url_variable=f"{stem}_BASE_URL", key_variable=f"{stem}_API_KEY")


_DATED = re.compile(r"[-@]?(20\d{2}-?\d{2}-?\d{2}|\d{4}|v\d+(:\d+)?)$")
"""Suffix of a dated snapshot's name."""


def same_model(requested: str, served: str) -> bool:
    """Whether a served model may be the requested one: a dated snapshot of it, or its file."""
    one, other = _bare(requested), _bare(served)
    if served.endswith(".gguf") or "/" in served:
        return one in other or other in one
    return one == other


def _bare(name: str) -> str:
    name = name.lower().rpartition("/")[2].removesuffix("-latest").removesuffix(":latest")
    return re.sub(r"[^a-z0-9]", "", _DATED.sub("", name))
