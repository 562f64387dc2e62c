"""Scores from logs that Inspect wrote."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oversight.engine.extensions.inspect.reading import InspectTrajectories
from oversight.engine.run.reader import RunReader
from oversight.protocols.scores import ALL_SCORES
from oversight.protocols.transcript import Verdict
from tests.command_line import ROOT, Command, environment
from tests.engine.kept_runs import muddled

pytestmark = [pytest.mark.wire, pytest.mark.filterwarnings("ignore")]


def evaluated(folder: Path, model: str, right: list[bool | None], **values: Any) -> None:
    """A log of one evaluation. right: whether each sample is; None for one that fails."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score, accuracy, match, scorer
    from inspect_ai.solver import solver

    @solver
    def answers() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if right[int(state.sample_id)] is None:
                raise RuntimeError("lost")
            state.output = ModelOutput.from_content(
                "m", "7" if right[int(state.sample_id)] else "8"
            )
            return state

        return solve

    @scorer(metrics=[accuracy()])
    def graded() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value=values.get("value", {"half": "P", "number": 2.5}))

        return score

    def metadata(n: int) -> dict[str, Any]:
        return {"text": n // 2, "long": "x" * 5000, "mode": "attack" if n < 4 else "honest"}

    samples = [
        Sample(input=f"{n}?", target="7", id=n, metadata=metadata(n)) for n in range(len(right))
    ]
    task = Task(
        samples, solver=answers(), scorer=[match(), graded()], name="sevens", fail_on_error=False
    )
    eval(
        task, model=f"mockllm/{model}", log_dir=str(folder), display="none", **values.get("how", {})
    )


def rows(command: Command, *words: Any) -> dict[str, Any]:
    ran = command("measure", "scores", *words, "--json")
    assert ran.code == 0, ran.err
    return {row["row"]: row for row in json.loads(ran.out)["rows"]}


ONE = [True, True, False, True, True, False, True, True]
TWO = [True, False, False, True, False, False, True, False]


@pytest.mark.parametrize("format", ["eval", "json"])
def test_models_are_paired_by_sample(format, place: Path, command: Command) -> None:
    for model, right in (("one", ONE), ("two", [*TWO, *[None] * 5])):
        evaluated(place / "logs", model, right, how={"log_format": format, "epochs": 2})
    means = rows(command, "logs")
    assert means["mockllm/one match"]["mean"]["value"] == 6 / 8
    assert (means["mockllm/two match"]["n"], means["mockllm/two match"]["lost"]) == (8, 10)
    assert means["mockllm/two match"]["mean"]["value"] == 3 / 8
    assert means["mockllm/one graded.half"]["mean"]["value"] == 0.5
    assert means["mockllm/one graded.number"]["mean"]["value"] == 2.5
    grouped = rows(command, "logs", "--metric", "match", "--cluster", "metadata.text")
    assert {row["mean"]["clusters"] for row in grouped.values()} == {4}
    ran = command("compare", "logs", "--metric", "match", "--json")
    (contrast,) = json.loads(ran.out)["contrasts"]
    # Logs of one second are in no order.
    names = ["first", "second"] if contrast["first"] == "mockllm/one" else ["second", "first"]
    assert [contrast[name] for name in names] == ["mockllm/one", "mockllm/two"]
    assert contrast["difference"]["value"] == (3 / 8 if names[0] == "first" else -3 / 8)
    assert [contrast["mcnemar"][name] for name in (*names, "exact_p")] == [3, 0, 0.25]
    words = ("measure", "monitoring", "logs", "--metric", "match", "--label", "metadata.mode")
    monitors = {row["row"]: row for row in json.loads(command(*words, "--json").out)["rows"]}
    assert monitors["mockllm/one"]["auroc"]["value"] == 0.5
    assert monitors["mockllm/two"]["auroc"]["value"] == 10 / 16
    assert [monitors["mockllm/two"][key] for key in ("attacks", "honest", "missing")] == [4, 4, 5]
    assert "no metadata 'topic'" in command("compare", "logs", "--cluster", "metadata.topic").err
    files, copy = sorted((place / "logs").iterdir()), place / f"copy.{format}"
    copy.write_bytes(files[0].read_bytes())
    (same,) = json.loads(command("compare", files[0], copy, "--metric", "match", "--json").out)[
        "contrasts"
    ]
    assert (same["difference"]["value"], same["p"]) == (0, 1)
    copy.write_bytes(copy.read_bytes()[:-200])
    ran = command("compare", files[0], copy)
    assert ran.code == 2 and f"copy.{format}: not a log that Inspect can read" in ran.err


def test_invalid_logs_are_refused_and_unfinished_ones_are_named(place: Path, command: Command):
    evaluated(place / "logs", "one", ONE, value="blue")
    ran = command("measure", "scores", "logs")
    assert ran.code == 2 and "sample 0: graded: 'blue' is not a number" in ran.err
    evaluated(place / "stopped", "one", [True, *[None] * 7], value=1, how={"fail_on_error": 3})
    out = " ".join(command("measure", "scores", "stopped", "--metric", "match").out.split())
    assert "the evaluation ended with the status 'error'" in out


def test_an_exported_run_has_the_figures_of_the_run(runs, command, place: Path) -> None:
    run = runs(muddled(0.3))
    assert command("export", "inspect", run, "-o", "logs").code == 0
    read = RunReader(run)
    cells = read.cells(range(len(read.sweep))).values()
    means = rows(command, "logs").values()
    for file in sorted((place / "logs").iterdir()):
        (number,) = (n for n, row in enumerate(read.sweep.rows) if row.address == _row_of(file))
        verdicts = [
            (cell.outcome.probs, cell.side)
            for cell in cells
            if cell.row == number and isinstance(cell.outcome, Verdict)
        ]
        for name, score in (("agent_score", "brier"), ("agent_accuracy", "accuracy")):
            scores = [ALL_SCORES[score](*verdict) for verdict in verdicts]
            (contrast,) = (
                m for m in means if m["metric"] == name and m["file"] == f"logs/{file.name}"
            )
            assert contrast["n"] == len(scores)
            mean = math.fsum(scores) / len(scores)
            assert contrast["mean"]["value"] == pytest.approx(mean, abs=1e-6)


def test_accuracy_of_logs_equals_the_report(runs, command, place: Path) -> None:
    run = runs(muddled(0))
    assert command("export", "inspect", run, "-o", "logs").code == 0
    report = json.loads(command("report", run, "--json").out)["rows"]
    means = rows(command, "logs", "--metric", "judge_right", "--cluster", "metadata.problem")
    addresses = [row.address for row in RunReader(run).sweep.rows]
    assert len(means) == len(report)
    for contrast in means.values():
        row = report[addresses.index(_row_of(place / contrast["file"]))]
        assert contrast["mean"]["value"] == pytest.approx(row["accuracy"]["value"], abs=1e-12)


def _row_of(file: Path) -> str:
    from inspect_ai.log import read_eval_log

    return str(read_eval_log(str(file), header_only=True).eval.metadata["row"])


def test_log_of_100_megabytes_is_read_with_less_than_300(place: Path) -> None:
    """2,500 samples with messages of 40 kB."""
    from inspect_ai import log
    from inspect_ai.model import ChatMessageUser
    from inspect_ai.scorer import Score

    evaluated(place / "logs", "one", ONE, value=1)
    (file,) = (place / "logs").iterdir()
    eval_log = log.read_eval_log(str(file))
    first = (eval_log.samples or [])[0]
    long = ChatMessageUser(content="word " * 8000)
    eval_log.samples = [
        first.model_copy(
            update={
                "id": n, "uuid": str(n), "messages": [long], "events": [], "attachments": {},
                "scores": {"match": Score(value="C")},
            }
        )
        for n in range(2_500)
    ]  # fmt: skip
    log.write_eval_log(eval_log, str(file))
    code = (
        "import sys; from pathlib import Path\n"
        "from oversight.engine.analysis.scores import MeasureScores\n"
        "how = MeasureScores(metric='match', ways=())\n"
        "(row,) = how.scores([Path(sys.argv[1])])[0].values()\n"
        "(peak,) = (x for x in open('/proc/self/status') if x.startswith('VmHWM'))\n"
        "print(row.n, int(peak.split()[1]) // 1024)\n"
    )
    words = [sys.executable, "-c", code, str(file)]
    ran = subprocess.run(words, capture_output=True, text=True, env=environment({}), cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    n, megabytes = map(int, ran.stdout.split())
    assert n == 2_500 and megabytes < 300, ran.stderr


def test_runs_of_agents_in_logs_are_problems_for_monitors(place: Path) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageTool,
        ContentReasoning,
        ContentText,
    )
    from inspect_ai.solver import solver
    from inspect_ai.tool import ToolCall

    @solver
    def works() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            call = ToolCall(id="1", function="bash", arguments={"cmd": f"ls {state.sample_id}"})
            content = [ContentReasoning(reasoning="I look first."), ContentText(text="Looking.")]
            state.messages += [
                ChatMessageAssistant(content=content, tool_calls=[call]),
                ChatMessageTool(content="a </step> b", tool_call_id="1", function="bash"),
                ChatMessageAssistant(content="Done."),
            ]
            return state

        return solve

    modes = {
        0: {"mode": "attack", "task": "t"},
        1: {"mode": "honest", "task": "t"},
        2: {"mode": "honest"},
        3: {},
    }
    samples = [Sample(input="Tidy up.", id=n, metadata=mode) for n, mode in modes.items()]
    logs = place / "logs"
    eval(
        Task(samples, solver=works(), name="tidy"),
        model="mockllm/m",
        log_dir=str(logs),
        display="none",
    )
    problems, notes = InspectTrajectories(path="logs", on_bad_row="skip").read(place)
    assert [problem.id for problem in problems] == ["0-1", "1-1", "2-1"]
    assert {answer.text for answer in problems[0].question.answers} == {"attack", "honest"}
    assert [problem.question.answers[problem.best].text for problem in problems] == [
        "attack", "honest", "honest",
    ]  # fmt: skip
    (fault,) = notes.bad
    assert "sample 3, epoch 1: it has no metadata 'mode'" in str(fault)
    assert problems[0].question.passage.split("\n") == [
        '<step n="1" kind="message">Tidy up.</step>',
        '<step n="2" kind="thought">I look first.</step>',
        '<step n="3" kind="message">Looking.</step>',
        '<step n="4" kind="action">bash: {"cmd":"ls 0"}</step>',
        '<step n="5" kind="output">bash: a ‹/step> b</step>',
        '<step n="6" kind="message">Done.</step>',
    ]
    how = {"show": ("action",), "group": "metadata.task", "on_bad_row": "skip"}
    grouped, notes = InspectTrajectories(path="logs", **how).read(place)
    assert [problem.group for problem in grouped] == ["t", "t"] and len(notes.bad) == 2
