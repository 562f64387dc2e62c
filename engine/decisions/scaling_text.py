"""Rendering of ratings, and of what follows from them, as a table and JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ...protocols.scoring.surface import TERMS
from ..display.quantity import counted
from ..display.table import Table
from .scaling import Scaling


def scaling_json(found: Scaling) -> dict[str, Any]:
    """All figures; null where nothing could be estimated."""
    wins, played = found.games.wins.sum(axis=0), found.games.played.sum(axis=0)
    roles = {"guards": found.ratings.guards, "houdinis": found.ratings.houdinis}
    nested = found.nested
    return {
        "protocol": found.protocol,
        "game": found.game,
        "problems": found.problems,
        "wins": wins.tolist(),
        "played": played.tolist(),
        **{role: list(ratings) for role, ratings in roles.items()},
        "difficulty": found.ratings.difficulty,
        "capability": dict(found.capability),
        "nested": nested
        and {
            "chances": list(nested.estimate.chances),
            "steps": nested.estimate.steps,
            "best": nested.estimate.best,
            "low": nested.interval[0],
            "high": nested.interval[1],
            "outside": nested.estimate.outside,
        },
        "why_not": found.why_not,
        "lines": {
            role: [{"form": each.form, **asdict(each)} for each in lines]
            for role, lines in found.lines.items()
        },
        "surface": found.surface
        and {
            term: {"coefficient": value, "error": error}
            for term, value, error in zip(
                TERMS, found.surface.coefficients, found.surface.errors, strict=True
            )
        },
        "breakdown": found.breakdown and asdict(found.breakdown),
    }


def scaling_table(found: Scaling) -> Table:
    """One line per model in each of its roles; the notes tell the rest."""
    wins, played = found.games.wins.sum(axis=0), found.games.played.sum(axis=0)
    body = []
    for role, each, axis in (
        ("guard", found.ratings.guards, 1),
        ("houdini", found.ratings.houdinis, 0),
    ):
        won = wins.sum(axis=axis) if role == "guard" else (played - wins).sum(axis=axis)
        share = won / played.sum(axis=axis)
        for n, one in enumerate(each):
            level = found.capability.get(one.model)
            body.append(
                (
                    role,
                    one.model,
                    f"{share[n]:.0%}",
                    f"{one.rating:.0f}{'*' * one.bounded}",
                    f"[{one.interval[0]:.0f}, {one.interval[1]:.0f}]",
                    "–" if level is None else f"{level:g}" if abs(level) >= 100 else f"{level:.2f}",
                )
            )
    notes = ["95% by clusters of problems. *: won or lost all: only a bound."]
    if found.ratings.difficulty is not None:
        notes.append(f"problems differ by {found.ratings.difficulty:.0f} points (s.d.).")
    if found.nested is None:
        notes.append(f"no nested oversight: {found.why_not}")
    else:
        best, (low, high) = found.nested.estimate, found.nested.interval
        notes.append(
            f"nested oversight: {best.best:.3f} [{low:.3f}, {high:.3f}] in "
            f"{counted(best.steps, 'step')}"
            + (", beyond the capabilities that were seen." if best.outside else ".")
        )
    notes += _moves(found)
    what = "worlds that argue for a wrong answer" if found.game == "lie" else "all worlds"
    return Table(
        f"scaling: {found.protocol}, {what}, {counted(found.problems, 'problem')}",
        ("role", "model", "won", "rating", "95%", "capability"),
        tuple(body),
        2,
        tuple(notes),
    )


def _moves(found: Scaling) -> Iterator[str]:
    """How ratings, ASD and lift move with capability."""
    for role, lines in found.lines.items():
        best = lines[0]
        yield (
            f"{role}s over capability: {best.form} of slope {best.slope:.2f}, with "
            f"{best.weight:.0%} of the weight by AICc."
        )
    if found.surface:
        told = zip(TERMS, found.surface.coefficients, found.surface.errors, strict=True)
        parts = "; ".join(f"{term} {value:+.3g} ({error:.2g})" for term, value, error in told)
        yield f"ASD = level + judge - agent + both: {parts}; errors by problems and models."
    if found.breakdown:
        low, high = (_end(end) for end in found.breakdown.interval)
        at = found.breakdown.at
        yield (
            f"lift is gone where the agent is {at:.3g} [{low}, {high}] above its judge."
            if at is not None
            else f"lift reaches 0 at no gap that was seen; in {found.breakdown.crossed:.0%} of "
            "resamples it does."
        )


def _end(end: float | None) -> str:
    return "–" if end is None else f"{end:.3g}"
