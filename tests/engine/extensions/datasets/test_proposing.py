"""`oversight dataset propose`: graded files, bad input, stops and resumes."""

import asyncio
import json
from hashlib import sha256 as sha256_of
from pathlib import Path
from typing import Any

import pytest

from oversight.cache.cache import Cache
from oversight.cache.reply import Reply
from oversight.cache.store import MemoryStore
from oversight.engine.errors import InvalidRequest, ProviderDown, UsageError
from oversight.engine.extensions.datasets import proposing
from oversight.engine.extensions.datasets.proposing import (
    Production,
    ProposeSettings,
    _counts,
    production,
    require_abilities,
)
from oversight.engine.stop import StopToken
from oversight.protocols import Agent, JsonLines
from oversight.protocols.datasets.checkers import Checker, Grade
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.datasets.leak import leakage_check
from oversight.protocols.datasets.open_tasks import (
    Graded,
    OpenQuestion,
    Proposal,
    Task,
    accept_or_reject,
    check_references,
    compose,
    instruction_of,
    pairs,
    read_tasks,
)
from oversight.protocols.question import balanced
from oversight.protocols.transcript import Failure
from tests.command_line import Command, calls
from tests.fakes import Scripted, prompt

CHECK = """
def check(task, answer):
    return None if task["id"] == "lost" else sum(map(ord, answer)) % 2 == 0
"""
TASKS = [{"id": f"t{n}", "question": f"How many are {n} and {n}?", "answer": n} for n in range(6)]


@pytest.fixture
def tasks(place: Path) -> Path:
    (place / "chk.py").write_text(CHECK)
    file = place / "tasks.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in TASKS))
    return file


def planted(call):
    """Right, or wrong by one, as the prompt says."""
    text = prompt(call)
    number = int(text.system.split("are ")[1].split()[0])
    if "exactly one fault" in text.user:
        return json.dumps({"work": "w", "answer": str(number + 1), "fault": "It adds one."})
    return json.dumps({"work": "w", "answer": str(number)})


async def production_over(ask, file, store, lanes=2):
    settings = ProposeSettings(output=Path("p"), repeats=2)
    checker = Checker("numeric")
    work = production(read_tasks(file, checker), Agent("sim/strong"), checker, settings)
    cache = Cache(store, ask, identity=lambda call: call.model)
    return work, await work.run(cache, StopToken(), lanes)


async def test_a_production_that_stopped_asks_no_call_twice_and_ends_alike(tasks):
    calls = 0

    def answer(call):
        nonlocal calls
        calls += 1
        if calls > 7:
            raise ProviderDown("down")
        return planted(call)

    store, ask = MemoryStore(), Scripted(planted)
    stopped, halt = await production_over(Scripted(answer), tasks, store)
    assert isinstance(halt, ProviderDown) and stopped.done < 24
    again, halt = await production_over(ask, tasks, store)
    assert halt is None and len(ask.calls) == 24 - 7
    complete, _ = await production_over(Scripted(planted), tasks, MemoryStore(), lanes=64)
    assert again.results() == complete.results()
    grades = {(instruction_of(one.id)[0], one.grade.right) for one in complete.results()}
    assert grades == {("right", True), ("fault", False)}


async def test_a_fault_a_refusal_or_a_bug_costs_its_proposal_alone(tasks, caplog):
    def answer(call):
        text = prompt(call).system
        if "are 0 and" in text:
            raise InvalidRequest("too long")
        if "are 1 and" in text:
            raise ZeroDivisionError("a bug")
        return Reply("No.", outcome="refused") if "are 2 and" in text else planted(call)

    ask = Scripted(answer)
    work, halt = await production_over(ask, tasks, MemoryStore())
    asked, cache = len(ask.calls), Cache(MemoryStore(), ask, identity=lambda call: call.model)
    assert halt is None and await work.run(cache, StopToken(), 2) is None
    assert len(ask.calls) == asked, "what is done is not asked again"
    kinds = {id.partition("-")[0]: failure.kind for id, failure in work.failures.items()}
    assert kinds == {"t0": "InvalidRequest", "t1": "crash", "t2": "declined"}
    assert "a bug" in caplog.text and (len(work.results()), work.done) == (12, 24)
    # The order of the tasks, whichever reply came first.
    expected = [one.id for one in work.results()]
    work.made = dict(reversed(work.made.items()))
    assert [one.id for one in work.results()] == expected


