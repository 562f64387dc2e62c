"""Prices of tokens in dollars by model, from a dated list that users can override."""

import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import orjson
import platformdirs
from msgspec import Meta, Struct, ValidationError, convert

from ....cache.reply import Usage
from ...errors import UsageError

_Kind = TypeVar("_Kind")

MILLION = 1_000_000
TIERS = ("flex", "priority")
"""Service tiers with a price of their own in price files."""
USUAL = frozenset({"", "auto", "default", "standard_only", "flex"})
"""Service tiers that cost at most the price of the list."""

_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
"""Suffix of a dated snapshot, which has the price of its model family."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of one model."""

    input: float
    output: float
    cache_read: float
    """Input that the provider read from its own prompt cache."""
    cache_write: float
    """Input that the provider wrote to its own prompt cache."""
    batch: float
    """Price factor of the batch endpoint; 1 if there is none."""
    as_of: date
    """Date of the list."""
    source: str
    tiers: Mapping[str, float] = field(default_factory=dict)
    """Price factors of service tiers, by name."""
    above: int = 0
    """Prompt tokens beyond which a call is priced by `beyond`; 0 if all lengths cost the same."""
    beyond: "Price | None" = None
    """Prices for all tokens of such a long call."""

    def batched(self) -> "Price":
        """The prices for calls through the batch endpoint."""
        return replace(self.times(self.batch), batch=1.0)

    def times(self, part: float) -> "Price":
        """The prices by a factor."""
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
        """Dollars for the billed tokens of one call, or of several with prompts of like length."""
        price = self if self.beyond is None else self.of(usage.input_tokens / calls)
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return (
            fresh * price.input
            + usage.cache_read_tokens * price.cache_read
            + usage.cache_write_tokens * price.cache_write
            + usage.output_tokens * price.output
        ) / MILLION

    def worst(self, input_tokens: float, output_tokens: float) -> float:
        """Maximum dollars for so many tokens, whatever the provider's prompt cache does."""
        price = self.of(input_tokens)
        dearest = max(price.input, price.cache_write)
        return (input_tokens * dearest + output_tokens * price.output) / MILLION


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices by provider and model name."""

    models: Mapping[str, Price | None]
    """By `provider/name`; `provider/*` stands for every model of the provider. None: not known."""

    def find(self, model: str) -> Price | None:
        """The price of `provider/name`: of that name, of its family, or of its provider.

        A dated snapshot that is not listed has the price of its family. None if unknown.
        """
        provider, _, _ = model.partition("/")
        for name in (model, _SNAPSHOT.sub("", model), f"{provider}/*"):
            if name in self.models:
                return self.models[name]
        return None

    def named(self, meanings: Mapping[str, str]) -> "PriceList":
        """The list, extended by names of the user's that have no price of their own.

        meanings: by name, the underlying model, whose price is used.
        """
        behind = {name: self.find(is_) for name, is_ in meanings.items() if not self.find(name)}
        return PriceList({**self.models, **behind}) if behind else self

    def tiered(self, asked: Mapping[str, Collection[str]]) -> "PriceList":
        """The list with the price of the dearest service tier that each model is asked in; none
        where the factor of a tier is not known."""
        prices: dict[str, Price | None] = {}
        for name, tiers in asked.items():
            if (price := self.find(name)) is not None and price.output:
                factors = [price.tiers.get(tier, 1.0 if tier in USUAL else 0) for tier in tiers]
                top = max(factors) if all(factors) else 0
                # A batch has its own price, and no part of it.
                prices[name] = replace(price.times(top), batch=price.batch / top) if top else None
        return PriceList({**self.models, **prices}) if prices else self

    def need(self, model: str) -> Price:
        """The price of a model. UsageError, with what to do, if unknown."""
        price = self.find(model)
        if price is None:
            provider, _, name = model.partition("/")
            raise UsageError(
                f"{model}: no price is known, so --max-cost cannot be kept. Give one in a price "
                f'file:\n  [{provider}.models."{name}"]\n  input = …   # dollars per million '
                f"tokens\n  output = …\nor, if it costs nothing:\n  [{provider}]\n  free = true\n"
                "or fetch a list that has it: oversight doctor --update-prices FILE|URL\n"
                "or cap the tokens in place of the dollars: --max-tokens 50M"
            )
        return price


TOKEN = Price(MILLION, MILLION, MILLION, MILLION, 1, date.min, "")
"""One unit for each token: the price of every model where a budget counts tokens."""


def charged(usage: Usage, price: Price | None) -> float | None:
    """Dollars for a call: as the vendor states them, else at a price; None if neither is known.

    Stated are OpenRouter's `usage.cost`, beside which the vendor behind it bills the owner of a key
    of his own, and what a gateway adds to the usage. Gateways also state 0 for models of which they
    know no price, so a price that is known comes before a 0.
    """
    if '"cost' in usage.raw:
        told = orjson.loads(usage.raw)
        costs = [told.get("cost", told.get("cost_usd_total"))]
        if told.get("is_byok") and isinstance(details := told.get("cost_details"), dict):
            costs.append(details.get("upstream_inference_cost"))
        known = all(type(cost) in (int, float) and 0 <= cost < math.inf for cost in costs)
        if known and (any(costs) or price is None):
            return float(sum(costs))
    return None if price is None else price.cost(usage)


def updates() -> Path:
    """The user's file of prices that `oversight doctor --update-prices` has fetched."""
    return platformdirs.user_data_path("oversight") / "prices.toml"


@cache
def listed() -> PriceList:
    """The price list that comes with this package, with later entries of the user's updates."""
    text = files("oversight.engine").joinpath("data/prices.toml").read_text()
    prices = _prices(tomllib.loads(text))
    if (file := updates()).exists():
        for model, price in _read(file.read_text("utf-8"), str(file)).items():
            if model not in prices or prices[model].as_of <= price.as_of:
                prices[model] = price
    return PriceList(prices)


def load_prices(path: Path) -> PriceList:
    """The prices of a user's file, completed by the listed ones for other models.

    Raises UsageError, which names the file and the entry.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read as a price file: {exc}") from exc
    return PriceList({**listed().models, **_read(text, str(path))})


def _read(text: str, name: str) -> dict[str, Price]:
    try:
        return _prices(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{name}: no valid TOML: {exc}") from exc
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
    """vendors: the content of a price file. ValueError names the entry that is wrong."""
    prices: dict[str, Price] = {}
    for provider, told in vendors.items():
        vendor = _checked(provider, told, _Vendor)
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
