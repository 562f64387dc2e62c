"""Figures of judgement tables against truths that `tools/unpaired.py` finds without our code."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Command

TABLES = json.loads(Path(__file__).with_name("unpaired.json").read_text())
TRUTHS = TABLES["truths"]


@pytest.fixture
def judged(place: Path, command: Command) -> Any:
    """The figures of a command on one of the tables."""

    def figures(name: str, *words: str) -> dict[str, Any]:
        file = place / f"{name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in TABLES[name]))
        ran = command(*(file if word == "FILE" else word for word in words), "--json")
        assert ran.code == 0, ran.err
        return dict(json.loads(ran.out))

    return figures


def test_unpaired_asd_has_exact_error_degrees_and_interval(judged: Any) -> None:
    words = ("measure", "judgements", "FILE", "--score", "brier")
    rows = {row["setting"]: row for row in judged("unpaired", *words)["rows"]}
    assert {name: (row["n"], row["lost"]) for name, row in rows.items()} == {
        "debate": (22, 2),
        "advice": (23, 1),
    }
    for name, row in rows.items():
        assert {key: row["asd"][key] for key in TRUTHS[name]} == pytest.approx(TRUTHS[name])


def test_contrast_of_unpaired_settings_is_exact(judged: Any) -> None:
    words = ("compare", "FILE", "--contrast", "debate - advice")
    (contrast,) = judged("unpaired", *words)["contrasts"]
    truth = TRUTHS["contrast"]
    assert {key: contrast["difference"][key] for key in truth} == pytest.approx(truth)
    assert contrast["n"] == 45


def test_free_agents_and_calibration_are_exact(judged: Any) -> None:
    output = judged("paired", "measure", "judgements", "FILE", "--score", "brier")
    (row,), (rater,) = output["rows"], output["raters"]
    figures = {name: chosen["value"] for name, chosen in row["chosen"].items()}
    figures |= {key: rater["calibration"][key] for key in ("error", "debiased_error")}
    assert figures == pytest.approx(TRUTHS["paired"])
