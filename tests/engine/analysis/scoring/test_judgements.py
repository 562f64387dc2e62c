"""Judgements from anywhere, against a published experiment (Michael et al. 2023, arXiv:2311.08702).

Known truths. Skipped without its file, which is no part of this project.
"""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oversight.engine.analysis.scoring.asd import Scored, scored
from oversight.engine.analysis.scoring.calibration import calibration
from oversight.engine.analysis.scoring.inference import Influences
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements

FOUND = [each / "shared/data/nyu2023/judgements.jsonl.xz" for each in Path(__file__).parents]
FILE = next((file for file in FOUND if file.exists()), None)
published = pytest.mark.skipif(FILE is None, reason="no file of published judgements")


@cache
def lines() -> list[dict[str, Any]]:
    """The online judgements that the paper reports."""
    assert FILE is not None
    with lzma.open(FILE) as file:
        every = map(json.loads, file)
        return [each for each in every if each["in_paper"] and each["mode"] == "online"]


def judged(line: dict[str, Any]) -> Judgement:
    """One line of the file; answers are known by their digests, in any order."""
    order = sorted(range(2), key=lambda n: line["answers"][n])
    place = {n: at for at, n in enumerate(order)}
    values = tuple(1.0 if n == line["correct"] else -1.0 for n in order)
    probs = tuple(line["p"][n] for n in order)
    everywhere = line["argued"] is None
    worlds: list[tuple[float, ...]] = [(), ()]
    for at in range(2):
        if everywhere or at == place[line["argued"]]:
            worlds[at] = probs
    first = tuple(line["beliefs"][0][n] for n in order)
    clusters = {
        "problem": line["story"],
        "judge": line["judge"],
        "line": f"{line['room']} {line['judge']}",
        "question": line["question"],
        "setting": f"{line['debaters']} {line['protocol']}",
    }
    return Judgement(line["question"], values, tuple(worlds), clusters, first, everywhere)


@cache
def settings() -> dict[str, Judgements]:
    return Judgements.of(map(judged, lines())).by("setting")


def of(debaters: str, protocol: str, score: str = "brier") -> Scored:
    found = scored(settings()[f"{debaters} {protocol}"], score)
    assert found is not None
    return found


def value(of: Influences | None) -> float:
    assert of is not None
    return of.value


SETTINGS = {
    ("human", "debate"): (154, 1.1764, 2.3219, 0.6883, -0.2720, 0.0234, 1.1530),
    ("human", "consultancy"): (96, 0.7422, 1.3091, 0.4896, -0.4134, -0.0075, 0.7497),
    ("ai", "debate"): (87, 1.0156, 2.2427, 0.5632, -0.3662, 0.0046, 1.0110),
    ("ai", "consultancy"): (76, 1.0378, 2.2051, 0.6053, -0.3370, 0.0000, 1.0378),
}
"""n, ASD by Brier, log and accuracy, Brier of the truth, ASD of first beliefs, gain."""


@published
@pytest.mark.parametrize("which", SETTINGS)
def test_a_published_experiment_has_its_published_figures(which: tuple[str, str]) -> None:
    n, brier, log, accuracy, truth, first, gain = SETTINGS[which]
    found = of(*which)
    assert len(found) == n
    assert value(found.asd) == pytest.approx(brier, abs=5e-5)
    assert value(of(*which, "accuracy").asd) == pytest.approx(accuracy, abs=5e-5)
    assert value(found.truth) == pytest.approx(truth, abs=5e-5)
    assert value(found.before) == pytest.approx(first, abs=5e-5)
    assert value(found.gain) == pytest.approx(gain, abs=1e-4)
    assert value(of(*which, "log").asd) == pytest.approx(log, abs=5e-5)


ERRORS = {
    ("human", "debate"): (0.0989, 0.0977, 0.0853, 0.1148, 0.1033),
    ("human", "consultancy"): (0.1338, 0.1396, 0.1363, 0.1544, 0.1565),
    ("ai", "debate"): (0.1510, 0.1517, 0.1239, 0.1463, 0.1182),
    ("ai", "consultancy"): (0.1641, 0.1641, 0.1596, 0.3049, 0.3025),
}
"""CR1 standard errors by single judgement, question, text, judge, and text × judge."""

WAYS = (("line",), ("question",), ("problem",), ("judge",), ("problem", "judge"))


@published
@pytest.mark.parametrize("which", ERRORS)
def test_plain_errors_are_those_of_the_published_experiment(which: tuple[str, str]) -> None:
    asd = of(*which).asd
    assert asd is not None
    errors = [asd.by(*ways).estimate("cr1").error for ways in WAYS]
    assert errors == pytest.approx(list(ERRORS[which]), abs=5e-5)


@published
def test_questions_judged_in_both_worlds_are_paired_by_their_answers() -> None:
    found = [of("human", "consultancy", score).paired for score in ("brier", "log", "accuracy")]
    assert [value(each) for each in found] == pytest.approx([0.5709, 0.9182, 0.45], abs=5e-5)
    assert found[0] is not None and found[0].n == 20
    alone = found[0].psi
    assert float(np.sqrt(20 / 19 * np.square(alone).sum())) == pytest.approx(0.1997, abs=5e-5)
    assert of("ai", "consultancy").paired is None


@published
def test_calibration_is_that_of_the_published_experiment() -> None:
    known = zip((0.1175, 0.1535, 0.1610, 0.1358), (0.0649, 0.1317, 0.1348, 0.1076), strict=True)
    for which, (error, over) in zip(SETTINGS, known, strict=True):
        chosen = [x for x in lines() if (x["debaters"], x["protocol"]) == which]
        p = np.array([max(x["p"]) for x in chosen])
        # As the paper counts: a belief of one half is wrong.
        right = np.array([float(x["p"][x["correct"]] > 0.5) for x in chosen])
        found = calibration(p, right, np.arange(len(p)))
        assert (found.error, found.overconfidence) == pytest.approx((error, over), abs=5e-5)


def test_every_question_in_both_worlds_once_is_the_paired_asd() -> None:
    rng = np.random.default_rng(0)
    every = [
        Judgement(n, (1, -1), ((a, 1 - a), (b, 1 - b)), {"problem": str(n), "judge": "j"})
        for n, (a, b) in enumerate(rng.random((30, 2)).tolist())
    ]
    found = scored(Judgements.of(every), "brier")
    assert found and found.asd and found.paired
    assert found.asd.value == pytest.approx(found.paired.value)
    one, two = found.asd.by("problem").estimate(), found.paired.estimate()
    assert one.interval == pytest.approx(two.interval)
