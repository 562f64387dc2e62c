"""Verdicts from elsewhere, measured as a run with one row is."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from ...protocols.scores import SCORES, Compat
from ...protocols.scoring.world_table import WorldBlock, WorldTable
from ...protocols.scoring.worlds import Worlds
from ..sweeps.axes import Axes
from .results import Figures, Results, RowResult
from .verdicts import Verdicts


def world_table(questions: Sequence[Verdicts], compat: Compat = "none") -> WorldTable:
    """The worlds of questions from elsewhere, one draw of each."""
    blocks = []
    for answers in sorted({len(each.values) for each in questions}):
        places = [n for n, each in enumerate(questions) if len(each.values) == answers]
        none = (np.nan,) * answers
        verdicts = np.array([[world or none for world in questions[n].worlds] for n in places])
        values = np.array([questions[n].values for n in places])
        worlds = Worlds(verdicts[:, None], values[:, None], compat)
        blocks.append(WorldBlock(np.array(places), worlds, np.isnan(verdicts[:, None, :, 0])))
    return WorldTable(
        tuple(str(each.id) for each in questions),
        tuple(each.group for each in questions),
        tuple(blocks),
    )


def failed(questions: Sequence[Verdicts]) -> tuple[Verdicts, ...]:
    """The questions without measures: some world of theirs has no verdict."""
    return tuple(each for each in questions if None in each.worlds)


def results_by_score(
    name: str, questions: Sequence[Verdicts], betas: Sequence[float], compat: Compat
) -> dict[str, Results]:
    """The results of verdicts from elsewhere, as those of a run with one row; one for each score.

    name: of the file. Intervals resample questions, those of a group together, with one seed for
    all scores.
    """
    table = world_table(questions, compat)
    samples = {score: table.samples(score, betas) for score in SCORES}
    there = [row for row in samples.values() if row]
    figures = Figures(chain(*((row.asd, *row.jse, *row.eas) for row in there)))
    worlds = [world for each in questions for world in each.worlds]
    lost = worlds.count(None)
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
                    bounds=table.bounds(score),
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
