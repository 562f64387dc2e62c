"""Prices of tokens in dollars by model, from a dated list that users can override."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ...cache.reply import Usage
from ..errors import UsageError

MILLION = 1_000_000

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
    above: int = 0
    """Prompt tokens beyond which a call is priced by `beyond`; 0 if all lengths cost the same."""
    beyond: "Price | None" = None
    """Prices for all tokens of such a long call."""

    def batched(self) -> "Price":
        """The prices for calls through the batch endpoint."""
        part = self.batch
        return replace(
            self,
            input=self.input * part,
            output=self.output * part,
            cache_read=self.cache_read * part,
            cache_write=self.cache_write * part,
            batch=1.0,
            beyond=None if self.beyond is None else self.beyond.batched(),
        )

    def of(self, input_tokens: float) -> "Price":
        """The prices for a call with a prompt of this length."""
        return self.beyond if self.beyond is not None and input_tokens > self.above else self

    def cost(self, usage: Usage, calls: float = 1) -> float:
        """Dollars for the billed tokens of one call, or of several with prompts of like length."""
        price = self.of(usage.input_tokens / calls)
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

    models: Mapping[str, Price]
    """By `provider/name`; `provider/*` stands for every model of the provider."""

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
        added = {name: price for name, price in behind.items() if price is not None}
        return PriceList({**self.models, **added}) if added else self

    def need(self, model: str) -> Price:
        """The price of a model. UsageError, with what to do, if unknown."""
        price = self.find(model)
        if price is None:
            provider, _, name = model.partition("/")
            raise UsageError(
                f"{model}: no price is known, so --max-cost cannot be kept. Give one in a price "
                f'file:\n  [{provider}.models."{name}"]\n  input = …   # dollars per million '
                f"tokens\n  output = …\nor, if it costs nothing:\n  [{provider}]\n  free = true"
            )
        return price


@cache
def listed() -> PriceList:
    """The price list that comes with this package."""
    return PriceList(
        _read(files("oversight.engine").joinpath("data/prices.toml").read_text(), "prices.toml")
    )


def load_prices(path: Path) -> PriceList:
    """The prices of a user's file, completed by the listed ones for other models.

    Raises UsageError, which names the file and the entry.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read as a price file: {exc}") from exc
    return PriceList({**listed().models, **_read(text, str(path))})


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Rates(_Closed):
    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    batch: Annotated[float, Field(ge=0, le=1)] | None = None


class _Model(_Rates):
    above: Annotated[int, Field(gt=0)] | None = None
    beyond: _Rates | None = None

    @model_validator(mode="after")
    def _both_or_neither(self) -> "_Model":
        if (self.above is None) != (self.beyond is None):
            raise ValueError("above and beyond belong together: give both or neither")
        return self


class _Vendor(_Closed):
    source: str = ""
    as_of: date = date.min
    batch: Annotated[float, Field(ge=0, le=1)] = 1.0
    free: bool = False
    models: dict[str, _Model] = {}


_FILE = TypeAdapter(dict[str, _Vendor])


def _read(text: str, name: str) -> dict[str, Price]:
    try:
        vendors = _FILE.validate_python(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{name}: no valid TOML: {exc}") from exc
    except ValidationError as exc:
        fault = exc.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise UsageError(f"{name}: {place}: {fault['msg']} (got {fault['input']!r})") from exc
    prices: dict[str, Price] = {}
    for provider, vendor in vendors.items():
        if vendor.free:
            prices[f"{provider}/*"] = Price(0, 0, 0, 0, 1, vendor.as_of, vendor.source)
        for model, entry in vendor.models.items():
            price = _price(vendor, entry)
            if entry.above is not None and entry.beyond is not None:
                price = replace(price, above=entry.above, beyond=_price(vendor, entry.beyond))
            prices[f"{provider}/{model}"] = price
    return prices


def _price(vendor: _Vendor, entry: _Rates) -> Price:
    """The price of an entry; cached input costs the same as other input unless stated."""
    return Price(
        input=entry.input,
        output=entry.output,
        cache_read=entry.input if entry.cache_read is None else entry.cache_read,
        cache_write=entry.input if entry.cache_write is None else entry.cache_write,
        batch=vendor.batch if entry.batch is None else entry.batch,
        as_of=vendor.as_of,
        source=vendor.source,
    )