def test_a_setting_that_the_model_does_not_take_is_refused_with_the_fix():
    task = Task("t", OpenQuestion("?", ()), None, {}, "t")
    call = compose(task, Agent("openai/o3", temperature=0.7), "free")
    with pytest.raises(UsageError, match=r"temperature: .*\nNothing was sent"):
        require_abilities("openai/o3", [call])


@pytest.mark.wire
def test_the_files_are_data_sets_and_the_same_command_pays_nothing(tasks, command: Command):
    words = ("dataset", "propose", "tasks.jsonl", "--agent", "sim/strong", "--repeats", "3")
    words += ("--checker", "chk.py:check", "-o", "out/p.jsonl", "--pairs", "out/q.jsonl")
    first = command(*words)
    assert first.code == 0, first.err
    files = sorted((tasks.parent / "out").iterdir())
    assert [file.name for file in files] == ["p.about.json", "p.jsonl", "q.jsonl"]
    before = [file.read_bytes() for file in files]
    again = command(*words)
    assert (calls(first.err).new, calls(again.err).new) == (36, 0)
    assert [file.read_bytes() for file in files] == before
    about = json.loads(before[0])
    counts = [sum(counts.values()) for counts in about["proposals"].values()]
    assert counts == [18, 18] and about["p.jsonl"]["problems"] == 36
    assert leakage_check(JsonLines(str(files[2])).load()).line in first.err
    loaded = JsonLines(str(files[1])).load()
    assert {instruction_of(one.id)[0] for one in loaded} == {"right", "fault"}
    wrong = [one for one in loaded if "-fault-" in one.id and one.values[0] != 1]
    assert {len(one.flaws) for one in wrong} <= {0, 2}


