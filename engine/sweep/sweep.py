"""A sweep: a grid of cells, and its rows, one per protocol with its roles.

Each row has a unique name in reports."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from .grid import Axes, Grid, GridRow, joined_digest, models_in, shared_parts

Names: TypeAlias = tuple[str, str, str]
"""Names of a protocol, its agent (empty if it has none) and its judge."""

Settings: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Row(GridRow):
    """A row that can be run: its names and settings, with the protocol itself."""

    protocol: Protocol


def row_of(protocol: Protocol, names: Names, parts: Sequence[str] = ()) -> Row:
    """The row of a protocol under these names. parts: of the name of the protocol."""
    its_kind, agent, judge = names
    return Row(
        kind=its_kind,
        agent=agent,
        judge=judge,
        mechanism=kind(type(protocol)),
        settings=plain(_anonymous(protocol)),
        lineage=_lineage(protocol),
        judge_lineage=_lineage(protocol.judge),
        words=protocol.prompts.name if protocol.prompts and protocol.words.changed_blocks else "",
        reads=protocol.read.digest,
        common=protocol.words.judge_digest,
        reads_passage=protocol.judge.reads_passage,
        axes=axes(protocol),
        parts=tuple(parts),
        protocol=protocol,
    )


def report_rows(protocols: Iterable[Protocol]) -> tuple[Row, ...]:
    """One row per protocol; those with equal settings count once."""
    distinct = {value_address(_anonymous(protocol)): protocol for protocol in protocols}
    namesakes: dict[Names, dict[str, Protocol]] = {}
    for address, protocol in distinct.items():
        namesakes.setdefault(_names(protocol), {})[address] = protocol
    apart: dict[str, Settings] = {}
    for alike in namesakes.values():
        apart |= zip(alike, _differing([*alike.values()]), strict=True)
    counts: Counter[Names] = Counter()
    rows = []
    for address, protocol in distinct.items():
        parts = protocol.name_parts
        parts = parts if " ".join(parts) == protocol.name else (protocol.name,)
        _, agent, judge = _names(protocol)
        for name, setting in apart[address]:
            match name:
                case "agent":
                    agent += f" {setting}"
                case "judge":
                    judge += f" {setting}"
                case _:
                    parts = (*parts, f"{name.replace('_', ' ')} {setting}")
        if protocol.prompts is not None:
            parts = (*parts, f"prompts {protocol.prompts}")
        names = " ".join(parts), agent, judge
        counts[names] += 1
        if (number := counts[names]) > 1:
            parts = (*parts, f"#{number}")
        rows.append(row_of(protocol, (" ".join(parts), agent, judge), parts))
    return with_short_names(rows)


def with_short_names(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with labels that say only what tells them apart in this sweep. A protocol is called
    by its kind and the settings in which rows of this kind differ. A model is called by the last
    part of its name where that is unique; `sim/` stays. Judges of one model are called by their
    kinds, and judges of one kind by their models."""
    models = dict.fromkeys(model for row in rows for model in models_in(row.settings))
    ends = Counter(model.rpartition("/")[2].lower() for model in models)
    brief = {
        model: end
        for model in sorted(models, key=len, reverse=True)
        if not model.startswith("sim/") and ends[(end := model.rpartition("/")[2]).lower()] == 1
    }

    def shortened(name: str) -> str:
        for model, end in brief.items():
            words = re.split(r"([ ();])", name)
            name = "".join(end if word == model else word for word in words)
        return name

    judges = _short_judges({row.judge: row.judge_settings.get("model") for row in rows})
    shared = shared_parts(rows)
    kinds = {
        row.kind: ", ".join(
            part for n, part in enumerate(row.parts) if not n or part not in shared[row.parts[0]]
        )
        for row in rows
    }
    if len({*kinds.values()}) < len(kinds):
        kinds = {row.kind: ", ".join(row.parts) for row in rows}
    return tuple(
        replace(
            row,
            labels={
                row.kind: kinds[row.kind],
                row.judge: shortened(judges[row.judge]),
                **({row.agent: shortened(row.agent)} if row.agent else {}),
            },
        )
        for row in rows
    )


def _short_judges(models: Mapping[str, Any]) -> dict[str, str]:
    """By name of a judge, the name without the model or the kind that all judges share. models: by
    name of a judge; None for a judge of several models."""
    unchanged = {name: name for name in models}
    if len(models) < 2 or not all(name.startswith(f"{model} ") for name, model in models.items()):
        return unchanged
    split = {name: name.removeprefix(f"{model} ").split(" ", 1) for name, model in models.items()}
    same_model = len({*models.values()}) == 1
    same_kind = len({words[0] for words in split.values()}) == 1
    short = {
        name: " ".join([*[models[name]] * (not same_model), *words[same_kind:]]) or words[0]
        for name, words in split.items()
    }
    return short if len({*short.values()}) == len(short) else unchanged


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


def _differing(roles: Sequence[object]) -> list[Settings]:
    """By role, the settings in which these roles differ, as (name, value). Settings of a role
    within them that has one name everywhere stand under its name. None is left out."""
    differing: list[Settings] = [[] for _ in roles]
    settings_of = [fields(role) if is_dataclass(role) else () for role in roles]
    field_names = [[f.name for f in every if f.name != "prompts"] for every in settings_of]
    for name in dict.fromkeys(chain(*field_names)):
        values = [getattr(role, name, None) for role in roles]
        texts = [*map(_shown, values)]
        if len({*texts}) > 1:
            within: list[Settings] = [[("", text)] if text else [] for text in texts]
        else:
            within = _differing(values)
        for settings, inner, names in zip(differing, within, field_names, strict=True):
            if name in names:
                described = (f"{key.replace('_', ' ')} {text}".strip() for key, text in inner)
                settings += [(name, text) for text in described]
    return differing


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
        """Every cell once, lazily, always in the same order. The outermost loop is over problems,
        so that a sweep stopped early has covered every row and that neighbouring cells ask
        different models. The worlds of a problem come next to each other, so that their common
        calls are shared while in flight. ended: by place, not 0 for a cell to leave out. It may
        change while cells are taken."""
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
        Limits, prices and file names do not count: a run resumes after they change. The code of its
        rows is compared by itself, row by row."""
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
