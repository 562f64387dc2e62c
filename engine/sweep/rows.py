"""The rows of a report: one per protocol with its roles, each with a unique name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

from ...cache.call import plain, value_address
from ...protocols.agents.agent import Speaker
from ...protocols.judges.judge import Judge
from ...protocols.protocol import Protocol, kind
from .grid import Axes, GridRow

Names: TypeAlias = tuple[str, str, str]
"""Names of a protocol, its agent (empty if it has none) and its judge."""


@dataclass(frozen=True, kw_only=True)
class Row(GridRow):
    """A row that can be run: its names and settings, with the protocol itself."""

    protocol: Protocol


def row_of(protocol: Protocol, names: Names) -> Row:
    """The row of a protocol under these names."""
    its_kind, agent, judge = names
    return Row(
        kind=its_kind,
        agent=agent,
        judge=judge,
        mechanism=kind(type(protocol)),
        settings=plain(protocol),
        lineage=_lineage(protocol),
        judge_lineage=_lineage(protocol.judge),
        words=protocol.words.digest,
        reads=protocol.read.digest,
        common=protocol.words.only(()).digest,
        reads_passage=protocol.judge.reads_passage,
        axes=axes(protocol),
        protocol=protocol,
    )


def report_rows(protocols: Iterable[Protocol]) -> tuple[Row, ...]:
    """One row per protocol; those with equal settings count once."""
    distinct = {value_address(protocol): protocol for protocol in protocols}
    namesakes: dict[Names, list[Protocol]] = {}
    for protocol in distinct.values():
        namesakes.setdefault(_names(protocol), []).append(protocol)
    taken: Counter[Names] = Counter()
    rows = []
    for protocol in distinct.values():
        its_kind, agent, judge = _told_apart(protocol, namesakes[_names(protocol)])
        taken[its_kind, agent, judge] += 1
        if (number := taken[its_kind, agent, judge]) > 1:
            its_kind = f"{its_kind} #{number}"
        rows.append(row_of(protocol, (its_kind, agent, judge)))
    return tuple(rows)


def _lineage(part: object) -> tuple[str, ...]:
    return tuple(each.__name__ for each in type(part).__mro__ if is_dataclass(each))


def _names(protocol: Protocol) -> Names:
    agent = getattr(protocol, "agent", None)
    return protocol.name, agent.name if isinstance(agent, Speaker) else "", protocol.judge.name


def _told_apart(protocol: Protocol, alike: list[Protocol]) -> Names:
    """Names of a protocol, extended by the settings that differ from those of its namesakes."""
    its_kind, agent, judge = _names(protocol)
    for name, told in _differing(protocol, alike):
        match name:
            case "agent":
                agent += f" {told}"
            case "judge":
                judge += f" {told}"
            case _:
                its_kind += f" {name.replace('_', ' ')} {told}"
    return its_kind, agent, judge


def _differing(role: object, others: Sequence[object]) -> Iterator[tuple[str, str]]:
    """The settings of a role that differ from those of others, by name; those of a role within it
    that is called alike stand under its name. One that is None is not told."""
    if not is_dataclass(role) or isinstance(role, type):
        return
    for name in (each.name for each in fields(role)):
        value, theirs = getattr(role, name), [getattr(each, name, None) for each in others]
        shown = _shown(value)
        if shown and any(_shown(each) != shown for each in theirs):
            yield name, shown
        else:
            within = _differing(value, theirs)
            yield from ((name, f"{its.replace('_', ' ')} {told}") for its, told in within)


def _shown(value: Any) -> str:
    """A setting as text; empty for None."""
    if value is None:
        return ""
    return value.name if isinstance(value, (Speaker, Judge)) else str(value)


def axes(protocol: Protocol) -> Axes:
    """The axes of a protocol with its roles."""
    agent = getattr(protocol, "agent", None)
    speaker = agent if isinstance(agent, Speaker) else None
    return Axes(
        speaker.base_agent.model if speaker else None,
        protocol.judge.base_agent.model,
        getattr(protocol, "rounds", getattr(protocol, "turns", None)),
        getattr(protocol, "simultaneous", None),
        _best_of(speaker) if speaker else None,
        speaker.base_agent.temperature if speaker else None,
    )


def _best_of(speaker: Speaker) -> int:
    """The drafts of the outermost best-of-N in an agent, however deep it is wrapped."""
    if speaker is speaker.base_agent:
        return 1
    from ...protocols.drafting import BestOf

    if isinstance(speaker, BestOf):
        return speaker.n
    for name in getattr(speaker, "__dataclass_fields__", ()):
        inner = getattr(speaker, name)
        if isinstance(inner, Speaker):
            return _best_of(inner)
    return 1
