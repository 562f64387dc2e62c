"""Every figure of judgement tables against its definition: known truths."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Command
from tests.engine.analysis.test_planted import LOGS, differences
from tools import known
from tools.unpaired import Setting, paired, unpaired

SCORES = {"brier": (known.brier, (-2.0, 0.0)), "log": (known.log, LOGS)}


def settings(score: str) -> list[Setting]:
    about = *SCORES[score], ("group", "judge")
    lines = unpaired()
    return [Setting([x for x in lines if x["setting"] == s], *about) for s in ("debate", "advice")]


@pytest.fixture
def judged(place: Path, command: Command) -> Any:
    """The figures of a command on a table."""

    def figures(lines: list[Any], *words: str) -> dict[str, Any]:
        file = place / "table.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        ran = command(*(file if word == "FILE" else word for word in words), "--json")
        assert ran.code == 0, ran.err
        return dict(json.loads(ran.out))

    return figures


@pytest.mark.parametrize("score", SCORES)
def test_every_figure_of_an_unpaired_table_is_exact(judged: Any, score: str) -> None:
    output = judged(unpaired(), "measure", "judgements", "FILE", "--score", score)
    both = settings(score)
    assert differences([one.row() for one in both], output["rows"]) == []
    assert differences([one.rater() for one in both], output["raters"]) == []
    assert [row["setting"] for row in output["rows"]] == ["debate", "advice"]
    words = ("compare", "FILE", "--contrast", "debate - advice", "--score", score)
    assert differences([both[0].less(both[1])], judged(unpaired(), *words)["contrasts"]) == []


@pytest.mark.parametrize("score", SCORES)
def test_every_figure_of_a_table_of_whole_judgements_is_exact(judged: Any, score: str) -> None:
    output = judged(paired(), "measure", "judgements", "FILE", "--score", score)
    one = Setting(paired(), *SCORES[score], ("group",))
    assert differences([one.row()], output["rows"]) == []
    assert differences([one.rater()], output["raters"]) == []
