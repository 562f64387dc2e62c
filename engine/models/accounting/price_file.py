"""What may stand in a price file: checked here, with the place of what is wrong."""

from datetime import date
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Rates(_Closed):
    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    batch: Annotated[float, Field(ge=0, le=1)] | None = None
    flex: Annotated[float, Field(gt=0, le=1)] | None = None
    priority: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None


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


def checked(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a price file, with every value of its type; what is not set is left out.

    ValueError, which names the entry.
    """
    try:
        vendors = _FILE.validate_python(content)
    except ValidationError as exc:
        fault = exc.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise ValueError(f"{place}: {fault['msg']} (got {fault['input']!r})") from exc
    return {name: vendor.model_dump(exclude_none=True) for name, vendor in vendors.items()}
