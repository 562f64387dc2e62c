"""Protocols as tasks of Inspect, on its mock model."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oversight import Answer, Problem, Question, UsageError, oversight_task
from oversight.protocols import Agent, Consultancy, Debate, LogprobJudge, NaiveJudge, StatedJudge
from oversight.protocols.judges.windowed import Windowed

pytestmark = [pytest.mark.wire, pytest.mark.filterwarnings("ignore")]

AGENT, JUDGE = Agent("role/agent"), StatedJudge("role/judge")
PROBLEMS = [
    Problem(f"p{n}", Question(f"Number {n}?", (Answer("A", "true"), Answer("B", "false"))), (1, -1))
    for n in range(3)
]


def mock(say: Any) -> Any:
    """A model of Inspect's that says what `say` makes of the whole of its prompt."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def answer(input: Any, tools: Any, tool_choice: Any, config: Any) -> Any:
        message = say("\n".join(message.text for message in input))
        output = ModelOutput.from_content("mockllm/model", message)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model("mockllm/model", custom_outputs=answer, memoize=False)


def evaluated(task: Any, folder: Path, **roles: Any) -> Any:
    from inspect_ai import eval

    (log,) = eval(
        task, model=roles["agent"], model_roles=roles, log_dir=str(folder), display="none",
        fail_on_error=False,
    )  # fmt: skip
    return log


def swayed(prompt: str) -> str:
    """.9 for the truth; where a consultant argues for the other answer alone, .4."""
    argued = re.findall(r"I argue for (A|B)", prompt)
    return "A: 40%\nB: 60%" if argued and set(argued) == {"B"} else "A: 90%\nB: 10%"


def arguing(prompt: str) -> str:
    side = re.findall(r"\b(?:answer|for) \(?([AB])\)?", prompt)
    return f"I argue for {side[-1] if side else 'A'}."


@pytest.mark.known_truth
@pytest.mark.parametrize(
    ("protocol", "judge", "asd"),
    [
        # Brier scores of the two worlds: -.08 for the truth, -1.28 for the lie.
        (NaiveJudge(JUDGE), lambda prompt: "A: 80%\nB: 20%", 1.2),
        (Debate(judge=JUDGE, agent=AGENT), lambda prompt: "A: 80%\nB: 20%", 1.2),
        # -.02 for the truth, and -.32 for the lie, of which the judge believes .6.
        (Consultancy(judge=JUDGE, agent=AGENT), swayed, 0.3),
    ],
    ids=["naive", "debate", "consultancy"],
)
def test_agent_score_difference_equals_the_closed_form(protocol, judge, asd, tmp_path):
    """A judge that states fixed probabilities, by the argued answer."""
    task = oversight_task(protocol, PROBLEMS)
    log = evaluated(task, tmp_path, agent=mock(arguing), judge=mock(judge))
    assert log.status == "success", log.error
    assert len(log.samples) == 6
    metrics = log.results.scores[0].metrics
    assert metrics["asd"].value == pytest.approx(asd)
    assert metrics["asd_stderr"].value == pytest.approx(0)


def test_unreadable_world_counts_against_its_agent(tmp_path):
    task = oversight_task(NaiveJudge(JUDGE), PROBLEMS[:1])
    log = evaluated(task, tmp_path, agent=mock(arguing), judge=mock(lambda prompt: "no idea"))
    # Brier -2 in both worlds.
    assert [sample.scores["agent_score"].value for sample in log.samples] == [-2, -2]
    assert log.results.scores[0].metrics["asd"].value == pytest.approx(0)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (Debate(judge=JUDGE, agent=Agent("role/agent", tools=("calculator",))), "the tools of"),
        (Debate(judge=JUDGE, agent=Agent("role/agent", effort="low")), "the effort of"),
        (NaiveJudge(LogprobJudge("role/judge")), "take a stated judge"),
    ],
)
def test_unsupported_settings_are_refused_before_anything_is_sent(protocol, message):
    with pytest.raises(UsageError, match=message):
        oversight_task(protocol, PROBLEMS)


def test_unknown_score_and_missing_problems_are_refused():
    with pytest.raises(UsageError, match="'breir'"):
        oversight_task(NaiveJudge(JUDGE), PROBLEMS, score="breir")
    with pytest.raises(UsageError, match="at least one is required"):
        oversight_task(NaiveJudge(JUDGE), [])
    with pytest.raises(UsageError, match=f"problems: the id '{PROBLEMS[1].id}' stands twice"):
        oversight_task(NaiveJudge(JUDGE), [*PROBLEMS, replace(PROBLEMS[0], id=PROBLEMS[1].id)])
    steps = Windowed(StatedJudge("role/judge", reads_passage=True), 2)
    with pytest.raises(ValueError, match="window: the passage has no steps"):
        oversight_task(NaiveJudge(steps), PROBLEMS)
