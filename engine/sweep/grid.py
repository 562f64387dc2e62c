"""A sweep as plain data for reports, tables and pages, without the code of its rows."""

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Literal

import msgspec
import orjson

from ...cache.call import digest
from ...protocols.question import Problem

NOTHING: Mapping[str, Any] = MappingProxyType({})

GRID_FORMAT = 1
"""Version of `Grid.json`."""

MAX_CELLS = 50_000_000
"""Maximum size of a sweep; a run keeps eight bytes of memory for each cell."""

NAIVE_JUDGE = "NaiveJudge"
"""Name of the class of protocols in which nobody speaks: it is slower to import than a grid."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The settings by which users plot and group: one name each, whatever the protocol; None where
    a row has no such setting."""

    model: str | None = None
    """Model of the overseen agent."""
    judge_model: str | None = None
    rounds: int | None = None
    """Rounds, or the turns of a consultancy."""
    simultaneous: bool | None = None
    best_of: int | None = None
    """Drafts per speech; 1 for an agent that speaks its first one."""
    temperature: float | None = None
    """Sampling temperature of the overseen agent; None also where the provider's default holds."""
    seed: int | None = None
    """Seed of the sweep; None in a row, which may stand in several sweeps."""


@dataclass(frozen=True)
class GridRow:
    """One row of the report: a protocol with its roles, as names and plain settings."""

    kind: str
    """The protocol and its settings: `debate simultaneous 2 rounds`."""
    agent: str
    """Empty for a protocol without an agent."""
    judge: str
    mechanism: str
    """The kind of protocol, without its settings: `naive judge`."""
    settings: Mapping[str, Any]
    """The protocol and its roles as `oversight.cache.call.plain` gives them; may be empty."""
    lineage: tuple[str, ...] = ()
    """The class of the protocol and those that it inherits from, by name."""
    judge_lineage: tuple[str, ...] = ()
    words: str = ""
    """Name of the prompt set; empty for the default prompts. In old runs its digest."""
    reads: str = ""
    """Digest of the part of it that the protocol reads."""
    common: str = ""
    """Digest of the part of it that the judges of all protocols read."""
    reads_passage: bool = False
    """Whether the judge may read the question's passage."""
    axes: Axes = field(default_factory=Axes)
    parts: tuple[str, ...] = ()
    """`kind` in parts: the kind of protocol, and one part per setting; () if they are unknown."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The display names for `kind`, `agent` and `judge`, by these names."""

    @property
    def shown(self) -> str:
        """The protocol, as users see it."""
        return self.labels.get(self.kind, self.kind)

    @property
    def shown_agent(self) -> str:
        return self.labels.get(self.agent, self.agent)

    @property
    def shown_judge(self) -> str:
        return self.labels.get(self.judge, self.judge)

    @property
    def shown_names(self) -> tuple[str, str, str]:
        return self.shown, self.shown_agent, self.shown_judge

    @property
    def title(self) -> str:
        """Protocol, agent and judge."""
        return " · ".join(filter(None, (self.kind, self.agent, self.judge)))

    @cached_property
    def address(self) -> str:
        """Digest of all settings; of the names where only they are known."""
        return digest(self.settings or [self.kind, self.agent, self.judge])

    @cached_property
    def judge_address(self) -> str:
        """Digest of the settings of the judge."""
        return digest(self.judge_settings or self.judge)

    @property
    def judge_settings(self) -> Mapping[str, Any]:
        return _mapping(self.settings.get("judge"))

    @property
    def agent_settings(self) -> Mapping[str, Any]:
        """Empty for a protocol without an agent."""
        return _mapping(self.settings.get("agent"))

    @cached_property
    def unchecked(self) -> bool:
        """Whether it has an agent whose speeches no side check reads."""
        return bool(self.agent_settings) and "checker" not in self.agent_settings

    @property
    def naive(self) -> bool:
        """Whether the judge answers alone: the baseline of every protocol with the same judge."""
        return self.is_a(NAIVE_JUDGE)

    def is_a(self, protocol: str) -> bool:
        """Whether it is a protocol of the class of this name, or of one that inherits from it."""
        return protocol in self.lineage


