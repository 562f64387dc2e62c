"""Rendering of a contrast pooled over data sets as a table and JSON."""

from typing import Any

from ..display.quantity import signed
from ..display.table import Table
from ..reports.figure_text import span
from ..reports.tables import SCORE_NAMES
from .studies import Studies


def studies_json(found: Studies) -> dict[str, Any]:
    """`{"studies": [{"run", "n", "mean", …}], "mean", "low", "high", "prediction", "tau", …}`."""
    pooled = found.pooled
    return {
        "score": found.score,
        "studies": [
            {
                "run": study.run,
                "first": study.contrast.first,
                "second": study.contrast.second,
                "n": study.contrast.n,
                "mean": study.contrast.estimate,
                "error": study.contrast.error,
                "low": study.contrast.interval[0],
                "high": study.contrast.interval[1],
                "weight": weight,
            }
            for study, weight in zip(found.studies, pooled.weights, strict=True)
        ],
        "mean": pooled.mean,
        "error": pooled.error,
        "low": pooled.interval[0],
        "high": pooled.interval[1],
        "prediction": pooled.prediction,
        "tau": pooled.tau,
        "i_squared": pooled.i_squared,
    }


def studies_table(found: Studies) -> Table:
    """One line per run, then the pooled mean and the prediction for a new data set."""
    pooled = found.pooled
    body = [
        (
            study.run,
            f"{study.contrast.n}",
            signed(study.contrast.estimate, 3),
            span(study.contrast.interval),
            f"{weight:.0%}",
        )
        for study, weight in zip(found.studies, pooled.weights, strict=True)
    ]
    body.append(("mean over data sets", "", signed(pooled.mean, 3), span(pooled.interval), ""))
    if pooled.prediction:
        body.append(("on a new one", "", "", span(pooled.prediction), ""))
    first, second = found.studies[0].contrast.first, found.studies[0].contrast.second
    return Table(
        f"{first} - {second}, over {pooled.studies} data sets ({SCORE_NAMES[found.score]})",
        ("run", "n", "difference", "95%", "weight"),
        tuple(body),
        1,
        (
            f"data sets differ by {pooled.tau:.3f} (s.d.); I² {pooled.i_squared:.0%}. Mean: random "
            "effects, REML, Hartung and Knapp's t. On a new one: prediction interval.",
        ),
    )
