"""`oversight dataset generate-rewritten`: resumed over stored replies, and what it refuses."""

import json
from pathlib import Path

from click.testing import CliRunner

from oversight.cache.cache import Cache
from oversight.cache.call import Call
from oversight.cache.store import MemoryStore
from oversight.engine.cli.group import oversight
from oversight.engine.datasets.generation import Rewriting
from oversight.engine.errors import ProviderDown, UsageError
from oversight.engine.stop import StopToken
from oversight.protocols.datasets import write_jsonl
from oversight.protocols.datasets.rewriting import Rewriter
from oversight.protocols.question import labelled
from tests.fakes import Scripted
from tests.protocols.datasets.test_rewriting import PAIR, alike

PROBLEMS = tuple(
    labelled(f"q{n}", "How many?", [(text, f"{n} of them.\n{work}", v) for text, work, v in PAIR])
    for n in range(5)
)


def rewriting() -> Rewriting:
    return Rewriting(PROBLEMS, Rewriter("model"))


def over(store: MemoryStore, ask: Scripted) -> Cache:
    return Cache(store, ask, identity=lambda call: call.model)


async def test_what_was_paid_before_a_stop_is_not_paid_again():
    left = 4

    def answer(call: Call) -> str:
        nonlocal left
        if not left:
            raise ProviderDown("down")
        left -= 1
        return alike(call)

    store, first = MemoryStore(), rewriting()
    assert isinstance(await first.run(over(store, Scripted(answer)), StopToken(), 1), ProviderDown)
    assert not first.complete
    ask, again = Scripted(alike), rewriting()
    assert await again.run(over(store, ask), StopToken(), 1) is None
    assert len(ask.calls) == 2 * len(PROBLEMS) - 4 and again.complete
    whole = rewriting()
    await whole.run(over(MemoryStore(), Scripted(alike)), StopToken(), 64)
    assert again.problems(0) == whole.problems(0)
    assert [problem.id for problem in again.problems(0)] == [problem.id for problem in PROBLEMS]


async def test_a_solution_that_comes_back_changed_costs_its_question_alone():
    def answer(call: Call) -> str:
        if "2 of them" in call.messages[0].text:
            return json.dumps({"steps": ["4 * 12 = 47."], "answer": 47})
        return alike(call)

    made = rewriting()
    assert await made.run(over(MemoryStore(), Scripted(answer)), StopToken(), 2) is None
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


def test_the_file_of_the_problems_is_not_written_over(tmp_path: Path):
    file = tmp_path / "p.jsonl"
    write_jsonl(PROBLEMS, file)
    given = ["dataset", "generate-rewritten", str(file), "--model", "sim/strong", "-o", str(file)]
    result = CliRunner().invoke(oversight, [*given, "--store", str(tmp_path / "store")])
    assert isinstance(result.exception, UsageError) and "name another" in str(result.exception)