@dataclass(frozen=True)
class Grid:
    """A grid of cells: problems x draws x rows x the answers to argue for."""

    name: str
    problems: tuple[Problem, ...]
    rows: Sequence[GridRow]
    draws: int = 1
    seed: int = 0
    identities: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Model -> identity of the endpoint that answers for it."""
    code: str = ""
    """Digest of the code behind all rows; empty where it was not asked for."""
    meanings: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Model -> the public model that it is, as the sweep file states it."""
    interval: Literal["t", "conservative"] = "t"
    contrast: str = ""
    """The difference that the sweep asks for, `A - B`; empty for none."""

    def span(self, number: int) -> range:
        """Range of the places of one problem's cells."""
        return range(self._starts[number], self._starts[number + 1])

    def problem_at(self, place: int) -> int:
        """The number of the problem that a place belongs to."""
        return bisect_right(self._starts, place) - 1

    def row_at(self, place: int) -> int:
        """The number of the row that a place belongs to."""
        problem = self.problem_at(place)
        answers = len(self.problems[problem].values)
        return (place - self._starts[problem]) // answers % len(self.rows)

    @cached_property
    def _starts(self) -> "array[int]":
        """Place of each problem's first cell, and the end of the last problem's."""
        size = self.draws * len(self.rows)
        sizes = (len(problem.values) * size for problem in self.problems)
        return array("Q", accumulate(sizes, initial=0))

    def __len__(self) -> int:
        return self.size

    @cached_property
    def size(self) -> int:
        """Number of cells; unlike `len`, without an upper bound."""
        return sum(len(problem.values) for problem in self.problems) * self.draws * len(self.rows)

    @cached_property
    def roles(self) -> tuple[tuple[str, str], ...]:
        """(model, role) of every model: "agent", "judge" or "agent and judge"."""
        judges, agents = set[str](), set[str]()
        for row in self.rows:
            judges.update(models_in(row.judge_settings))
            for name, part in row.settings.items():
                if name != "judge":
                    agents.update(models_in(part))
        seats = (("agent", agents), ("judge", judges))
        return tuple(
            (model, " and ".join(seat for seat, seated in seats if model in seated))
            for model in self.models
        )

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Every model that any row may ask, in order of first mention."""
        return tuple(dict.fromkeys(model for row in self.rows for model in models_in(row.settings)))

    @cached_property
    def prompts(self) -> str:
        """Digest of all prompts that its rows read, 12 hex digits; empty if they are not known."""
        read = sorted({row.reads for row in self.rows})
        return "" if "" in read else joined_digest(*read)[:12]


class _StoredGrid(msgspec.Struct, frozen=True):
    """A grid without its problems, as its file has it."""

    format: int
    name: str
    draws: int
    seed: int
    identities: dict[str, str]
    code: str
    meanings: dict[str, str]
    rows: tuple[GridRow, ...]
    interval: Literal["t", "conservative"] = "t"
    contrast: str = ""


STORED = tuple(name for name in _StoredGrid.__struct_fields__ if name != "format")


def stored_grid(grid: Grid) -> bytes:
    """A grid without its problems, as JSON; equal bytes for equal grids."""
    names = [field.name for field in fields(GridRow)]
    rows = [{name: getattr(row, name) for name in names} for row in grid.rows]
    stored = {"format": GRID_FORMAT} | {name: getattr(grid, name) for name in STORED}
    stored["rows"] = rows
    return orjson.dumps(stored, default=dict, option=orjson.OPT_APPEND_NEWLINE)


def read_grid(content: bytes, problems: tuple[Problem, ...]) -> Grid:
    """A grid from `stored_grid`. ValueError if it is none, or one of a newer format."""
    try:
        stored = msgspec.json.decode(content, type=_StoredGrid)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ValueError(f"no grid of a sweep: {exc}") from exc
    if stored.format != GRID_FORMAT:
        raise ValueError(f"a grid of format {stored.format}; this version reads {GRID_FORMAT}")
    if stored.draws < 1 or not stored.rows:
        raise ValueError(f"no grid of a sweep: {stored.draws} draws, {len(stored.rows)} rows")
    return Grid(problems=problems, **{name: getattr(stored, name) for name in STORED})


def models_in(settings: object) -> Iterator[str]:
    """Every model named in a tree of plain settings."""
    if isinstance(settings, list):
        for part in settings:
            yield from models_in(part)
    elif isinstance(settings, dict):
        if isinstance(model := settings.get("model"), str):
            yield model
        for part in settings.values():
            yield from models_in(part)


def shared_parts(rows: Iterable[GridRow]) -> dict[str, tuple[str, ...]]:
    """By kind of protocol, the settings that all its rows share, as parts of their names."""
    parts_by_kind: dict[str, tuple[str, ...]] = {}
    for kind, *settings in (row.parts for row in rows if row.parts):
        shared = parts_by_kind.get(kind, settings)
        parts_by_kind[kind] = tuple(part for part in shared if part in settings)
    return parts_by_kind


def joined_digest(*parts: str) -> str:
    """sha256 of some texts in order, 64 hex digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else NOTHING


def baselines(rows: Sequence[GridRow]) -> dict[int, int]:
    """Return, by row, the naive row that it is compared with: same judge, same prompts. If several
    differ only in their prompts, the one of the same prompt set is taken, else that with the
    default prompts, else the first. Rows without a naive row are left out."""
    naive: dict[tuple[str, str], dict[str, int]] = {}
    for n, row in enumerate(rows):
        if row.naive:
            naive.setdefault((row.judge_address, row.common), {}).setdefault(row.words, n)
    pairs = {}
    for n, row in enumerate(rows):
        if alone := naive.get((row.judge_address, row.common)):
            pairs[n] = alone.get(row.words, alone.get("", next(iter(alone.values()))))
    return pairs
