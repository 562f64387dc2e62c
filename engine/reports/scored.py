"""Verdicts from elsewhere, measured: each question, and each measure over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from oversight.engine.reports.verdicts import Verdicts
from oversight.protocols.scores import Compat, applicable
from oversight.protocols.scoring.bounds import Bounds, bounds
from oversight.protocols.scoring.sample import Sample
from oversight.protocols.scoring.worlds import Measures, beta_name, measure


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


def samples(scored: Sequence[Scored], name: str) -> tuple[Sample, ...]:
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
    columns = zip(*(row for _, row in measured), strict=True)
    return tuple(Sample(ids, column, groups) for column in columns)


def asd_bounds(scored: Sequence[Scored], name: str, compat: Compat) -> Bounds | None:
    """Bounds of the mean ASD under one score; None if no question admits it."""
    endings = [each.verdicts.endings for each in scored]
    admitted = [each for each in endings if name in applicable(len(each.values))]
    return bounds(admitted, name, compat) if admitted else None
