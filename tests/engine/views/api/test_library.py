import asyncio
import json
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oversight import Sweep, compare, open_run, run, run_async
from oversight.cache.call import Ask
from oversight.engine.errors import Interrupted, QuotaExhausted, RunFolderError, UsageError
from oversight.engine.run.folders import read_manifest
from oversight.engine.run.replay import open_run as loaded_run
from oversight.engine.sweep.in_python import python_sweep
from oversight.engine.sweep.sweepfile import Top
from oversight.engine.views.cli.group import oversight
from oversight.protocols import (
    Agent,
    Answer,
    BestOf,
    Conversation,
    Debate,
    LogprobJudge,
    NaiveJudge,
    Propaganda,
    Speaker,
    StatedJudge,
    Transcript,
)
from tests.run_folders import outcomes
from tests.sessions import sessions
from tests.tables import PUBLIC, expressions
from tests.world import THREE, shipments

JUDGE, AGENT = StatedJudge("sim/judge"), Agent("sim/strong")
NAIVE, PROPAGANDA = NaiveJudge(JUDGE), Propaganda(JUDGE, AGENT)
questions_asked: list[str] = []
"""Questions that the protocol below was asked since the test began."""
faults: dict[str, Exception] = {}
"""Errors that it raises, by the label of the side."""


class Pressed(Exception):
    """Stands for a press of Ctrl-C."""


@dataclass(frozen=True)
class Overheard(Conversation):
    """The agent speaks twice, and tests see the questions."""

    agent: Speaker

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        questions_asked.append(transcript.question.text)
        if side.label in faults:
            if isinstance(faults[side.label], Pressed):
                signal.raise_signal(signal.SIGINT)
            else:
                raise faults[side.label]
        for _ in range(2):
            transcript = transcript.then(await self.agent.speak(transcript, side, ask))
        return transcript


@pytest.fixture(autouse=True)
def no_questions_or_faults(place: Path) -> Iterator[None]:
    """Each test has its working folder and store, and an empty record of questions and faults."""
    yield
    questions_asked.clear()
    faults.clear()


