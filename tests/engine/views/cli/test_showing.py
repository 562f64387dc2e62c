"""`oversight show`: worlds stand abreast where each has the room to be read."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from oversight.engine.extensions.simulation.simulated_call import REASONED
from oversight.engine.run.listing import summarize
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.system.files import let_go, take_lock
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.question import Answer, Problem, Question
from tests.command_line import ROOT, run_in, within
from tests.engine.conftest import Command, Finished
from tests.run_folders import reseal, with_failures

SWEEP = """\
problems: {{file: {count}.jsonl}}
agents: {{model: sim/strong}}
judges: sim/judge
protocols: propaganda
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with runs on a problem of two to six answers, by their number."""
    place = tmp_path_factory.mktemp("runs")
    for count in (2, 3, 4, 6):
        answers = tuple(Answer("ABCDEF"[n], f"{n}") for n in range(count))
        values = (1.0, *[-1.0] * (count - 1))
        problem = Problem("q", Question("How many?", answers), values)
        write_jsonl([problem], place / f"{count}.jsonl")
        assert run_in(place, f"{count}.yaml", SWEEP.format(count=count)).code == 0
    return place


@pytest.mark.parametrize(
    "words",
    [
        "report {run}", "compare {run} --pairs all", "measure calibration {run}",
        "measure frontier {run}", "show {run} --search answer", "export plot {run} --data -",
        "export tables {run} --format csv -o tables --no-replies",
        "export pack {run} --no-store -o x.oversight",
        pytest.param("view {run} --write site --transcripts 0", marks=pytest.mark.wire),
    ],
)  # fmt: skip
def test_large_run_is_announced_before_it_is_read(
    runs: Path, place: Path, command: Command, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr("oversight.engine.run.reader.LARGE", 1)
    run = min((runs / "runs").iterdir())
    done = command(*words.format(run=run).split())
    # `compare` finds one row alone, which it reads first.
    code = 2 if words.startswith("compare") else 0
    assert (done.code, f" cells of {run}" in done.err.splitlines()[0]) == (code, True)


@pytest.mark.wire
@pytest.mark.parametrize("code_page", ["cp1252", "cp437", "ascii"])
def test_character_that_the_terminal_lacks_is_replaced(runs: Path, code_page: str) -> None:
    run = next((runs / "runs").iterdir())
    problem = json.dumps({"id": "q", "question": "−5 °C → Zoë 数 🙂"}).encode()

    def printed(*words: str) -> bytes:
        line = [sys.executable, "-m", "oversight", *words]
        environment = {**os.environ, "PYTHONIOENCODING": code_page, "PYTHONPATH": str(ROOT)}
        process = subprocess.run(line, cwd=runs, env=environment, capture_output=True, check=False)
        assert (process.returncode, b"Traceback" in process.stderr) == (0, False), process.stderr
        return process.stdout

    assert printed("show", str(run), "q") and "cell" in printed("status").decode(code_page)
    (runs / "signs.jsonl").write_bytes(
        problem[:-1] + b', "answers": [{"label": "A", "text": "\xe2\x88\x925", "value": 1}, '
        b'{"label": "B", "text": "6", "value": -1}]}\n'
    )
    (runs / "signs.yaml").write_text(SWEEP.format(count="signs"))
    printed("run", "signs.yaml")
    document = json.loads(printed("show", "signs.yaml", "q", "--json").decode(code_page))
    assert document["question"] == "−5 °C → Zoë 数 🙂"


def test_private_reasoning_before_a_form_is_shown(place, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (place / "s.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 1}}\n"
        "agents: {model: sim/strong, reason: private}\n"
        "judges: sim/judge\nprotocols: [proposer_critic, doubly_efficient_debate]\n"
    )
    assert command("run", "s.yaml").code == 0
    heard_of = command("show", "s.yaml", "--protocol", "doubly").out
    assert f" (in private: {REASONED[:20]}" in heard_of and "(aloud: " not in heard_of
    unheard = ("show", "s.yaml", "--protocol", "critic")
    transcripts = command(*unheard)
    assert transcripts.out.count(f"(in private: {REASONED[:20]}") == 2
    assert transcripts.out.count('{"answer":"') == 2
    worlds = json.loads(command(*unheard, "--json").out)["worlds"].values()
    thoughts = [thought for world in worlds for thought in world["thoughts"]]
    assert [(t["form"], t["reasoning"]) for t in thoughts] == [("choice", REASONED)] * 2
    turn_calls = {turn["call"] for world in worlds for turn in world["turns"]}
    assert not turn_calls & {thought["call"] for thought in thoughts}


@pytest.mark.parametrize(
    ("columns", "count", "abreast"),
    [
        (60, 2, [1, 1]), (80, 2, [2]), (80, 3, [2, 1]), (80, 4, [2, 2]), (120, 3, [2, 1]),
        (122, 3, [3]), (122, 4, [2, 2]), (170, 6, [3, 3]),
    ],
)  # fmt: skip
def test_columns_hold_as_many_worlds_as_can_be_read(runs, columns, count, abreast):
    command = within("show", f"{count}.yaml", cwd=runs, COLUMNS=str(columns))
    assert command.code == 0
    lines = command.out.splitlines()
    heads = [line.count("the agent argues (") for line in lines]
    assert [head for head in heads if head] == abreast and max(map(len, lines)) <= columns
    scores = [line.count("agent score (brier)") for line in lines]
    assert [score for score in scores if score] == abreast
    places = {line.index("world ", 1) for line in lines if line.count("the agent argues (") > 1}
    assert len(places) <= 1, "worlds below one another begin in one column"


def test_a_run_whose_lock_is_held_is_running(finished: Finished, command: Command) -> None:
    lock = take_lock(finished.folder)
    try:
        assert " running " in command("status").out
        (status,) = json.loads(command("status", "--json").out)
    finally:
        let_go(finished.folder, lock)
    assert status["running"].startswith(f"pid {os.getpid()}, since ")
    assert " finished " in command("status").out


def test_failed_cells_count_as_finished(finished: Finished) -> None:
    with_failures(finished.folder, "unreadable", {0, 7, 39})
    summary = summarize(finished.folder)
    assert (summary.finished, summary.failed) == (40, 3)


@pytest.mark.parametrize(
    ("model", "came", "shown"),
    [
        ("compatible/lab/odd", "live http://127.0.0.1:8000/v1", "own server"),
        ("compatible/lab/odd", "batch http://[::1]:8000", "own server"),
        ("openai/gpt-4o", "live http://localhost:9/v1", "own server"),
        ("vllm/m", "live http://10.2.3.4/v1", "own server"),
        ("openai/gpt-4o", "live https://api.openai.com/v1", "real"),
        ("openai/gpt-4o", "imported", "real"),
        ("openai/gpt-4o", "live http://[bad", "real"),
        ("sim/strong", "", "simulated"),
    ],
)
def test_status_tells_own_servers_from_vendors(finished, command, model, came, shown):
    with closing(RunDatabase(finished.folder)) as database:
        database.db.execute("UPDATE endpoints SET model = ?, came = ?", (model, came))
        reseal(database, "endpoints")
    assert summarize(finished.folder).models == shown
    listed = " ".join(command("status").out.split())
    assert f" finished {shown} " in listed if shown != "real" else " finished 40/40 " in listed
