"""What tokens cost: dollars by model, from a dated list that every user can overrule."""

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

from oversight.cache.reply import Usage
from oversight.engine.errors import UsageError

MILLION = 1_000_000

_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
"""How vendors mark one version of a model whose family has one price."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of one model."""

    input: float
    output: float
    cache_read: float
    """Input that the provider took from its own prompt cache."""
    cache_write: float
    """Input that the provider wrote to its own prompt cache."""
    batch: float
    """What a call through the batch endpoint costs, as a part of all these; 1 if there is none."""
    as_of: date
    """The day on which the list was made."""
    source: str
    above: int = 0
    """Prompt tokens beyond which a call is priced by `beyond`; 0 if length makes no difference."""
    beyond: "Price | None" = None
    """What every token of such a long call costs."""

    def batched(self) -> "Price":
        """What the tokens of a call through the batch endpoint cost."""
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
        """What the tokens of a call with so long a prompt cost."""
        return self.beyond if self.beyond is not None and input_tokens > self.above else self

    def cost(self, usage: Usage, calls: float = 1) -> float:
        """Dollars for the tokens of one call, as billed; or of several, with prompts alike."""
        price = self.of(usage.input_tokens / calls)
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return (
            fresh * price.input
            + usage.cache_read_tokens * price.cache_read
            + usage.cache_write_tokens * price.cache_write
            + usage.output_tokens * price.output
        ) / MILLION

    def worst(self, input_tokens: float, output_tokens: float) -> float:
        """Dollars at most for so many tokens, whatever the provider's prompt cache does."""
        price = self.of(input_tokens)
        dearest = max(price.input, price.cache_write)
        return (input_tokens * dearest + output_tokens * price.output) / MILLION


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices by provider and model name."""

    models: Mapping[str, Price]
    """By `provider/name`; `provider/*` stands for every model of the provider."""

    def find(self, model: str) -> Price | None:
        """The price of `provider/name`: of just that name, of its family, or of its provider.

        A dated snapshot that is not listed has the price of its family. None if unknown.
        """
        provider, _, _ = model.partition("/")
        for name in (model, _SNAPSHOT.sub("", model), f"{provider}/*"):
            if name in self.models:
                return self.models[name]
        return None

    def named(self, meanings: Mapping[str, str]) -> "PriceList":
        """The same, and besides the price of what stands behind a name that has none.

        meanings: by name, the model that it is.
        """
        behind = {name: self.find(is_) for name, is_ in meanings.items() if not self.find(name)}
        found = {name: price for name, price in behind.items() if price is not None}
        return PriceList({**self.models, **found}) if found else self

    def need(self, model: str) -> Price:
        """The price, for those who cannot do without. UsageError, with the mend, if unknown."""
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
    """The prices that come with this program."""
    return PriceList(
        _read(files("oversight.engine").joinpath("data/prices.toml").read_text(), "prices.toml")
    )


def load_prices(path: Path) -> PriceList:
    """The prices of a user's file, and for models that it does not name, the listed ones.

    UsageError that names the file, the entry and the mend.
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
    """Where no price for cached input is given, it costs as much as any other."""
    return Price(
        input=entry.input,
        output=entry.output,
        cache_read=entry.input if entry.cache_read is None else entry.cache_read,
        cache_write=entry.input if entry.cache_write is None else entry.cache_write,
        batch=vendor.batch if entry.batch is None else entry.batch,
        as_of=vendor.as_of,
        source=vendor.source,
    )
