"""Model facts from a vendor's Models endpoint, compared with the tables that plans rely on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import quote

from .capabilities import Abilities
from .inquiry import inquire
from .retirements import Retirement
from .settings import Settings


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A Models endpoint's facts about one model; 0 or None where it states nothing."""

    retired: bool = False
    """Whether it is no longer served."""
    ends: date | None = None
    """The first day on which it is no longer served; None if none is announced."""
    context: int = 0
    max_output: int = 0

    def differences(self, able: Abilities, known: Retirement | None) -> Iterator[str]:
        """A phrase for each fact that our tables state differently. able: the table's entry."""
        if self.ends != (known.day if known else None) and not self.retired:
            here = known.day if known else "not announced"
            yield f"its end is {self.ends or 'not announced'} there, {here} here"
        for what, theirs, ours in (
            ("context", self.context, able.context),
            ("max_tokens", self.max_output, able.max_output),
        ):
            if theirs and ours and theirs != ours:
                yield f"{what} is {theirs:,} there, {ours:,} here"


async def model_facts(settings: Settings, name: str) -> ModelFacts:
    """The vendor's facts about a model, by its name there. Raises as `inquire` does."""
    path = f"models/{quote(name, safe='')}"
    if settings.provider != "anthropic":
        told = await inquire(settings, f"{settings.base_url}/{path}")
        return ModelFacts(ends=_day(told.get("shutdown_date")))
    told = await inquire(settings, f"{settings.base_url}/v1/{path}")
    return ModelFacts(
        told.get("lifecycle") == "retired",
        _day(told.get("retires_at")),
        _count(told.get("max_input_tokens")),
        _count(told.get("max_tokens")),
    )


def _day(told: Any) -> date | None:
    try:
        return date.fromisoformat(str(told)[:10])
    except ValueError:
        return None


def _count(told: Any) -> int:
    return told if isinstance(told, int) and told > 0 else 0