def test_answers_are_graded_elsewhere_and_come_back_with_a_label(tasks, command: Command):
    words = ("dataset", "propose", "tasks.jsonl", "--agent", "sim/strong", "--checker", "none")
    assert command(*words, "-o", "texts.jsonl").code == 0
    rows = [json.loads(line) for line in (tasks.parent / "texts.jsonl").read_text().splitlines()]
    assert {row["id"] for row in rows} >= {"t0-right-0", "t0-fault-0"}
    labels = {"right": 1, "fault": 0}
    graded = [row | {"grade": labels[instruction_of(row["id"])[0]]} for row in rows]
    graded[0]["grade"] = "unsure"
    (tasks.parent / "graded.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in graded))
    words = ("dataset", "propose", "graded.jsonl", "--answers", "proposal", "--checker", "label")
    result = command(*words, "--column", "grade", "-o", "p.jsonl", "--pairs", "q.jsonl")
    assert result.code == 0, result.err
    assert "instructed right: graded right 5, wrong 0, ungraded 1" in result.err
    assert "many are ungraded: 1 × its grade is neither right nor wrong" in result.err
    assert "tasks with a pair: 5; without: all wrong 1" in result.err
    assert command(*words, "--column", "grade", "-o", "alone.jsonl").code == 0
    assert {file.name for file in tasks.parent.glob("*.jsonl")} == {
        "tasks.jsonl", "texts.jsonl", "graded.jsonl", "p.jsonl", "q.jsonl", "alone.jsonl",
    }  # fmt: skip
    files = [(tasks.parent / name).read_bytes() for name in ("graded.jsonl", "p.jsonl", "q.jsonl")]
    known, digests = (
        JsonLines("q.jsonl").load(tasks.parent),
        [sha256_of(file).hexdigest() for file in files],
    )
    assert [one.id for one in known] == [f"t{n}" for n in range(1, 6)]
    assert json.loads((tasks.parent / "p.about.json").read_text()) == {
        "agent": None, "settings": None, "instructions": None, "repeats": None,
        "checker": {"kind": "label", "column": "grade", "extract": None, "tolerance": 0.0},
        "tasks": {"number": 12, "sha256": digests[0]},
        "proposals": {"right": {"right": 5, "wrong": 0, "ungraded": 1},
                      "fault": {"right": 0, "wrong": 6, "ungraded": 0}},
        "p.jsonl": {"problems": 11, "sha256": digests[1]},
        "q.jsonl": {"problems": 5, "sha256": digests[2]},
    }  # fmt: skip


def test_grades_are_counted_by_instruction_and_the_first_reasons_are_told_if_many():
    def of(number: int, how: str, right: bool | None, reason: str = "") -> Graded:
        task = Task("t", OpenQuestion("?", ()), None, {}, "t")
        id = f"t-{how}-{number}" if how else f"t{number}"
        return Graded(id, task, Proposal("w", "1"), Grade(right, reason))

    rights = [of(n, "right", True) for n in range(19)]
    ungraded = [of(n, "right", None, "abbcccdddd"[n]) for n in range(10)]
    # One of 20 is not above 5 %; two of 21 are.
    line = "instructed right: graded right 19, wrong 0, ungraded {}"
    assert [*_counts([*rights, ungraded[0]])] == [line.format(1)]
    assert [*_counts([*rights, *ungraded[:2]])][1:] == ["many are ungraded: 1 × a; 1 × b"]
    others = [of(1, "fault", False), of(2, "fault", True), of(3, "", False), of(4, "free", True)]
    assert [*_counts([*others, *ungraded, *rights])] == [
        line.format(10),
        "instructed free: graded right 1, wrong 0, ungraded 0",
        "instructed fault: graded right 1, wrong 1, ungraded 0",
        "given answers: graded right 0, wrong 1, ungraded 0",
        "many are ungraded: 4 × d; 3 × c; 2 × b",
    ]


def test_lost_proposals_are_named_and_a_stop_writes_nothing(tasks, command: Command, monkeypatch):
    words = ("dataset", "propose", "tasks.jsonl", "--agent", "sim/strong", "--checker", "none")
    with monkeypatch.context() as patch:
        patch.setattr(proposing, "under_signals", lambda *_: ProviderDown("The server is down."))
        stopped = command(*words, "-o", "p.jsonl")
    assert "The server is down. 0 of 12 proposals done" in stopped.err
    assert "no reply is lost; go on with: oversight dataset propose tasks.jsonl" in stopped.err
    assert stopped.code not in (0, 1) and not (tasks.parent / "p.jsonl").exists()

    def lossy(*settings: Any) -> Production:
        work = production(*settings)
        work.failures |= {id: Failure("declined", f"lost {id}") for id in [*work.items][:7]}
        return work

    monkeypatch.setattr(proposing, "production", lossy)
    result = command(*words, "-o", "p.jsonl")
    assert result.code == 1 and "p.jsonl: 5 proposals, not graded" in result.out
    ids = [f"t{n}-{how}-0" for n in range(6) for how in ("right", "fault")]
    assert [id for id in ids if f"lost {id}" in result.err] == ids[:5]
    assert "… and 2 more failures" in result.err


def test_the_options_of_a_command_reach_the_proposals(tasks, command: Command):
    words = ("dataset", "propose", "tasks.jsonl", "--agent", "sim/strong", "-o", "p.jsonl")
    words += ("--instruct", "fault, right,fault", "--repeats", "3", "--limit", "2")
    result = command(*words, "--checker", "none")
    assert result.code == 0 and "p.jsonl: 12 proposals, not graded" in result.out
    rows = [json.loads(line) for line in (tasks.parent / "p.jsonl").read_text().splitlines()]
    names = [
        (n, how, repeat) for n in range(2) for how in ("fault", "right") for repeat in range(3)
    ]
    assert [row["id"] for row in rows] == [f"t{n}-{how}-{repeat}" for n, how, repeat in names]
    for (n, how, _), row in zip(names, rows, strict=True):
        assert (row["group"], row["question"], row["answer"]) == (
            f"t{n}",
            *list(TASKS[n].values())[1:],
        )
        assert row["proposal"] and bool(row["fault"]) == (how == "fault")
    assert command(*words, "--checker", "none", "--instruct", " , ").code == 0
    ids = [json.loads(line)["id"] for line in (tasks.parent / "p.jsonl").read_text().splitlines()]
    assert len(ids) == 12 and ids[0] == "t0-right-0"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--agent sim/strong --repeats 0 -o p", 2, "--repeats"),
        ("--agent sim/strong --repeats 1001 -o p", 2, "--repeats"),
        ("--agent sim/strong --concurrency 0 -o p", 2, "--concurrency"),
        ("--agent sim/strong --checker numeric --tolerance 1 -o p", 2, "--tolerance"),
        ("--agent sim/strong --checker numeric --tolerance -0.1 -o p", 2, "--tolerance"),
        ("--agent sim/strong --extract middle -o p", 2, "--extract"),
        ("--agent sim/strong --question text -o p", 2, "no column 'text'"),
        ("--agent sim/strong --checker chk.py:chek -o p", 2, "its import failed: AttributeError"),
        ("--agent warm.yaml -o p", 2, "a proposer is one agent"),
        ("--agent none.yaml -o p", 2, "file not found: none.yaml"),
        ("--agent sim/strong -o tasks.jsonl", 2, "must be three files"),
        ("--agent sim/strong -o p --pairs p", 2, "must be three files"),
        ("-o p", 2, "name either --agent, who writes, or --answers"),
        ("--agent sim/strong --answers answer -o p", 2, "name either --agent"),
        ("--agent sim/strong --checker nmeric -o p", 2, "unknown checker 'nmeric'"),
        ("--agent sim/strong --checker none.py:check -o p", 2, "its import failed"),
        ("--agent sim/strong --checker label -o p", 2, "name them with --answers"),
        ("--agent sim/strong --tolerance 0.1 -o p", 2, "--tolerance is for the checker numeric"),
        ("--agent sim/strong --instruct wright -o p", 2, "unknown instruction 'wright'"),
        ("--agent sim/strong --column key -o p", 2, "no column 'key'"),
        ("--agent sim/nobody -o p", 2, "unknown simulated model 'sim/nobody'"),
        ("--agent best.yaml -o p", 2, "a proposer is one agent"),
        ("--agent two.yaml -o p", 2, "a proposer is one agent"),
        ("--agent sim/strong --checker numeric -o p", 1, "12 × the answer states no number"),
        ("--answers id --checker numeric --tolerance 0.1 -o p", 1, "6 × the answer states no num"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(tasks, command, words, code, message):
    (tasks.parent / "best.yaml").write_text("{model: sim/strong, best_of: 2}")
    (tasks.parent / "warm.yaml").write_text("{model: sim/strong, temperature: [0, 1]}")
    (tasks.parent / "two.yaml").write_text("model: [sim/strong, sim/weak]")
    result = command("dataset", "propose", "tasks.jsonl", *words.split())
    assert (result.code, message in result.err) == (code, True), result.err
    assert not (tasks.parent / "p").exists() and tasks.read_text().startswith('{"id": "t0"')


EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.mark.wire
@pytest.mark.parametrize(
    ("name", "checker", "wrong"),
    [("arithmetic", Checker("numeric"), "1"), ("code", Checker("tests", "tests"), "x = 1")],
)
def test_the_examples_of_open_tasks_run(place: Path, command: Command, name, checker, wrong):
    tasks = read_tasks(EXAMPLES / "open_tasks" / f"{name}.jsonl", checker)
    asyncio.run(check_references(tasks, checker, name))
    solutions = {task.question.text: task.row["reference"] for task in tasks}

    def solver(call):
        text = prompt(call)
        is_fault = "exactly one fault" in text.user
        answer = wrong if is_fault else next(solutions[q] for q in solutions if q in text.system)
        return json.dumps({"work": "", "answer": answer, "fault": "a slip" * is_fault})

    settings = ProposeSettings(output=place / "p.jsonl")
    work = production(tasks, Agent("sim/strong"), checker, settings)
    cache = Cache(MemoryStore(), Scripted(solver), identity=lambda call: call.model)
    assert asyncio.run(work.run(cache, StopToken(), 8)) is None
    assert [one.grade.right for one in work.results()] == [True, False] * len(tasks)
    drawn, missing = pairs(work.results())
    assert (len(drawn), missing.total()) == (len(tasks), 0)
    write_jsonl(balanced(map(accept_or_reject, work.results())), place / "p.jsonl")
    words = ("--set", f"problems={{file: {place / 'p.jsonl'}}}", "--run-folder", "run")
    result = command("run", EXAMPLES / "open_tasks.yaml", *words)
    assert result.code == 0, result.err
    rows = json.loads(command("measure", "proposals", "run", "--json").out)["rows"]
    assert [row["proposer"]["n"] for row in rows] == [len(tasks)] * 5
