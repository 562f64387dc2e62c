"""Prices of tokens in dollars by model.

They come, in this order, from a price file of the user, from data/prices.toml, and from the package
genai-prices, which is imported only for other models."""

import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import orjson
from msgspec import Meta, Struct, ValidationError, convert

from ....cache.reply import Usage
from ...errors import UsageError
from ...providers.catalogue import PUBLIC_PROVIDERS

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

_Kind = TypeVar("_Kind")

MILLION = 1_000_000
TIERS = ("flex", "priority")
"""Service tiers that price files may price."""
USUAL = frozenset({"", "auto", "default", "standard_only", "flex"})
"""Service tiers that cost at most the listed price."""

HALF_WHEN_DEFERRED = ("openai", "anthropic")
"""Vendors whose deferred calls cost half. genai-prices states this for new models only."""

_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
"""Suffix of a dated snapshot, which has the price of its model family."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of one model."""

    input: float
    output: float
    cache_read: float
    """Input that was read from the provider's prompt cache."""
    cache_write: float
    """Input that was written to the provider's prompt cache."""
    batch: float
    """Price factor of deferred calls; 1 if the model has none."""
    as_of: date
    """Date of the list; `date.min` if unknown."""
    source: str
    """URL of the price list, or the package with its version; empty if unknown."""
    tiers: Mapping[str, float] = field(default_factory=dict)
    above: int = 0
    """Prompt tokens beyond which a call is priced by `beyond`; 0 if all lengths cost the same."""
    beyond: "Price | None" = None
    """Prices for all tokens of a longer call."""

    @property
    def stated_by(self) -> str:
        """The date of the list, or the package and its version; empty for a free model."""
        return self.source if self.as_of == date.min else str(self.as_of)

    def deferred(self) -> "Price":
        """Return the prices of deferred calls."""
        return replace(self.times(self.batch), batch=1.0)

    def times(self, part: float) -> "Price":
        return replace(
            self,
            input=self.input * part,
            output=self.output * part,
            cache_read=self.cache_read * part,
            cache_write=self.cache_write * part,
            beyond=None if self.beyond is None else self.beyond.times(part),
        )

    def of(self, input_tokens: float) -> "Price":
        """The prices for a call with a prompt of this length."""
        return self.beyond if self.beyond is not None and input_tokens > self.above else self

    def cost(self, usage: Usage, calls: float = 1) -> float:
        """Dollars for the billed tokens of one call, or of several with similar prompts."""
        price = self if self.beyond is None else self.of(usage.input_tokens / calls)
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return (
            fresh * price.input
            + usage.cache_read_tokens * price.cache_read
            + usage.cache_write_tokens * price.cache_write
            + usage.output_tokens * price.output
        ) / MILLION

    def worst(self, input_tokens: float, output_tokens: float) -> float:
        """Maximum dollars for these tokens, regardless of the provider's prompt cache."""
        price = self.of(input_tokens)
        dearest = max(price.input, price.cache_write)
        return (input_tokens * dearest + output_tokens * price.output) / MILLION


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices by provider and model name."""

    models: Mapping[str, Price | None]
    """By `provider/name`; `provider/*` stands for every model of the provider. None: not known."""

    def find(self, model: str) -> Price | None:
        """The price of `provider/name`: of that name, of its family, or of its provider. A dated
        snapshot that is not listed has the price of its family. Other unlisted models have the
        price of genai-prices. None if unknown."""
        provider, _, _ = model.partition("/")
        for name in (model, _SNAPSHOT.sub("", model), f"{provider}/*"):
            if name in self.models:
                return self.models[name]
        return public_price(model)

    def named(self, meanings: Mapping[str, str]) -> "PriceList":
        """The list, extended by unpriced names of the user's. meanings: by name, the underlying
        model."""
        behind = {name: self.find(is_) for name, is_ in meanings.items() if not self.find(name)}
        return PriceList({**self.models, **behind}) if behind else self

    def tiered(self, used: Mapping[str, Collection[str]]) -> "PriceList":
        """The list with the price of the most expensive service tier in use; none if unknown."""
        prices: dict[str, Price | None] = {}
        for name, tiers in used.items():
            if (price := self.find(name)) is not None and price.output:
                factors = [price.tiers.get(tier, 1.0 if tier in USUAL else 0) for tier in tiers]
                top = max(factors) if all(factors) else 0
                # The price of deferred calls does not depend on the tier.
                prices[name] = replace(price.times(top), batch=price.batch / top) if top else None
        return PriceList({**self.models, **prices}) if prices else self

    def billed(self, models: Iterable[str]) -> dict[str, Price]:
        """The prices of these models, without unknown and free ones."""
        prices = {model: self.find(model) for model in models}
        return {model: price for model, price in prices.items() if price and price.output}

    def need(self, model: str) -> Price:
        """The price of a model. UsageError, with the fix, if unknown."""
        price = self.find(model)
        if price is None:
            provider, _, name = model.partition("/")
            raise UsageError(
                f"{model}: no price is known, so --max-cost cannot be enforced. Give one in a "
                f'price file (--prices FILE):\n  [{provider}.models."{name}"]\n'
                "  input = …   # dollars per million tokens\n  output = …\n"
                f"or, if it costs nothing:\n  [{provider}]\n  free = true\n"
                "or update the public prices: pip install --upgrade genai-prices\n"
                "or limit tokens: --max-tokens 50M"
            )
        return price


TOKEN = Price(MILLION, MILLION, MILLION, MILLION, 1, date.min, "")
"""The price of every model when a budget counts tokens: one unit per token."""


def charged(usage: Usage, price: Price | None) -> float | None:
    """Dollars of a call: as the vendor states them, else by price; None if neither is known.
    OpenRouter states `usage.cost`, plus the upstream vendor's bill to users with their own key;
    gateways add a cost to the usage. Gateways also state 0 for models without a price, so a known
    price overrides 0."""
    if '"cost' in usage.raw:
        usage_fields = orjson.loads(usage.raw)
        costs = [usage_fields.get("cost", usage_fields.get("cost_usd_total"))]
        if usage_fields.get("is_byok") and isinstance(
            details := usage_fields.get("cost_details"), dict
        ):
            costs.append(details.get("upstream_inference_cost"))
        valid = all(type(cost) in (int, float) and 0 <= cost < math.inf for cost in costs)
        if valid and (any(costs) or price is None):
            return float(sum(costs))
    return None if price is None else price.cost(usage)


@cache
def public_price(model: str) -> Price | None:
    """The price of `provider/name` in genai-prices; None if unknown. The most expensive hour of the
    day counts, since a budget must always hold. If prices depend on the length of the prompt, all
    lengths above the first limit have the highest price."""
    provider, _, name = model.partition("/")
    if (vendor := PUBLIC_PROVIDERS.get(provider)) is None:
        return None
    # Takes .25 s of CPU, which runs on simulated models or self-hosted servers do not need.
    import genai_prices

    day = datetime.now(UTC)
    usage = genai_prices.Usage(input_tokens=1, output_tokens=1)

    def hourly(context: dict[str, str]) -> "list[ModelPrice]":
        hours = (day + timedelta(hours=hour) for hour in range(24))
        return [
            genai_prices.calc_price(
                usage, name, provider_id=vendor, genai_request_timestamp=hour, price_context=context
            ).model_price
            for hour in hours
        ]

    try:
        usual = hourly({})
    except LookupError:
        return None
    # A price per request, in addition to tokens, cannot be kept under a cap.
    if any(rates.requests_kcount is not None for rates in usual):
        return None
    price = _public(usual, f"genai-prices {genai_prices.__version__}")
    if price is None:
        return None
    factors = {}
    for part, context in {
        "batch": {"processing": "batch"},
        **{tier: {"service_tier": tier} for tier in TIERS},
    }.items():
        other = _public(hourly(context), "")
        if other is not None and (other.input, other.output) != (price.input, price.output):
            factors[part] = max(other.input / price.input, other.output / price.output)
    return replace(
        price,
        batch=factors.pop("batch", 0.5 if provider in HALF_WHEN_DEFERRED else 1.0),
        tiers=factors,
    )


def public_names(provider: str) -> list[str]:
    """The models of one of our providers in genai-prices, as `provider/name`."""
    from genai_prices.data import providers

    public = PUBLIC_PROVIDERS.get(provider)
    models = (model for vendor in providers if vendor.id == public for model in vendor.models)
    return [f"{provider}/{model.id}" for model in models]


def _public(hours: "Sequence[ModelPrice]", source: str) -> Price | None:
    """The highest of these prices, per length of prompt; None without input or output."""

    def dearest(names: Sequence[str], beyond: bool) -> float:
        rates = []
        for hour in hours:
            hour_rates = [rate for name in names if (rate := getattr(hour, name)) is not None]
            tiers = getattr(hour_rates[0], "tiers", ()) if hour_rates else ()
            base = getattr(hour_rates[0], "base", hour_rates[0]) if hour_rates else 0
            rates += [base, *(tier.price for tier in tiers if beyond)]
            limits.update(tier.start for tier in tiers)
        return float(max(rates))

    def price(beyond: bool) -> Price:
        return Price(
            input=dearest(("input_mtok",), beyond),
            output=dearest(("output_mtok",), beyond),
            cache_read=dearest(("cache_read_mtok", "input_mtok"), beyond),
            cache_write=dearest(("cache_write_mtok", "input_mtok"), beyond),
            batch=1.0,
            as_of=date.min,
            source=source,
        )

    limits = set[int]()
    usual = price(beyond=False)
    if not usual.input or not usual.output:
        return None
    return replace(usual, above=min(limits), beyond=price(beyond=True)) if limits else usual


@cache
def listed() -> PriceList:
    """The prices of this package; `find` adds other public models."""
    text = files("oversight.engine").joinpath("data/prices.toml").read_text()
    return PriceList(_prices(tomllib.loads(text)))


def load_prices(path: Path) -> PriceList:
    """The prices of a user's file, completed by the listed ones. UsageError, with file and
    entry."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read as a price file: {exc}") from exc
    return PriceList({**listed().models, **_read(text, str(path))})


