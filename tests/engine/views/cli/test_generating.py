"""`oversight dataset generate-wrong` and `generate-rewritten`: the plumbing, on scripted models."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from oversight.cache.cache import Cache
from oversight.cache.call import Call
from oversight.cache.store import MemoryStore
from oversight.engine.errors import InvalidRequest, ProviderDown, UsageError
from oversight.engine.extensions.datasets.generation import generation, rewriting
from oversight.engine.extensions.simulation import GroundTruth, SimProvider
from oversight.engine.stop import StopToken
from oversight.engine.views.cli.group import oversight
from oversight.protocols.datasets.generation import Generator
from oversight.protocols.datasets.jsonl import JsonLines, write_jsonl
from oversight.protocols.datasets.known import Known
from oversight.protocols.datasets.rewriting import Rewriter
from oversight.protocols.question import Answer, labelled
from tests.fakes import Scripted, prompt
from tests.protocols.datasets.test_rewriting import PAIR, alike
from tests.run_folders import len_of

QUESTIONS = tuple(
    Known(f"q{n}", f"How many are {n} and {n}?", Answer("", str(2 * n))) for n in range(2, 8)
)


def rows(path: Path, n: int = 6) -> Path:
    lines = [{"question": f"How many are {k} and {k}?", "answer": str(2 * k)} for k in range(2, n)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def invoked(*arguments: object) -> Result:
    return CliRunner().invoke(oversight, ["dataset", "generate-wrong", *map(str, arguments)])


def generate(*arguments: object, code: int = 0) -> Result:
    result = invoked(*arguments)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_a_simulated_model_writes_a_file_that_a_sweep_can_read(tmp_path):
    file, out, store = rows(tmp_path / "k.jsonl"), tmp_path / "out" / "w.jsonl", tmp_path / "store"
    told = generate(file, "--model", "sim/strong", "-o", out, "--store", store)
    assert told.stdout == f"{out}: 4 problems from 4 of 4 questions\n"
    assert "leakage check: " in told.stderr
    problems = JsonLines(str(out)).load()
    assert [problem.id for problem in problems] == ["k-1", "k-2", "k-3", "k-4"]
    for n, problem in enumerate(problems, 2):
        assert problem.question.answers[problem.best].text == str(2 * n)
        assert problem.question.other(problem.question.answers[problem.best]).text != str(2 * n)
    assert sorted(path.name for path in out.parent.iterdir()) == ["w.jsonl"]


def test_the_same_command_again_pays_for_nothing_and_gives_the_same_bytes(tmp_path):
    file, out, store = rows(tmp_path / "k.jsonl"), tmp_path / "w.jsonl", tmp_path / "store"
    common = (file, "--model", "sim/strong", "-o", out, "--store", store)
    generate(*common, "--limit", 2)
    first, paid = out.read_bytes(), len_of(store)
    # Of each question: one brainstorm, four drafts, and their ratings.
    assert paid == 2 * (1 + 4 + 4)
    again = generate(*common, "--limit", 2)
    assert f"{paid} calls ({paid} stored)" in again.stderr
    assert (out.read_bytes(), len_of(store)) == (first, paid)
    generate(*common)
    assert out.read_bytes().startswith(first)
    assert len_of(store) == 2 * paid


def test_questions_without_a_wrong_answer_are_told_and_left_out(tmp_path):
    # A simulated model comes to 1 wherever a whole number is asked for.
    file = tmp_path / "k.jsonl"
    file.write_text('{"question": "1?", "answer": "1"}\n{"question": "2?", "answer": "2"}')
    arguments = (file, "--model", "sim/strong", "-o", tmp_path / "w.jsonl", "--store", tmp_path)
    told = generate(*arguments, code=1)
    assert "k-1: unreadable: the draft comes to '1', which is no other number" in told.stderr
    assert told.stdout.endswith(": 1 problem from 1 of 2 questions\n")
    assert [problem.id for problem in JsonLines(str(tmp_path / "w.jsonl")).load()] == ["k-2"]


def test_nothing_is_written_where_no_question_got_a_wrong_answer(tmp_path):
    file, out = tmp_path / "k.jsonl", tmp_path / "w.jsonl"
    file.write_text('{"question": "1?", "answer": "1"}')
    told = invoked(file, "--model", "sim/strong", "-o", out, "--store", tmp_path / "s")
    assert "no question got a wrong answer" in str(told.exception)
    assert not out.exists()


def simulated(call):
    return SimProvider(GroundTruth(())).reply(call)


async def generation_over(ask, lanes=2, store=None):
    """A generation, and why it stopped early, if it did."""
    production = generation(QUESTIONS, Generator("sim/strong", drafts=2))
    cache = Cache(MemoryStore() if store is None else store, ask, identity=lambda call: call.model)
    return production, await production.run(cache, StopToken(), lanes)


async def test_a_provider_that_is_down_stops_it_and_the_store_resumes_it():
    spoken = 0

    def answer(call):
        nonlocal spoken
        spoken += 1
        if spoken > 12:
            raise ProviderDown("down")
        return simulated(call)

    store, ask = MemoryStore(), Scripted(simulated)
    stopped, halt = await generation_over(Scripted(answer), store=store)
    assert isinstance(halt, ProviderDown)
    assert stopped.done < len(stopped.items)
    again, halt = await generation_over(ask, store=store)
    assert halt is None
    assert len(ask.calls) == len(QUESTIONS) * 5 - 12
    assert again.done == len(again.items)
    assert not again.failures


async def test_the_outcome_does_not_depend_on_how_many_run_at_once():
    ask = Scripted(simulated)
    one, _ = await generation_over(ask, lanes=1)
    assert len(ask.calls) == len({call.address for call in ask.calls}), "no call is asked twice"
    many, _ = await generation_over(ask, lanes=64)
    assert one.problems(0) == many.problems(0)
    assert [problem.id for problem in one.problems(0)] == [known.id for known in QUESTIONS]


async def test_a_call_that_fails_a_refusal_or_a_bug_costs_its_question_alone(caplog):
    def answer(call):
        shown = prompt(call).system
        if QUESTIONS[0].text in shown:
            raise InvalidRequest("too long")
        if QUESTIONS[2].text in shown:
            raise ZeroDivisionError("a bug")
        reply = simulated(call)
        return replace(reply, outcome="refused") if QUESTIONS[1].text in shown else reply

    production, halt = await generation_over(Scripted(answer))
    assert halt is None
    assert {id: failure.kind for id, failure in production.failures.items()} == {
        "q2": "BadCall",
        "q3": "declined",
        "q4": "crash",
    }
    assert production.failures["q4"].message == "ZeroDivisionError: a bug"
    assert "question q4 crashed" in caplog.text
    assert [problem.id for problem in production.problems(0)] == ["q5", "q6", "q7"]


def test_a_setting_that_the_model_does_not_take_is_told_with_the_mend():
    lacking = generation(QUESTIONS, Generator("openai/o3", temperature=0.7))
    with pytest.raises(UsageError, match=r"temperature: .*\nNothing was sent"):
        lacking.require_abilities()


PROBLEMS = tuple(
    labelled(f"q{n}", "How many?", [(text, f"{n} of them.\n{work}", v) for text, work, v in PAIR])
    for n in range(5)
)


async def test_a_solution_that_comes_back_changed_costs_its_question_alone():
    def answer(call: Call) -> str:
        if "2 of them" in call.messages[0].text:
            return json.dumps({"steps": ["4 * 12 = 47."], "answer": 47})
        return alike(call)

    made = rewriting(PROBLEMS, Rewriter("model"))
    cache = Cache(MemoryStore(), Scripted(answer), identity=lambda call: call.model)
    assert await made.run(cache, StopToken(), 2) is None
    assert {id: failure.kind for id, failure in made.failures.items()} == {"q2": "unreadable"}
    assert [problem.id for problem in made.problems(0)] == ["q0", "q1", "q3", "q4"]


def test_the_command_writes_nothing_where_no_solution_can_be_rewritten(tmp_path: Path):
    write_jsonl(PROBLEMS, tmp_path / "p.jsonl")
    places = ["-o", str(tmp_path / "o.jsonl"), "--store", str(tmp_path / "store")]
    # A simulated model comes to one half wherever a number is asked for.
    given = ["dataset", "generate-rewritten", str(tmp_path / "p.jsonl"), "--model", "sim/strong"]
    result = CliRunner().invoke(oversight, [*given, *places])
    assert isinstance(result.exception, UsageError), result.output
    assert "no question got its solutions anew" in str(result.exception)
    assert "q0: unreadable: '36' was rewritten to come to '0.5'" in result.stderr
    assert not (tmp_path / "o.jsonl").exists()
