"""Rate limits and concurrency of one (provider, model)."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """Rates and width, from the sweep file or the server. None: unknown."""

    requests: float | None = None
    """Requests per minute."""
    tokens: float | None = None
    """Tokens per minute, for vendors that count input and output together. They count all of
    max_tokens when the call arrives, so that amount is taken."""
    input_tokens: float | None = None
    """Input tokens per minute; tokens from the provider's prompt cache do not count."""
    output_tokens: float | None = None
    """Output tokens per minute."""
    concurrency: int | None = None
    """Maximum calls in flight."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{field.name}: {value} is not a positive number")

    def part(self, sharers: int) -> "Limits":
        """An equal part of these limits for one of several processes; at least one call at a
        time."""
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
        """These limits, completed by `defaults` where unknown."""
        missing = {
            field.name: getattr(defaults, field.name)
            for field in fields(self)
            if getattr(self, field.name) is None
        }
        return replace(self, **missing)
