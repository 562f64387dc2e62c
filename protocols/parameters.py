"""Parameters of the requests of a role, beside its temperature: declared once for agents, judges,
sweep files, capabilities, wires and tables."""

from dataclasses import dataclass, field, fields
from typing import Any

from ..cache.address import ABSENT
from ..cache.memo import computed_once


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a model draws by, and how it is served. What is not set is not sent, and is no part of
    any address; what a model or its wire does not take is refused before the run."""

    top_p: float | None = field(default=None, metadata=ABSENT)
    top_k: int | None = field(default=None, metadata=ABSENT)
    min_p: float | None = field(default=None, metadata=ABSENT)
    seed: int | None = field(default=None, metadata=ABSENT)
    stop: tuple[str, ...] = field(default=(), metadata=ABSENT)
    service_tier: str = field(default="", metadata=ABSENT)
    extra_body: str = field(default="", metadata=ABSENT)

    @computed_once
    def parameters(self) -> dict[str, Any]:
        """Those that are set, as fields of a `Request`."""
        named = ((name, getattr(self, name)) for name in PARAMETERS)
        return {name: value for name, value in named if value not in (None, (), "")}


PARAMETERS = tuple(each.name for each in fields(Parameters))
"""Their names, which are fields of `Request` too."""
