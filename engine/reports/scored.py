"""Verdicts from elsewhere, measured: each question, and each measure over all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from oversight.engine.reports.aggregate import RowSamples
from oversight.engine.reports.axes import Axes
from oversight.engine.reports.results import Figures, Results, RowResult
from oversight.engine.reports.verdicts import Verdicts
from oversight.protocols.scores import RANGES, SCORES, Compat, applicable
from oversight.protocols.scoring.bounds import Bounds, bounds
from oversight.protocols.scoring.sample import Sample, widest
from oversight.protocols.scoring.worlds import Measures, asd_ends, chosen_ends, measure


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


def results_by_score(
    name: str, scored: Sequence[Scored], betas: Sequence[float], compat: Compat
) -> dict[str, Results]:
    """The results of verdicts from elsewhere, as those of a run with one row; one for each score.

    name: of the file. Intervals resample questions, those of a group together, with one seed for
    all scores.
    """
    samples = {score: row_samples(scored, score, compat) for score in SCORES}
    there = [row for row in samples.values() if row]
    figures = Figures(chain(*((row.asd, *row.jse, *row.eas) for row in there)))
    worlds = [world for each in scored for world in each.verdicts.endings.worlds]
    lost = sum(world.verdict is None for world in worlds)
    return {
        score: Results(
            name,
            score,
            tuple(betas),
            (
                RowResult(
                    kind="verdicts",
                    agent="",
                    judge="",
                    axes=Axes(),
                    n=len(row.asd.values) if row else 0,
                    cells=len(worlds),
                    failed=lost,
                    missing=0,
                    asd=figures.of(row.asd) if row else None,
                    jse=figures.by(betas, row.jse) if row else {},
                    eas=figures.by(betas, row.eas) if row else {},
                    lift=None,
                    mde=None,
                    bounds=asd_bounds(scored, score, compat),
                    failures={"without a verdict": lost} if lost else {},
                    counts={},
                    chose_right=None,
                    by_choice=None,
                    measures={},
                    counts_a_world={},
                    captured=None,
                ),
            ),
            (row,),
            health=None,
        )
        for score, row in samples.items()
    }


def row_samples(scored: Sequence[Scored], score: str, compat: Compat = "none") -> RowSamples | None:
    """Each measure under one score, over the questions that have it; None if none has."""
    measured = [
        (each.verdicts, measures)
        for each in scored
        for measures in each.measures
        if measures.score == score
    ]
    if not measured:
        return None
    ids = tuple(str(verdicts.id) for verdicts, _ in measured)
    groups = tuple(verdicts.group for verdicts, _ in measured)
    kinds = {verdicts.endings.values for verdicts, _ in measured}
    asd = widest(asd_ends(values, RANGES[score], compat) for values in kinds)
    chosen = widest(chosen_ends(values, RANGES[score], compat) for values in kinds)

    def samples(columns: Iterable[tuple[float, ...]]) -> tuple[Sample, ...]:
        return tuple(Sample(ids, column, groups, chosen) for column in columns)

    return RowSamples(
        Sample(ids, tuple(measures.asd for _, measures in measured), groups, asd),
        samples(zip(*(measures.jse for _, measures in measured), strict=True)),
        samples(zip(*(measures.eas for _, measures in measured), strict=True)),
    )


def asd_bounds(scored: Sequence[Scored], score: str, compat: Compat) -> Bounds | None:
    """Bounds of the mean ASD under one score; None if no question admits it."""
    endings = [each.verdicts.endings for each in scored]
    admitted = [each for each in endings if score in applicable(len(each.values))]
    return bounds(admitted, score, compat) if admitted else None
