"""The rows of a report: one per protocol with its roles, each with a unique name."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

from ...cache.address import value_address
from ...protocols.agents.agent import Speaker
from ...protocols.judges.judge import Judge
from ...protocols.protocol import Protocol

Names: TypeAlias = tuple[str, str, str]
"""Names of a protocol, its agent (empty if it has none) and its judge."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the report: a protocol with its roles, and their names."""

    protocol: Protocol
    kind: str
    """The protocol and its settings: `debate simultaneous 2`."""
    agent: str
    """Empty for a protocol without an agent."""
    judge: str
    address: str


def report_rows(protocols: Iterable[Protocol]) -> tuple[Row, ...]:
    """One row per protocol; those with equal settings count once."""
    distinct = {value_address(protocol): protocol for protocol in protocols}
    namesakes: dict[Names, list[Protocol]] = {}
    for protocol in distinct.values():
        namesakes.setdefault(_names(protocol), []).append(protocol)
    taken: Counter[Names] = Counter()
    rows = []
    for address, protocol in distinct.items():
        kind, agent, judge = _told_apart(protocol, namesakes[_names(protocol)])
        taken[kind, agent, judge] += 1
        if (number := taken[kind, agent, judge]) > 1:
            kind = f"{kind} #{number}"
        rows.append(Row(protocol, kind, agent, judge, address))
    return tuple(rows)


def _names(protocol: Protocol) -> Names:
    agent = getattr(protocol, "agent", None)
    return protocol.name, agent.name if isinstance(agent, Speaker) else "", protocol.judge.name


def _told_apart(protocol: Protocol, alike: list[Protocol]) -> Names:
    """Names of a protocol, extended by the settings that differ from those of its namesakes."""
    names = list(_names(protocol))
    theirs = [_parts(other) for other in alike]
    for at, part in enumerate(_parts(protocol)):
        for setting, value in part.items():
            if value and any(parts[at].get(setting) != value for parts in theirs):
                names[at] = f"{names[at]} {setting.replace('_', ' ')} {value}"
    kind, agent, judge = names
    return kind, agent, judge


def _parts(protocol: Protocol) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The settings of a protocol, of its agent and of its judge, as words."""
    own = {k: v for k, v in _settings(protocol).items() if k not in ("agent", "judge")}
    return own, _settings(getattr(protocol, "agent", None)), _settings(protocol.judge)


def _settings(role: object) -> dict[str, str]:
    if not is_dataclass(role) or isinstance(role, type):
        return {}
    return {field.name: _shown(getattr(role, field.name)) for field in fields(role)}


def _shown(value: Any) -> str:
    """A setting as text; empty for None, so that only the namesakes that set it show it."""
    if value is None:
        return ""
    return value.name if isinstance(value, (Speaker, Judge)) else str(value)