def _read(text: str, name: str) -> dict[str, Price]:
    try:
        return _prices(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{name}: invalid TOML: {exc}") from exc
    except ValueError as exc:
        raise UsageError(f"{name}: {exc}") from exc


Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
Factor: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


class _Rates(Struct, forbid_unknown_fields=True):
    """An entry of a price file; cached input costs the same as other input unless stated."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    batch: Factor | None = None
    flex: Annotated[float, Meta(gt=0, le=1)] | None = None
    priority: Annotated[float, Meta(ge=1, le=1e9)] | None = None

    def price(self, vendor: "_Vendor") -> Price:
        return Price(
            input=self.input,
            output=self.output,
            cache_read=self.input if self.cache_read is None else self.cache_read,
            cache_write=self.input if self.cache_write is None else self.cache_write,
            batch=vendor.batch if self.batch is None else self.batch,
            as_of=vendor.as_of,
            source=vendor.source,
            tiers={tier: part for tier in TIERS if (part := getattr(self, tier)) is not None},
        )


class _Model(_Rates):
    above: Annotated[int, Meta(gt=0)] | None = None
    beyond: _Rates | None = None

    def __post_init__(self) -> None:
        if (self.above is None) != (self.beyond is None):
            raise ValueError("above and beyond belong together: give both or neither")

    def price(self, vendor: "_Vendor") -> Price:
        price = super().price(vendor)
        if self.above is None or self.beyond is None:
            return price
        return replace(price, above=self.above, beyond=self.beyond.price(vendor))


class _Vendor(Struct, forbid_unknown_fields=True):
    source: str = ""
    as_of: date = date.min
    batch: Factor = 1.0
    free: bool = False
    models: dict[str, Any] = {}


def _prices(vendors: Mapping[str, Any]) -> dict[str, Price]:
    """Prices by `provider/name`. vendors: content of a price file. ValueError names the wrong
    entry."""
    prices: dict[str, Price] = {}
    for provider, section in vendors.items():
        vendor = _checked(provider, section, _Vendor)
        if vendor.free:
            prices[f"{provider}/*"] = Price(0, 0, 0, 0, 1, vendor.as_of, vendor.source)
        for model, entry in vendor.models.items():
            rates = _checked(f"{provider}.models.{model}", entry, _Model)
            prices[f"{provider}/{model}"] = rates.price(vendor)
    return prices


def _checked(name: str, content: Any, kind: type[_Kind]) -> _Kind:
    try:
        return convert(content, kind)
    except ValidationError as exc:
        wrong, _, place = str(exc).partition(" - at `$")
        value = content
        for key in place.strip(".`").split(".") if place else ():
            value = value[key]
        raise ValueError(f"{name}{place.rstrip('`')}: {wrong} (got {value!r})") from exc
