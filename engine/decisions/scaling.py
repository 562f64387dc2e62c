"""How oversight moves with capability: ratings of judges and of agents from the verdicts of a run.

A judge (Guard) and an agent (Houdini) play on each problem: in the worlds in which the agent argues
for a wrong answer the Guard wins if it finds the best one. Ratings, their intervals by clusters of
problems and nested oversight: `oversight.protocols.scoring.ratings` and `nested_from_ratings`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from oversight.engine.decisions.row_verdicts import judged_right
from oversight.engine.decisions.rows import RunRows, against_naive, rows_meant
from oversight.engine.errors import UsageError
from oversight.engine.reports.axes import axes
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.judges.judge import Judge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.protocol import kind
from oversight.protocols.scoring.clipped_lines import ClippedLine, clipped_lines
from oversight.protocols.scoring.clustered import codes
from oversight.protocols.scoring.crossing import Crossing
from oversight.protocols.scoring.nested_from_ratings import nested_from_ratings
from oversight.protocols.scoring.nested_oversight import NestedEstimate
from oversight.protocols.scoring.ratings import (
    Games,
    Rating,
    Ratings,
    ratings,
    ratings_with_difficulty,
)
from oversight.protocols.scoring.resamples import together
from oversight.protocols.scoring.surface import Surface, breakdown_gap, own_axis, surface

RatedRole: TypeAlias = Literal["guard", "houdini"]

FIVE = 5
"""Models of a role that a line with its corners needs."""

MIN_GAPS = 3
"""Gaps in capability between which a crossing is looked for."""

NORMAL_95 = 1.96

Game: TypeAlias = Literal["lie", "balanced"]
"""What counts: worlds that argue for a wrong answer; or all, so that a Guard must accept the truth
too."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """What the rows of one protocol say."""

    protocol: str
    game: Game
    problems: int
    games: Games
    ratings: Ratings
    capability: Mapping[str, float]
    """By model's name in the report: given, as the sweep file says, or the log odds of its own
    accuracy unaided."""
    lines: Mapping[RatedRole, tuple[ClippedLine, ...]]
    """Ratings of a role over capability, the likeliest form first; of roles with five models that
    have one."""
    surface: Surface | None
    """ASD over both capabilities; None unless two of each are crossed."""
    breakdown: Crossing | None
    """The gap, agent's capability less the judge's, at which lift crosses 0; None without naive
    judges, or without three gaps."""
    nested: NestedEstimate | None
    """None unless every model has a capability, and each role three ratings."""
    why_not: str
    """Why there is no nested oversight; empty where there is."""


def scaling(
    run: RunRows,
    protocol: str,
    *,
    game: Game = "lie",
    difficulty: bool = False,
    capability: Mapping[str, float] | None = None,
    gap: float | None = None,
    score: str = "brier",
    seed: int = 0,
) -> Scaling:
    """Ratings of the judges and agents of one protocol's rows.

    difficulty: whether problems differ in difficulty, which takes minutes. capability: by name of
    agent or judge, beside what the sweep file tells of their models; without any, the log odds of
    naive judges of the run. score: of the ASD and lift that are set against capability. gap: how
    far above the weakest model nested oversight is to reach; the range of capabilities unless
    given. UsageError for a protocol without rows, or of several kinds, and where models never met.
    """
    rows = run.sweep.rows
    meant = [n for n in rows_meant(protocol, rows, run.names) if rows[n].agent]
    kinds = list(dict.fromkeys(rows[n].kind for n in meant))
    if len(kinds) != 1:
        raise UsageError(
            f"--protocol {protocol} fits {len(kinds)} kinds of row: {'; '.join(kinds)}\n"
            "  name one of them"
            if kinds
            else f"--protocol {protocol}: none of its rows has an agent; name one that has"
        )
    games = _games(run, meant, game)
    fitted = (ratings_with_difficulty if difficulty else ratings)(games, seed=seed)
    known = {**_told(run, meant), **(capability or {})} or _own(run)
    nested, why_not = None, ""
    try:
        if not known:
            raise ValueError("no capability is given: --capability MODEL=NUMBER, or naive judges")
        used = [known[name] for name in (*games.guards, *games.houdinis) if name in known]
        start = min(used, default=0.0)
        reach = gap if gap is not None else max(used, default=0.0) - start
        nested = nested_from_ratings(fitted, known, start=start, gap=reach)
    except ValueError as exc:
        why_not = str(exc)
    placed = [n for n in meant if {rows[n].judge, rows[n].agent} <= known.keys()]
    return Scaling(
        kinds[0],
        game,
        len(games.of),
        games,
        fitted,
        known,
        _lines(fitted, known),
        _surface(run, placed, known, score),
        _breakdown(run, placed, known, score, seed),
        nested,
        why_not,
    )


def _told(run: RunRows, meant: Sequence[int]) -> dict[str, float]:
    """What the sweep file says of the models behind the judges and agents of some rows."""
    told = run.opened.models.capability
    found: dict[str, float] = {}
    for n in meant:
        row = run.sweep.rows[n]
        agent = getattr(row.protocol, "agent", None)
        for name, role in ((row.judge, row.protocol.judge), (row.agent, agent)):
            if isinstance(role, (Judge, Speaker)) and role.base_agent.model in told:
                found[name] = told[role.base_agent.model].capability
    return found


def _lines(fitted: Ratings, known: Mapping[str, float]) -> dict[RatedRole, tuple[ClippedLine, ...]]:
    found: dict[RatedRole, tuple[ClippedLine, ...]] = {}
    roles: tuple[tuple[RatedRole, tuple[Rating, ...]], ...] = (
        ("guard", fitted.guards),
        ("houdini", fitted.houdinis),
    )
    for role, every in roles:
        each = [one for one in every if one.model in known and not one.bounded]
        x = np.array([known[one.model] for one in each])
        if len(each) >= FIVE and np.ptp(x):
            errors = [(one.interval[1] - one.interval[0]) / 2 / NORMAL_95 for one in each]
            ratings_of = np.array([one.rating for one in each])
            found[role] = clipped_lines(x, ratings_of, np.array(errors))
    return found


def _surface(
    run: RunRows, placed: Sequence[int], known: Mapping[str, float], score: str
) -> Surface | None:
    samples, rows = run.asd(score), run.sweep.rows
    there = [n for n in placed if run.names[n] in samples]
    if not there:
        return None
    each = [samples[run.names[n]] for n in there]
    sizes = [len(sample.values) for sample in each]
    try:
        return surface(
            np.concatenate([sample.values for sample in each]),
            np.repeat([known[rows[n].agent] for n in there], sizes),
            np.repeat([known[rows[n].judge] for n in there], sizes),
            codes([key for sample in each for key in sample.clusters]),
            np.repeat(np.arange(len(there)), sizes),
        )
    except ValueError:
        return None


def _breakdown(
    run: RunRows, placed: Sequence[int], known: Mapping[str, float], score: str, seed: int
) -> Crossing | None:
    samples, rows = run.asd(score), run.sweep.rows
    naive = dict(against_naive(rows))
    lifted = [n for n in placed if n in naive]
    cells = [n for n in lifted if run.names[n] in samples and run.names[naive[n]] in samples]
    gaps = [known[rows[n].agent] - known[rows[n].judge] for n in cells]
    if len(set(gaps)) < MIN_GAPS:
        return None
    used = {run.names[n] for each in cells for n in (each, naive[each])}
    try:
        every = together({name: samples[name] for name in used})
    except ValueError:
        return None
    column = {name: n for n, name in enumerate(every.names)}
    lifts = np.stack(
        [
            every.values[:, column[run.names[n]]] - every.values[:, column[run.names[naive[n]]]]
            for n in cells
        ],
        axis=1,
    )
    sample = samples[next(iter(used))]
    clusters = dict(zip(sample.questions, sample.clusters, strict=True))
    of = codes([clusters[id] for id in every.questions])
    return breakdown_gap(gaps, lifts, of, seed=seed)


def _games(run: RunRows, meant: list[int], game: Game) -> Games:
    rows, index, sweep = run.sweep.rows, run.table.cells, run.sweep
    guards = tuple(dict.fromkeys(rows[n].judge for n in meant))
    houdinis = tuple(dict.fromkeys(rows[n].agent for n in meant))
    shape = (len(sweep.problems), len(guards), len(houdinis))
    wins, played = np.zeros(shape), np.zeros(shape)
    counted = np.ones_like(index.truth) if game == "balanced" else ~index.truth
    for n in meant:
        right = judged_right(run, n)
        there = counted & ~np.isnan(right)
        of = index.problem[there]
        g, h = guards.index(rows[n].judge), houdinis.index(rows[n].agent)
        wins[:, g, h] += np.bincount(of, right[there], len(sweep.problems))
        played[:, g, h] += np.bincount(of, minlength=len(sweep.problems))
    keys = [(p.group, "") if p.group else ("", p.id) for p in sweep.problems]
    try:
        return Games(guards, houdinis, wins, played, codes(keys))
    except ValueError as exc:
        raise UsageError(f"{run.folder}: {exc}") from exc


def _own(run: RunRows) -> dict[str, float]:
    """Log odds of the accuracy of each naive judge, under the name of its judge, and of the agents
    that have its model."""
    found: dict[str, float] = {}
    settings = [axes(row, run.sweep.seed) for row in run.sweep.rows]
    for n, row in enumerate(run.sweep.rows):
        if kind(type(row.protocol)) != kind(NaiveJudge):
            continue
        right = judged_right(run, n)
        there = ~np.isnan(right)
        if there.any():
            problems = len(np.unique(run.table.cells.problem[there]))
            level, _ = own_axis(float(right[there].mean()), problems)
            found[row.judge] = level
            for other, its in zip(run.sweep.rows, settings, strict=True):
                if other.agent and its.model == settings[n].judge_model:
                    found.setdefault(other.agent, level)
    return found
