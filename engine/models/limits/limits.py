"""Rate limits and concurrency of one (provider, model)."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """Rates and width, as the sweep file sets them or the server tells them. None: not known."""

    requests: float | None = None
    """Requests a minute."""
    tokens: float | None = None
    """Tokens a minute, for vendors that count input and output together. Such vendors count the
    whole of max_tokens when the call arrives, so that is what is taken."""
    input_tokens: float | None = None
    """Input tokens a minute; tokens from the provider's own prompt cache do not count."""
    output_tokens: float | None = None
    """Output tokens a minute."""
    concurrency: int | None = None
    """Calls in flight at once, at most."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{field.name}: {value} is not a positive number")

    def part(self, sharers: int) -> "Limits":
        """What each of several processes may use that share these limits; a call at a time is the
        least that one needs."""
        if sharers == 1:
            return self
        parts: dict[str, Any] = {
            field.name: value / sharers
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        if self.concurrency is not None:
            parts["concurrency"] = max(self.concurrency // sharers, 1)
        return replace(self, **parts)

    def filled(self, defaults: "Limits") -> "Limits":
        """These limits, completed by the server's where one is not known."""
        missing = {
            field.name: getattr(defaults, field.name)
            for field in fields(self)
            if getattr(self, field.name) is None
        }
        return replace(self, **missing)
