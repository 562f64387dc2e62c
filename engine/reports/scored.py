"""Verdicts from elsewhere, measured: each question, and each measure over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oversight.engine.reports.verdicts import Verdicts
from oversight.protocols.scores import RANGES, Compat, applicable
from oversight.protocols.scoring.bounds import Bounds, bounds
from oversight.protocols.scoring.sample import Sample, widest
from oversight.protocols.scoring.statistics import Estimate, estimates
from oversight.protocols.scoring.worlds import Measures, asd_ends, beta_name, chosen_ends, measure


@dataclass(frozen=True, slots=True)
class Scored:
    """One question with its measures."""

    verdicts: Verdicts
    measures: tuple[Measures, ...]
    """One a score that the question admits; none at all if a world has no verdict."""


def score(
    questions: Sequence[Verdicts], betas: Sequence[float], compat: Compat
) -> tuple[Scored, ...]:
    """Every question measured, in the order given."""
    scored = []
    for verdicts in questions:
        worlds = verdicts.endings.complete(compat)
        scored.append(Scored(verdicts, measure(worlds, betas) if worlds else ()))
    return tuple(scored)


def failed(scored: Sequence[Scored]) -> tuple[Verdicts, ...]:
    """The questions without measures: some world of theirs has no verdict."""
    return tuple(each.verdicts for each in scored if not each.measures)


def measure_names(betas: Sequence[float]) -> tuple[str, ...]:
    """The measures in the order of `figures`: ASD, JSE at each beta, EAS at each beta."""
    return ("ASD", *(f"{what} {beta_name(beta)}" for what in ("JSE", "EAS") for beta in betas))


def figures(measures: Measures) -> tuple[float, ...]:
    return (measures.asd, *measures.jse, *measures.eas)


def samples(scored: Sequence[Scored], name: str, compat: Compat = "none") -> tuple[Sample, ...]:
    """Each measure under one score, over the questions that have it; () if none has."""
    measured = [
        (each.verdicts, figures(measures))
        for each in scored
        for measures in each.measures
        if measures.score == name
    ]
    if not measured:
        return ()
    ids = tuple(str(verdicts.id) for verdicts, _ in measured)
    groups = tuple(verdicts.group for verdicts, _ in measured)
    kinds = {verdicts.endings.values for verdicts, _ in measured}
    asd = widest(asd_ends(values, RANGES[name], compat) for values in kinds)
    chosen = widest(chosen_ends(values, RANGES[name], compat) for values in kinds)
    columns = zip(*(row for _, row in measured), strict=True)
    return tuple(
        Sample(ids, column, groups, chosen if place else asd)
        for place, column in enumerate(columns)
    )


def estimated(over: Mapping[str, tuple[Sample, ...]]) -> dict[str, tuple[Estimate, ...]]:
    """Estimates by score; scores of the same questions are resampled in one go."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name, of_score in over.items():
        if of_score:
            together.setdefault(of_score[0].questions, []).append(name)
    found: dict[str, tuple[Estimate, ...]] = {}
    for names in together.values():
        rows = iter(estimates([sample for name in names for sample in over[name]]))
        found |= {name: tuple(next(rows) for _ in over[name]) for name in names}
    return {name: found[name] for name in over if name in found}


def asd_bounds(scored: Sequence[Scored], name: str, compat: Compat) -> Bounds | None:
    """Bounds of the mean ASD under one score; None if no question admits it."""
    endings = [each.verdicts.endings for each in scored]
    admitted = [each for each in endings if name in applicable(len(each.values))]
    return bounds(admitted, name, compat) if admitted else None
