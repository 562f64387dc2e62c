"""Judgements from anywhere, against a published experiment (Michael et al. 2023, arXiv:2311.08702).

Known truths. Skipped without its file, which this project does not contain."""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oversight.engine.analysis.scoring.agreement import calibration

FOUND = [folder / "shared/data/nyu2023/judgements.jsonl.xz" for folder in Path(__file__).parents]
FILE = next((file for file in FOUND if file.exists()), None)
published = pytest.mark.skipif(FILE is None, reason="no file of published judgements")


@cache
def lines() -> list[dict[str, Any]]:
    """The online judgements that the paper reports."""
    assert FILE is not None
    with lzma.open(FILE) as file:
        every = map(json.loads, file)
        return [line for line in every if line["in_paper"] and line["mode"] == "online"]


SETTINGS = (("human", "debate"), ("human", "consultancy"), ("ai", "debate"), ("ai", "consultancy"))


@published
def test_calibration_matches_the_published_experiment() -> None:
    printed = zip((0.1175, 0.1535, 0.1610, 0.1358), (0.0649, 0.1317, 0.1348, 0.1076), strict=True)
    for which, (error, over) in zip(SETTINGS, printed, strict=True):
        chosen = [x for x in lines() if (x["debaters"], x["protocol"]) == which]
        p = np.array([max(x["p"]) for x in chosen])
        # As the paper counts: a belief of one half is wrong.
        right = np.array([float(x["p"][x["correct"]] > 0.5) for x in chosen])
        quality = calibration(p, right, np.arange(len(p)))
        assert (quality.error, quality.overconfidence) == pytest.approx((error, over), abs=5e-5)
