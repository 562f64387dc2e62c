import json

import pytest
from msgspec.structs import replace

from oversight.engine.errors import UsageError
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.engine.sweep.document import Document
from oversight.engine.sweep.loading import problems_of, shots
from oversight.engine.sweep.node import Node
from oversight.protocols.datasets.bundled import bundled
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.judges import Ensemble, Shot, StatedJudge
from oversight.protocols.question import Problem
from oversight.protocols.transcript import Transcript
from tests.fakes import APPLES, CRATES

SWEEP = """\
problems: {bundled: {name: arithmetic, limit: 2}}
judges:
  - {model: sim/weak, shots: {bundled: {name: passages, limit: 3}}}
  - kind: ensemble
    member: {model: sim/weak}
    examples: {bundled: passages}
    weighing: [adaboost, logodds]
protocols: naive_judge
"""


def read(yaml: str) -> tuple[Shot, ...]:
    document = Document.parse(f"examples: {yaml}", "a.yaml")
    return shots(Node.section(document, "examples"))


def test_a_sweep_file_names_the_data_set_that_examples_are_taken_from(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    taught, boosted, weighed = (p.judge for p in open_sweep(path).file.protocols)
    cases = tuple(map(Shot.of, bundled("passages")))
    assert taught == StatedJudge("sim/weak", shots=cases[:3])
    member = StatedJudge("sim/weak")
    assert boosted == Ensemble(member, examples=cases, weighing="adaboost")
    assert weighed == Ensemble(member, examples=cases, weighing="logodds")


async def test_simulated_judges_of_a_sweep_know_its_examples(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    sweep = open_sweep(path)
    for protocol in sweep.file.protocols:
        for problem in sweep.file.problems:
            for verdict in await protocol.worlds(problem, sweep.models):
                assert sum(verdict.probs) == pytest.approx(1)


def test_a_file_of_examples_is_named_by_its_whole_path(tmp_path):
    write_jsonl([APPLES], tmp_path / "mine.jsonl")
    assert read(f"{{file: {tmp_path / 'mine.jsonl'}}}") == (
        Shot(Transcript(CRATES), (1, 0), id="apples"),
    )


def test_best_answers_share_the_probability_of_an_example():
    assert Shot.of(APPLES).probs == (1, 0)
    three = CRATES.answers[0], CRATES.answers[1]
    tied = Problem("tied", type(CRATES)("?", (*three, type(three[0])("C", "12"))), (1, -1, 1))
    assert Shot.of(tied).probs == (0.5, 0, 0.5)


def test_a_simulated_world_is_told_every_example_of_a_tree_of_roles():
    shot = Shot.of(APPLES)
    judge = Ensemble(StatedJudge("sim/weak", shots=(shot,)), examples=(shot,))
    found = list(problems_of([judge, judge.member]))
    assert len(found) == 3 and {problem.question for problem in found} == {CRATES}
    assert {problem.best for problem in found} == {APPLES.best}
    assert list(problems_of(StatedJudge("sim/weak"))) == []


@pytest.mark.parametrize(
    "judge",
    [
        "{model: sim/weak, shots: {bundled: arithmetic}}",
        "{kind: ensemble, member: {model: sim/weak}, examples: {bundled: arithmetic}}",
    ],
)
def test_examples_that_are_problems_as_well_are_refused_with_the_first(tmp_path, judge):
    path = tmp_path / "sweep.yaml"
    problems = "problems: {bundled: {name: arithmetic, limit: 2}}"
    path.write_text(f"{problems}\njudges: [{judge}]\nprotocols: naive_judge\n")
    first = bundled("arithmetic")[0].id
    with pytest.raises(UsageError, match=rf"yaml:1: problems: {first}: stands among the examples"):
        open_sweep(path)


def test_an_example_in_other_words_is_known_by_its_id(tmp_path):
    def asked(id: str, text: str) -> Problem:
        return replace(APPLES, id=id, question=replace(CRATES, text=text))

    write_jsonl([asked("one", "How many?"), asked("two", "How much?")], tmp_path / "problems.jsonl")
    write_jsonl([asked("two", "What is the amount?")], tmp_path / "examples.jsonl")
    path = tmp_path / "sweep.yaml"
    path.write_text(
        f"problems: {{file: problems.jsonl}}\njudges: [{{model: sim/weak, shots: {{file: "
        f"{tmp_path / 'examples.jsonl'}}}}}]\nprotocols: naive_judge\n"
    )
    with pytest.raises(UsageError, match=r"yaml:1: problems: two: stands among the .* by its id"):
        open_sweep(path)


def test_ids_that_are_places_in_two_files_do_not_make_two_questions_one(tmp_path):
    for split, text in (("dev", "is it green"), ("train", "is it blue")):
        row = {"question": text, "passage": "Grass.", "answer": True}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row))
    path = tmp_path / "sweep.yaml"
    path.write_text(
        f"problems: {{boolq: {{path: dev.jsonl}}}}\njudges: [{{model: sim/weak, shots: {{boolq: "
        f"{{path: {tmp_path / 'train.jsonl'}}}}}}}]\nprotocols: naive_judge\n"
    )
    assert len(open_sweep(path).file.problems) == 1
