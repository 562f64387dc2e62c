"""`compare` and `measure scores` on tables of scores, against arithmetic of a line or two."""

import json
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from oversight.engine.analysis.differences import mcnemar
from oversight.engine.analysis.scoring.inference import of_questions
from tests.command_line import Command
from tests.engine.analysis.test_planted import differences
from tools import known

RNG = random.Random(0)


def written(file: Path, scores: Sequence[Any], more: Sequence[str] = ()) -> Path:
    lines = [f"q{n},{'' if score is None else score}" for n, score in enumerate(scores)]
    file.write_text("\n".join(["question,score", *lines, *more]) + "\n")
    return file


def contrast(command: Command, *words: Any) -> Any:
    ran = command("compare", *words, "--json")
    assert ran.code == 0, ran.err
    (line,) = json.loads(ran.out)["contrasts"]
    return line


@pytest.mark.parametrize(("scale", "ends"), [(1, (0.0, 1.0)), (10, None)])
def test_every_figure_of_scores_is_exact_whatever_their_order(place, command, scale, ends):
    """Three models in two epochs, in groups of unequal size. Scores, all scores of a question, and
    questions of a model are missing."""
    ids = [f"q{n}" for n in range(14)]
    groups = {id: ["x", "x", "x", "y", "y"][n] if n < 5 else "" for n, id in enumerate(ids)}
    scores_made = {
        (model, id, epoch): None if RNG.random() < 0.2 else round(RNG.random() * scale, 3)
        for model, some in (("a", ids), ("b", ids), ("c", ids[3:]))
        for id in some
        for epoch in (1, 2)
    }
    scores_made |= {("b", "q7", epoch): None for epoch in (1, 2)}
    lines = [
        f"{id},{model},{groups[id]},{epoch},{'' if score is None else score}"
        for (model, id, epoch), score in RNG.sample([*scores_made.items()], len(scores_made))
    ]
    (place / "s.csv").write_text("\n".join(["question,row,group,epoch,score", *lines]))
    samples: dict[str, dict[str, float]] = {}
    for model, id in dict.fromkeys(key[:2] for key in scores_made):
        if some := [s for e in (1, 2) if (s := scores_made[model, id, e]) is not None]:
            samples.setdefault(model, {})[id] = statistics.fmean(some)
    rows = {
        model: {"row": model, "n": len(sample), "mean": known.mean(sample, groups, ends).json,
                "lost": sum(s is None for key, s in scores_made.items() if key[0] == model)}
        for model, sample in samples.items()
    }  # fmt: skip
    output = json.loads(command("measure", "scores", "s.csv", "--json").out)["rows"]
    assert differences(rows, {row["row"]: row for row in output}) == []
    about, figures = [], []
    words = [word for pair in ("a - b", "a - c", "b - c") for word in ("--contrast", pair)]
    for one, two in (("a", "b"), ("a", "c"), ("b", "c")):
        both = [id for id in samples[one] if id in samples[two]]
        apart = {id: samples[one][id] - samples[two][id] for id in both}
        figures.append(known.mean(apart, groups, ends and (-1.0, 1.0)))
        means = [statistics.fmean(samples[name][id] for id in both) for name in (one, two)]
        shared = len(both) / len({*samples[one], *samples[two]})
        line = {"first": one, "second": two, "n": len(both), "means": means, "shared": shared}
        about.append(line | {"difference": figures[-1].json, "mcnemar": None})
    expected = [line | more for line, more in zip(about, known.decided(figures), strict=True)]
    output = json.loads(command("compare", "s.csv", *words, "--json").out)["contrasts"]
    assert differences(expected, output) == []


def test_missing_scores_change_n_alone_and_epochs_are_averaged(place: Path, command: Command):
    scores = [1, 0, 1, 1, 0, 1, 0, 1]
    file = written(place / "a.csv", [*scores, *[None] * 5])
    (row,) = json.loads(command("measure", "scores", file, "--json").out)["rows"]
    assert (row["n"], row["lost"], row["mean"]["value"]) == (8, 5, 5 / 8)
    assert (row["mean"]["least"], row["mean"]["most"]) == (0, 1)
    columns = {
        "id": [*range(8), *range(8)],
        "right": [bool(score) for score in scores] * 2,
        "model": ["x"] * 16,
        "epoch": [1] * 8 + [2] * 8,
        "text": [f"t{n // 2}" for n in range(8)] * 2,
    }
    parquet.write_table(pyarrow.table(columns), place / "p.parquet")
    renamed = ("question=id", "score=right", "row=model", "group=text")
    words = [word for name in renamed for word in ("--column", name)]
    (row,) = json.loads(command("measure", "scores", "p.parquet", *words, "--json").out)["rows"]
    assert (row["n"], row["mean"]["value"], row["mean"]["clusters"]) == (8, 5 / 8, 4)
    by = command("measure", "scores", "p.parquet", *words[:6], "--cluster", "text", "--json")
    assert json.loads(by.out)["rows"][0]["mean"] == row["mean"]


@pytest.mark.parametrize(
    ("b", "c", "exact", "mid"),
    [(10, 2, 0.0386, 0.0225), (25, 11, 0.0288, 0.0201), (3, 3, 1, 0.844)],
)
def test_mcnemar_has_the_published_values(place, command, b, c, exact, mid):
    """Fagerland, Lydersen and Laake (2013)."""
    first, second = [1] * b + [0] * c + [1, 1, 0], [0] * b + [1] * c + [1, 1, 0]
    files = written(place / "a.csv", first), written(place / "b.csv", second)
    line, near = contrast(command, *files)["mcnemar"], 5e-5 if c != 3 else 5e-4
    assert (line["first"], line["second"]) == (b, c)
    assert [line["exact_p"], line["mid_p"]] == pytest.approx([exact, mid], abs=near)


def test_mcnemar_needs_outcomes_of_0_and_1_without_groups() -> None:
    ids = [f"q{n}" for n in range(8)]
    values = [0.0, 1.0] * 4
    alone = of_questions(ids, values)
    assert mcnemar(alone, of_questions(ids, values[::-1])) is not None
    assert mcnemar(alone, of_questions(ids, np.array(values) / 2)) is None
    groups = ["g", "g", *[""] * 6]
    assert mcnemar(of_questions(ids, values, groups), of_questions(ids, values, groups)) is None
