"""A sweep: a grid of cells, and its rows, one per protocol with its roles.

Each row has a unique name in reports.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

from msgspec import Struct

from ...cache.call import Effort, field_names, plain, value_address
from ...protocols.agents.agent import Speaker
from ...protocols.judges.judge import Judge
from ...protocols.protocol import Protocol, kind
from ...protocols.question import Problem
from ...protocols.settings import Parameters
from .grid import Axes, Grid, GridRow, joined_digest

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
        settings=plain(_anonymous(protocol)),
        lineage=_lineage(protocol),
        judge_lineage=_lineage(protocol.judge),
        words=protocol.words.digest,
        reads=protocol.read.digest,
        common=protocol.words.judge_digest,
        reads_passage=protocol.judge.reads_passage,
        axes=axes(protocol),
        protocol=protocol,
    )


def report_rows(protocols: Iterable[Protocol]) -> tuple[Row, ...]:
    """One row per protocol; those with equal settings count once."""
    distinct = {value_address(_anonymous(protocol)): protocol for protocol in protocols}
    namesakes: dict[Names, list[Protocol]] = {}
    for protocol in distinct.values():
        namesakes.setdefault(_names(protocol), []).append(protocol)
    counts: Counter[Names] = Counter()
    rows = []
    for protocol in distinct.values():
        its_kind, agent, judge = _told_apart(protocol, namesakes[_names(protocol)])
        counts[its_kind, agent, judge] += 1
        if (number := counts[its_kind, agent, judge]) > 1:
            its_kind = f"{its_kind} #{number}"
        rows.append(row_of(protocol, (its_kind, agent, judge)))
    return tuple(rows)


def _anonymous(protocol: Protocol) -> Protocol:
    """The protocol with its prompt set unnamed: renaming a set does not change its rows."""
    if (words := protocol.prompts) is None:
        return protocol
    return replace(protocol, prompts=replace(words, name="", made_for=()))


def _lineage(part: object) -> tuple[str, ...]:
    return tuple(cls.__name__ for cls in type(part).__mro__ if is_dataclass(cls))


def _names(protocol: Protocol) -> Names:
    agent = getattr(protocol, "agent", None)
    return protocol.name, agent.name if isinstance(agent, Speaker) else "", protocol.judge.name


def _told_apart(protocol: Protocol, alike: list[Protocol]) -> Names:
    """Names of a protocol, extended by the settings that differ from its namesakes."""
    its_kind, agent, judge = _names(protocol)
    for name, text in _differing(protocol, alike):
        match name:
            case "agent":
                agent += f" {text}"
            case "judge":
                judge += f" {text}"
            case _:
                its_kind += f" {name.replace('_', ' ')} {text}"
    if protocol.prompts is not None:
        its_kind += f" prompts {protocol.prompts}"
    return its_kind, agent, judge


def _differing(role: object, others: Sequence[object]) -> Iterator[tuple[str, str]]:
    """Yield the settings of a role that differ from other roles, by name. Settings of a nested role
    with an equal name are under that name. None is left out."""
    if not is_dataclass(role) or isinstance(role, type):
        return
    for name in (other.name for other in fields(role) if other.name != "prompts"):
        value, theirs = getattr(role, name), [getattr(other, name, None) for other in others]
        text = _shown(value)
        if text and any(_shown(other) != text for other in theirs):
            yield name, text
        else:
            within = _differing(value, theirs)
            yield from (
                (name, f"{inner_name.replace('_', ' ')} {inner_text}")
                for inner_name, inner_text in within
            )


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


class Cell(Struct, frozen=True):
    """The unit of work, of resuming and of failure: one world of one problem under one protocol."""

    place: int
    """Index in the sweep, from 0."""
    row: Row
    problem: Problem
    side: int
    """Index of the answer that the overseen agent argues for."""
    draw: int
    """Which repetition of the whole sweep this is, from 0."""
    id: str
    """16 hex digits, from the contents of all of the above but `place`."""


@dataclass(frozen=True)
class Sweep(Grid):
    """A grid whose rows can be run."""

    rows: tuple[Row, ...]

    def cells(self, ended: Sequence[int] = ()) -> Iterator[Cell]:
        """Every cell once, lazily, always in the same order.

        The outermost loop is over problems, so that a sweep stopped early has covered every row and
        that neighbouring cells ask different models. The worlds of a problem come next to each
        other, so that their common calls are shared while in flight.

        ended: by place, not 0 for cells that are left out, which may become so meanwhile.
        """
        return chain.from_iterable(self.cells_of(n, ended) for n in range(len(self.problems)))

    def cells_of(self, number: int, ended: Sequence[int] = ()) -> Iterator[Cell]:
        """The cells of one problem, by its number from 0. ended: as in `cells`."""
        problem = self.problems[number]
        place = self.span(number).start
        about = joined_digest(self._addresses[number])
        for draw in range(self.draws):
            for row in self.rows:
                for side in range(len(problem.values)):
                    if not (ended and ended[place]):
                        id = joined_digest(about, row.address, str(side), str(draw))[:16]
                        yield Cell(place, row, problem, side, draw, id)
                    place += 1

    @cached_property
    def _addresses(self) -> tuple[str, ...]:
        """Address of each problem."""
        return tuple(map(value_address, self.problems))

    @cached_property
    def identity(self) -> str:
        """Digest, 64 hex digits: equal for sweeps whose finished run folders would be equal.

        Limits, prices and file names do not count: a run resumes after they change. The code of
        its rows is compared by itself, row by row.
        """
        return joined_digest(
            self.name,
            str(self.seed),
            str(self.draws),
            *self._addresses,
            *(row.address for row in self.rows),
            *(f"{model}={identity}" for model, identity in sorted(self.identities.items())),
        )


def dataclasses_in(value: object) -> Iterator[object]:
    """Every dataclass and struct in a tree of roles and settings, each before those within it."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from dataclasses_in(part)
    elif (names := field_names(value.__class__)) is not None:
        yield value
        for name in names:
            yield from dataclasses_in(getattr(value, name))


def service_tiers(value: object) -> dict[str, set[str]]:
    """Model -> the service tiers in which roles ask it."""
    tiers: dict[str, set[str]] = {}
    for part in dataclasses_in(value):
        if isinstance(part, Parameters) and isinstance(model := getattr(part, "model", None), str):
            tiers.setdefault(model, set()).add(part.service_tier)
    return tiers


def tool_users(value: object) -> Iterator[tuple[str, Effort]]:
    """(model, effort) of every role with tools in a tree of roles and settings."""
    for part in dataclasses_in(value):
        model = getattr(part, "model", None)
        if isinstance(model, str) and getattr(part, "tools", None):
            yield model, getattr(part, "effort", "")
