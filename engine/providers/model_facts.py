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

_EFFORTS = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A Models endpoint's facts about one model; None where it states nothing."""

    retired: bool = False
    """Whether it is no longer served."""
    ends: date | None = None
    """The first day on which it is no longer served; None if none is announced."""
    context: int | None = None
    max_output: int | None = None
    efforts: tuple[str, ...] | None = None
    """The effort levels that it accepts, apart from `none`."""
    thinking: tuple[str, ...] | None = None
    """The types of thinking that it accepts."""
    structured: bool | None = None

    def differences(self, able: Abilities, known: Retirement | None) -> Iterator[str]:
        """A phrase for each fact that our tables state differently. able: the table's entry."""
        if self.ends != (known.day if known else None) and not self.retired:
            here = known.day if known else "not announced"
            yield f"its end is {self.ends or 'not announced'} there, {here} here"
        yield from _numbers("context", self.context, able.context)
        yield from _numbers("max_tokens", self.max_output, able.max_output)
        if self.efforts is not None:
            ours = tuple(effort for effort in _EFFORTS if effort in able.efforts)
            if ours != self.efforts:
                theirs = ", ".join(self.efforts) or "none"
                yield f"efforts are {theirs} there, {', '.join(ours) or 'none'} here"
        if self.thinking and able.thinking:
            off = able.thinking_off if "none" in able.efforts else ""
            for kind in filter(None, ("adaptive" if able.thinking == "adaptive" else "", off)):
                if kind not in self.thinking:
                    yield f"thinking {kind!r} is not taken there, and is here"
            if not off and "disabled" in self.thinking:
                yield "thinking can be disabled there, and cannot here"
        if self.structured is not None and self.structured != able.structured:
            yield f"a JSON schema is {'taken' if self.structured else 'not taken'} there"


async def model_facts(settings: Settings, name: str) -> ModelFacts:
    """The vendor's facts about a model, by its name there. Raises as `inquire` does."""
    path = f"models/{quote(name, safe='')}"
    if settings.provider == "anthropic":
        return _anthropic(await inquire(settings, f"{settings.base_url}/v1/{path}"))
    told = await inquire(settings, f"{settings.base_url}/{path}")
    return ModelFacts(ends=_day(told.get("shutdown_date")))


def _anthropic(told: dict[str, Any]) -> ModelFacts:
    able = told.get("capabilities")
    able = able if isinstance(able, dict) else {}
    efforts = _supported(able.get("effort"))
    types = able.get("thinking")
    thinking = _supported(types.get("types")) if isinstance(types, dict) else None
    structured = able.get("structured_outputs")
    return ModelFacts(
        told.get("lifecycle") == "retired",
        _day(told.get("retires_at")),
        _count(told.get("max_input_tokens")),
        _count(told.get("max_tokens")),
        None if efforts is None else tuple(effort for effort in _EFFORTS if effort in efforts),
        thinking,
        bool(structured.get("supported")) if isinstance(structured, dict) else None,
    )


def _supported(kinds: Any) -> tuple[str, ...] | None:
    if not isinstance(kinds, dict):
        return None
    return tuple(
        name for name, of in kinds.items() if isinstance(of, dict) and of.get("supported") is True
    )


def _day(told: Any) -> date | None:
    try:
        return date.fromisoformat(str(told)[:10])
    except ValueError:
        return None


def _count(told: Any) -> int | None:
    return told if isinstance(told, int) and told > 0 else None


def _numbers(what: str, theirs: int | None, ours: int) -> Iterator[str]:
    if theirs and ours and theirs != ours:
        yield f"{what} is {theirs:,} there, {ours:,} here"
