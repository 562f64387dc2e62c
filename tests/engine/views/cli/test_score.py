import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Command, Ran, within

ONE: dict[str, Any] = {
    "id": "q1",
    "values": {"A": 1, "B": -1},
    "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}},
}


@pytest.fixture
def score(tmp_path: Path) -> Command:
    """Runs `oversight measure judgements` on rows."""

    def run(rows: list[dict[str, Any]], *flags: str) -> Ran:
        (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return within("measure", "judgements", "verdicts.jsonl", *flags, cwd=tmp_path)

    return run


def plain(ran: Ran) -> Any:
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def of(scores: Any, score: str) -> Any:
    """The row of a score."""
    (row,) = [row for row in scores["rows"] if row["score"] == score]
    return row


def near(value: Any) -> Any:
    """`value` with every number taken to 1e-9."""
    if isinstance(value, dict):
        return {key: near(inner) for key, inner in value.items()}
    return pytest.approx(value, abs=1e-9) if isinstance(value, float) else value


def test_json_has_every_measure_of_a_question(score: Command) -> None:
    scores = plain(score([ONE], "--json"))
    a, b = 0.8 / 1.4, 0.6 / 1.4
    ln = math.log
    expected = {
        "log": {
            "asd": ln(0.8) - ln(0.6),
            "jse": {"0": ln(0.8), "1": a * ln(0.8) + b * ln(0.4), "inf": ln(0.32) / 2},
            "eas": {"0": ln(0.8), "1": a * ln(0.8) + b * ln(0.6), "inf": ln(0.48) / 2},
        },
        "brier": {
            "asd": 0.24,
            "jse": {"0": -0.08, "1": a * -0.08 + b * -0.72, "inf": -0.4},
            "eas": {"0": -0.08, "1": a * -0.08 + b * -0.32, "inf": -0.2},
        },
        "logodds": {
            "asd": ln(4) - ln(1.5),
            "jse": {"0": ln(4), "1": a * ln(4) - b * ln(1.5), "inf": (ln(4) - ln(1.5)) / 2},
            "eas": {"0": ln(4), "1": a * ln(4) + b * ln(1.5), "inf": ln(6) / 2},
        },
        "accuracy": {
            "asd": 0.0,
            "jse": {"0": 1.0, "1": a, "inf": 0.5},
            "eas": {"0": 1.0, "1": 1.0, "inf": 1.0},
        },
    }
    assert scores["questions"] == [{"id": "q1", **near(expected)}]
    brier = of(scores, "brier")
    assert brier["asd"]["value"] == pytest.approx(0.24)
    assert brier["chosen"]["EAS 1"]["value"] == near(expected["brier"]["eas"]["1"])


def test_questions_of_one_group_are_one_cluster(score: Command) -> None:
    rows = [{**ONE, "id": f"{n}", "group": f"text {n // 4}"} for n in range(12)]
    asd = of(plain(score(rows, "--json")), "brier")["asd"]
    assert (asd["n"], asd["clusters"]) == (12, 3)


@pytest.mark.wire
def test_scoring_to_json_imports_no_terminal_tables_and_no_model_client() -> None:
    code = (
        "import sys, oversight.engine.views.cli.group\n"
        "oversight.engine.views.cli.group.oversight.main("
        "['measure', 'judgements', '-', '--json'], standalone_mode=False)\n"
        "print(sorted({'scipy', 'rich', 'openai', 'anthropic', 'aiohttp'} & set(sys.modules)),"
        " file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(ONE), capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr.strip()) == (0, "[]")
    assert json.loads(ran.stdout)["questions"][0]["id"] == "q1"