@pytest.fixture(scope="module")
def debated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one debate."""
    place = tmp_path_factory.mktemp("debated")
    return run([Debate(JUDGE, AGENT)], shipments(1), folder=place / "run", store=place).folder


def test_user_protocols_run_resume_and_are_reported() -> None:
    protocols = [NAIVE, Overheard(JUDGE, AGENT)]
    first = run(protocols, shipments(3), name="mine")
    assert first.stopped is None
    # The first cells of a row are composed twice.
    assert (once := len(questions_asked)) >= 6 and first.folder.parent == Path("runs")
    assert first.folder.name.startswith("mine-")
    rows = json.loads(first.table("json"))["rows"]
    assert [row["protocol"] for row in rows] == ["naive judge", "overheard"]
    assert [row["n"] for row in rows] == [3, 3]
    assert (first.folder / "report" / "report.txt").read_text() == first.table() + "\n"
    again = run(protocols, shipments(3), name="mine")
    assert len(questions_asked) == once, "a cell that has an outcome is not run again"
    assert (again.folder, again.table()) == (first.folder, first.table())
    with pytest.raises(RunFolderError, match="made from a different sweep"):
        run([PROPAGANDA], shipments(1), folder=first.folder)


def test_draws_and_scores_are_parameters() -> None:
    report = run([NAIVE], shipments(2), draws=3, score="log", models={"sim/judge": {"noise": 2.0}})
    assert report.results.score == "log" and report.results.rows[0].cells == 12
    assert {record.draw for record in outcomes(report.folder)} == {0, 1, 2}


def test_running_loop_is_refused_with_the_async_call() -> None:
    async def notebook() -> Any:
        with pytest.raises(RuntimeError, match="await run_async"):
            run([NAIVE], shipments(1))
        assert (await run_async([NAIVE], shipments(1))).stopped is None
        sweep = Sweep.from_yaml("s.yaml", limit=1)
        with pytest.raises(RuntimeError, match=r"await sweep\.run_async"):
            sweep.run()
        return await sweep.run_async(max_cost=5.0)

    Path("s.yaml").write_text(
        "problems: {bundled: arithmetic}\njudges: sim/judge\nprotocols: naive_judge\n"
    )
    assert asyncio.run(notebook()).stopped is None


@sessions(Path(__file__).with_name("refusals.md"))
def test_invalid_arguments_are_refused_before_anything_runs(session, request, place):
    session.check(request, expressions(PUBLIC | globals() | {"THREE": THREE}))
    assert not (place / "runs").exists()


def test_same_call_resumes_after_a_halt() -> None:
    faults["B"] = QuotaExhausted("no credit")
    protocols = [Overheard(JUDGE, AGENT)]
    stopped = run(protocols, shipments(2), max_cells=1)
    assert stopped.stopped is faults["B"] and stopped.results.missing == 3
    assert "have not been run yet" in stopped.table()
    faults.clear()
    complete = run(protocols, shipments(2))
    assert (complete.stopped, complete.results.missing) == (None, 0)
    assert complete.folder == stopped.folder


def test_crashed_cells_fail_and_are_retried_on_the_next_call() -> None:
    faults["A"] = ZeroDivisionError("a bug")
    protocols = [Overheard(JUDGE, AGENT)]
    broken = run(protocols, shipments(2))
    (row,) = broken.results.rows
    assert (row.n, row.failed, dict(row.failures)) == (0, 2, {"crashed": 2})
    faults.clear()
    fixed = run(protocols, shipments(2))
    assert (fixed.results.rows[0].n, fixed.results.failed) == (2, 0)
    assert fixed.folder == broken.folder


def test_commands_open_a_run_of_built_in_protocols() -> None:
    judge = LogprobJudge("sim/judge")
    agent = Agent("sim/strong", tools=("calculator",), temperature=1.0)
    protocols = [NAIVE, Debate(judge, agent, rounds=1), Propaganda(judge, BestOf(2, agent, judge))]
    report = run(protocols, shipments(1), draws=2, models={"sim/judge": {"noise": 2.0}})
    again = loaded_run(report.folder)
    assert again.file.protocols == tuple(protocols)
    assert again.sweep.identity == read_manifest(report.folder).identity
    reported = CliRunner().invoke(oversight, ["report", report.folder.name])
    assert reported.stdout == report.table() + "\n"
    debate = CliRunner().invoke(oversight, ["show", str(report.folder), "--protocol", "debate"])
    assert debate.stdout == str(report.read("shipment-0", protocol="debate", width=80))
    replayed = CliRunner().invoke(oversight, ["replay", report.folder.name])
    assert "12 of 12 outcomes are equal to the byte" in replayed.stderr
    refused = CliRunner().invoke(oversight, ["replay", report.folder.name, "--set", "draws=1"])
    assert "was made from Python; set it there" in str(refused.exception)


def test_run_of_a_user_protocol_is_opened_and_compared_by_its_name() -> None:
    report = run([NAIVE, Overheard(JUDGE, AGENT)], shipments(4), name="mine")
    questions_asked.clear()
    again = open_run("mine")
    assert (again.table(), again.folder) == (report.table(), report.folder)
    assert questions_asked == [], "what is opened runs no code"
    assert again.reader.problems == report.reader.problems
    compared = compare("mine", contrasts=["overheard - naive judge"])
    assert str(compared) == str(compare(report, contrasts=["overheard - naive judge"]))
    with pytest.raises(RunFolderError, match="no run folder in runs"):
        open_run("yours")
    message = r"was made from Python, and Overheard is defined in your own .*test_library: call run"
    with pytest.raises(RunFolderError, match=message):
        loaded_run(report.folder)


def test_sweep_file_gives_the_same_report_in_python_and_by_command(place: Path) -> None:
    (place / "s.yaml").write_text(
        "problems: {bundled: arithmetic}\njudges: sim/judge\nagents: sim/strong\n"
        "protocols: [naive_judge, {debate: {rounds: 3}}]\n"
    )
    sweep = Sweep.from_yaml("s.yaml", set=["protocols.debate.rounds=1"], limit=3)
    assert [row.name for row in sweep.protocols] == ["naive judge", "debate simultaneous 1 round"]
    report = sweep.run(score="log")
    assert report.results.score == "log"
    command = ["run", "s.yaml", "--set", "protocols.debate.rounds=1", "--limit", "3"]
    again = CliRunner().invoke(oversight, [*command, "--score", "log"])
    assert again.stdout == report.table() + "\n"
    with pytest.raises(UsageError, match="did you mean 'arithmetic'"):
        Sweep.from_yaml("s.yaml", set=["problems.bundled=arithmetics"])


def test_report_says_that_ctrl_c_stopped_the_run() -> None:
    heard_before = signal.getsignal(signal.SIGINT)
    faults["B"] = Pressed("ctrl-c")
    stopped = run([Overheard(JUDGE, AGENT)], shipments(3), max_cells=1)
    assert isinstance(stopped.stopped, Interrupted)
    assert str(stopped).startswith("stopped: Ctrl-C; the same call goes on with it")
    assert stopped.results.missing > 0 and signal.getsignal(signal.SIGINT) is heard_before
    faults.clear()
    assert run([Overheard(JUDGE, AGENT)], shipments(3)).stopped is None


def test_default_temperature_is_not_sent_to_models_that_take_none() -> None:
    model = "openai/gpt-6-sol"
    protocols = [Debate(StatedJudge(model), BestOf(2, Agent(model), StatedJudge(model)))]
    (debate,) = python_sweep(Top("x"), shipments(1), protocols, {}, {}).protocols
    assert isinstance(debate, Debate) and isinstance(debate.agent, BestOf)
    roles = (debate.judge, debate.agent, debate.agent.agent, debate.agent.judge)
    assert [getattr(role, "temperature") for role in roles] == [None] * 4  # noqa: B009
    for settings, default_stays in (
        ({"model": "openai/gpt-6-luna", "effort": "none"}, True),
        ({"model": "openai/gpt-6-luna", "effort": "low"}, False),
        ({"model": "anthropic/claude-haiku-4-5"}, True),
        ({"model": "anthropic/claude-haiku-4-5", "top_p": 0.9}, False),
        ({"model": "anthropic/claude-haiku-4-5", "thinking_tokens": 2048}, False),
        ({"model": "deepseek/deepseek-flash", "effort": "high"}, False),
        ({"model": "sim/strong", "effort": "high"}, True),
    ):
        protocol = Propaganda(StatedJudge(**settings), Agent(**settings))
        (sent,) = python_sweep(Top("x"), shipments(1), [protocol], {}, {}).protocols
        as_made = sent.judge == protocol.judge, sent.agent == protocol.agent
        assert as_made == (default_stays, default_stays), settings
    renamed, azure = Propaganda(JUDGE, Agent("azure/mine")), {"azure": {"base_url": "https://a.b"}}
    for meant, temperature in (("openai/gpt-6-sol", None), ("openai/gpt-4.1", AGENT.temperature)):
        models = {"azure/mine": {"is": meant}}
        (sent,) = python_sweep(Top("x"), shipments(1), [renamed], models, azure).protocols
        assert sent.agent.temperature == temperature
    cooler = python_sweep(Top("x"), shipments(1), [Propaganda(JUDGE, Agent(model, 0.7))], {}, {})
    assert cooler.protocols == (Propaganda(JUDGE, Agent(model, 0.7)),)


@pytest.mark.parametrize(
    ("was", "is_now"),
    [
        ('"protocols:Debate"', '"protocols:DebaTe"'),
        ('"protocols:Debate"', '"protocols:agents"'),
        ('"protocols:Debate"', '"os:system"'),
        ('"rounds": 2', '"rounds": 0'),
        ('"rounds": 2', '"rundes": 2'),
        ('"draws": 1', '"draws": 0'),
        ("(?s).*", "# This run was started from Python, long ago.\n"),
    ],
)
def test_damaged_sweep_from_python_is_refused(debated, place, was, is_now):
    shutil.copytree(debated, place / "run")
    file = place / "run" / "sweep.yaml"
    text, changes = re.subn(was, is_now, file.read_text(), count=1)
    assert changes
    file.write_text(text)
    with pytest.raises(RunFolderError, match="made from Python, and "):
        loaded_run(place / "run")


def test_progress_is_shown_unless_the_run_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    run([NAIVE], shipments(1), quiet=True)
    assert capsys.readouterr() == ("", "")
    run([NAIVE], shipments(2))
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("· 4 of 4 cells · ")


def test_transcripts_of_a_run_are_shown() -> None:
    report = run([NAIVE, Overheard(JUDGE, AGENT), PROPAGANDA], shipments(2), draws=2)
    fullest = str(report.read("shipment-1", width=120))
    assert fullest.startswith(
        "shipment-1 · overheard · agent sim/strong · judge sim/judge stated\n"
    )
    assert "world A: the agent argues (A)" in fullest and fullest.count("agent score (brier)") == 2
    cell = next(outcome for outcome in outcomes(report.folder) if outcome.draw == 1)
    assert str(report.read(cell.cell)).startswith(f"{cell.problem} · {cell.protocol} · ")
    first, second = (report.read("shipment-0", protocol="prop", draw=n) for n in range(2))
    assert str(first) != str(second)
    with pytest.raises(UsageError, match="'shipment-7' is neither a problem nor a cell of runs/"):
        report.read("shipment-7")

    async def notebook() -> str:
        return str(report.read("shipment-1", width=120))

    assert asyncio.run(notebook()) == fullest
