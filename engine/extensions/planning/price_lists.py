"""Price lists that others keep, made the user's own."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import orjson

from ...display.quantity import counted
from ...errors import UsageError
from ...models.accounting.prices import MILLION, TIERS, load_prices, updates
from ...system.files import replace_file

VENDORS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "openrouter": "openrouter",
    "gemini": "gemini",
    "xai": "xai",
    "mistral": "mistral",
    "together_ai": "together",
    "groq": "groq",
    "fireworks_ai": "fireworks",
    "moonshot": "moonshot",
    "azure": "azure",
    "bedrock": "bedrock",
    "bedrock_converse": "bedrock",
    "vertex_ai-anthropic_models": "vertex",
}
"""Our provider, by LiteLLM's name of it."""
RATES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}
"""LiteLLM's fields, in dollars a token, by ours, in dollars a million."""
PRICING = {
    "input": "prompt",
    "output": "completion",
    "cache_read": "input_cache_read",
    "cache_write": "input_cache_write",
}
"""OpenRouter's, likewise."""
LIMIT_BYTES, LIMIT_SECONDS = 1 << 25, 60.0

_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def take_over(place: str) -> str:
    """Keep the prices of a list in the user's data folder, with their source and day; a line that
    says so. UsageError for a list that cannot be read."""
    content, as_of = _fetched(place) if "://" in place else _opened(Path(place))
    try:
        found = dict(_models(orjson.loads(content)))
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as exc:
        raise UsageError(f"{place}: is no price list of LiteLLM's form: {exc}") from exc
    if not found:
        raise UsageError(f"{place}: has no price of a model that can be asked from here")
    file, kept = updates(), dict[str, Any]()
    if file.exists():
        kept = tomllib.loads(file.read_text("utf-8"))
    for provider in {model.partition("/")[0] for model in found}:
        kept[provider] = {"source": place, "as_of": as_of, "models": {}}
    for model, entry in found.items():
        provider, _, name = model.partition("/")
        kept[provider]["models"][name] = entry
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, ["".join(_written(kept)).encode()])
    load_prices(file)
    return f"{file}: prices of {counted(len(found), 'model')}, as of {as_of}, from {place}"


def _opened(path: Path) -> tuple[bytes, date]:
    try:
        return path.read_bytes(), date.fromtimestamp(path.stat().st_mtime)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read: {exc.strerror}") from exc


def _fetched(url: str) -> tuple[bytes, date]:
    """The list, and the day on which its server says that it was last changed, or else today."""
    import httpx2

    try:
        response = httpx2.get(url, timeout=LIMIT_SECONDS, follow_redirects=True)
        response.raise_for_status()
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        raise UsageError(f"{url}: {exc}") from exc
    if len(response.content) > LIMIT_BYTES:
        raise UsageError(f"{url}: sent {len(response.content):,} bytes, and no price list")
    changed = response.headers.get("last-modified")
    return response.content, parsedate_to_datetime(changed).date() if changed else date.today()


def _models(content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(our name, entry of a price file) of each model that has prices for text."""
    if isinstance(listed := content.get("data"), list):
        for each in listed:
            if entry := _entry(each["pricing"], PRICING):
                yield f"openrouter/{each['id']}", entry
        return
    for name, row in content.items():
        vendor = row.get("litellm_provider")
        if vendor in VENDORS and row.get("mode") in ("chat", "responses"):
            if not (entry := _entry(row, RATES)):
                continue
            steps = sorted(int(match[1]) for key in row if (match := _ABOVE.fullmatch(key)))
            if steps:
                long = {ours: f"{key}_above_{steps[0]}k_tokens" for ours, key in RATES.items()}
                beyond = _entry(row, long)
                entry |= {"above": steps[0] * 1000, "beyond": beyond} if beyond else {}
            for part, key in {"batch": "batches", **{tier: tier for tier in TIERS}}.items():
                if other := row.get(f"{RATES['input']}_{key}"):
                    entry[part] = round(other / row[RATES["input"]], 6)
            yield f"{VENDORS[vendor]}/{name.removeprefix(f'{vendor}/')}", entry


def _entry(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Dollars a million tokens; empty where input or output has no price. A price below 0 stands
    for one that varies."""
    costs = {ours: float(row[key]) for ours, key in names.items() if row.get(key) is not None}
    if not {"input", "output"} <= costs.keys() or min(costs.values()) < 0:
        return {}
    return {ours: float(f"{cost * MILLION:.9g}") for ours, cost in costs.items()}


def _written(vendors: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A price file."""
    for provider, vendor in sorted(vendors.items()):
        yield f"[{provider}]\nsource = {json.dumps(vendor['source'])}\nas_of = {vendor['as_of']}\n"
        yield f"\n[{provider}.models]\n"
        for name, entry in vendor["models"].items():
            yield f"{json.dumps(name)} = {_inline(entry)}\n"
        yield "\n"


def _inline(entry: Mapping[str, Any]) -> str:
    shown = (
        f"{key} = {_inline(value) if isinstance(value, dict) else repr(value)}"
        for key, value in entry.items()
    )
    return f"{{ {', '.join(shown)} }}"
