"""Sweep files: their settings, and their examples for judges."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from oversight import Debate, Problem, StatedJudge, Transcript, UsageError
from oversight.engine.extensions.planning.estimate import plan_sweep
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.router import Router
from oversight.engine.run.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.sweep.loading import problems_of
from oversight.engine.sweep.named_files import originals
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols import BestOf, Ensemble, Shot, SideCheck
from oversight.protocols.datasets.jsonl import bundled, write_jsonl
from oversight.protocols.datasets.loader import proposals
from oversight.protocols.errors import DatasetError
from oversight.protocols.held import DiscussedQuestion
from tests.engine.sweep_files import sweep, sweep_file
from tests.fakes import APPLES, CRATES
from tests.protocols.datasets.published import needs_published
from tests.world import THREE, shipments
from tools.examples import PRICED, header, planned

ROOT = Path(__file__).parents[3]

PLAIN = """\
problems: {bundled: {name: arithmetic, limit: 2}}
judges: sim/judge
protocols: naive_judge
"""

GRID = """\
# A sweep with a mistake in it, sometimes.
name: grid
problems:
  bundled:
    name: arithmetic
    limit: 2
agents:
  model: [sim/strong, sim/weak]
judges:
  model: sim/judge
protocols:
  naive_judge:
  debate:
    rounds: 2
"""


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str, name: str = "s.yaml") -> Path:
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


def told(file: Path, *flags: str) -> str:
    with pytest.raises(UsageError) as fault:
        read_sweep_file(file, flags)
    return str(fault.value).replace(f"{file}:", "s.yaml:")


def test_error_in_an_override_names_the_flag(written):
    assert told(written(GRID), "protocols.debate.rounds=0").startswith(
        "--set protocols.debate.rounds=0: protocols.debate.rounds: 0 is too few"
    )


def test_name_defaults_to_the_file_name(written):
    assert read_sweep_file(written(PLAIN, "my sweep (2).yaml")).top.name == "my sweep (2)"
    assert read_sweep_file(written(GRID)).top.name == "grid"


def test_a_limit_takes_the_first_problems(written):
    file = written(PLAIN.replace("limit: 2", "limit: 5"))
    full = read_sweep_file(file)
    assert read_sweep_file(file, limit=3).problems == full.problems[:3]
    assert read_sweep_file(file, limit=9).problems == full.problems


def test_the_text_stays_as_the_user_wrote_it(tmp_path):
    file = tmp_path / "s.yaml"
    text = "\ufeff# Größe\r\n" + PLAIN.replace("\n", "\r\n")
    file.write_bytes(text.encode())
    assert read_sweep_file(file, ["name=x"]).document.text == text


@pytest.mark.parametrize(
    ("flag", "count", "words"),
    [
        ("seed=1", 2, "Here."),
        ("problems.file.path=p.jsonl", 1, "Here."),
        ("problems.file={path: p.jsonl}", 1, "Here."),
        ("problems={file: p.jsonl}", 1, "Here."),
        ("prompts=p.yaml", 2, "Elsewhere."),
    ],
)
def test_a_path_starts_at_its_file_or_its_flag(written, tmp_path, monkeypatch, flag, count, words):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    for folder, problems, words_ in ((tmp_path, 2, "Here."), (elsewhere, 1, "Elsewhere.")):
        write_jsonl(shipments(problems), folder / "p.jsonl")
        (folder / "p.yaml").write_text(f"naive_judge: {{judge: {words_}}}")
    monkeypatch.chdir(elsewhere)
    text = PLAIN.replace("bundled: {name: arithmetic, limit: 2}", "file: {path: p.jsonl}")
    file = read_sweep_file(written(f"{text}prompts: p.yaml\n"), [flag])
    assert (len(file.problems), file.prompts["p.yaml"]) == (count, {"naive_judge.judge": words})


def test_a_fault_of_the_data_is_reported_with_its_file_and_line(written, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "x"}\n')
    file = written(PLAIN.replace("bundled: {name: arithmetic, limit: 2}", "file: p.jsonl"))
    with pytest.raises(DatasetError, match=r"p\.jsonl:1: "):
        read_sweep_file(file)


def test_one_problem_may_not_come_from_two_data_sets(written, tmp_path):
    write_jsonl(read_sweep_file(written(PLAIN)).problems, tmp_path / "p.jsonl")
    both = PLAIN.replace("limit: 2}", "limit: 2}, file: p.jsonl")
    assert "problems.file: the problem 'apples-and-crates' already exists" in told(written(both))


def test_copies_in_two_data_sets_are_one_group_each(written, tmp_path):
    own = [replace(one, id=f"{one.id}-again") for one in read_sweep_file(written(PLAIN)).problems]
    write_jsonl(own, tmp_path / "p.jsonl")
    both = read_sweep_file(written(PLAIN.replace("limit: 2}", "limit: 2}, file: p.jsonl")))
    groups = {problem.id.removesuffix("-again"): problem.group for problem in both.problems}
    assert sorted(one.group for one in both.problems) == sorted(2 * [*groups.values()])
    assert len({*groups.values()} - {""}) == 2
    assert any("4 problems, 2 different questions" in note for note in both.notes)


def test_the_seed_of_the_sweep_decides_all_chance_of_the_data_sets(written):
    def ids(seed: str, more: str = "") -> list[str]:
        text = PLAIN.replace("limit: 2", f"limit: 9, shuffle: true{more}")
        return [problem.id for problem in read_sweep_file(written(seed + text)).problems]

    assert ids("seed: 1\n") == ids("seed: 1\n") != ids("seed: 2\n")
    assert ids("seed: 1\n", ", seed: 7") == ids("seed: 2\n", ", seed: 7")


def test_two_answer_protocol_names_the_fix_for_three_answers():
    text = GRID.replace("  naive_judge:", "  doubly_efficient_debate:\n  naive_judge:")
    with pytest.raises(UsageError) as fault:
        sweep_file(text, problems=[*shipments(2), THREE])
    assert str(fault.value).startswith("s.yaml:3: problems: three: doubly efficient debate ")
    assert "has 3; keep two of them, or use a protocol with one voice" in str(fault.value)


def test_every_problem_must_fit_whichever_comes_last():
    one, other, third = shipments(3)
    recorded = replace(
        third, question=DiscussedQuestion(third.question.text, third.question.answers)
    )
    for protocol, fitting, words in (
        ("proposer_critic: {defends: proposal}", next(proposals([third])), "accept or reject"),
        ("recorded: {}", recorded, "needs recorded conversations"),
    ):
        text = GRID.replace("debate:\n    rounds: 2", protocol)
        assert sweep_file(text, problems=[fitting]).problems == (fitting,)
        for problems in ([one, other, fitting], [fitting, one, other]):
            with pytest.raises(UsageError, match=f"problems: {one.id}: .*{words}"):
                sweep_file(text, problems=problems)


def test_a_question_with_three_answers_has_three_worlds():
    text = "agents: sim/strong\njudges: sim/judge\nprotocols: [propaganda, naive_judge]"
    grid = sweep(text, problems=[THREE, *shipments(1)])
    assert len(grid) == 2 * 3 + 2 * 2
    assert [cell.side for cell in grid.cells()] == [0, 1, 2, 0, 1, 2, 0, 1, 0, 1]


@pytest.mark.parametrize("name", ["appendix_a_sim.yaml", "appendix_a.yaml"])
def test_the_grid_of_appendix_a_has_57600_cells_and_400_of_the_naive_judge(name):
    grid = sweep((ROOT / "examples" / name).read_text(), problems=shipments(100))
    kinds = Counter(row.kind for row in grid.rows)
    naive = kinds.pop("naive judge") * 100 * 2
    assert naive == 400 and len(grid) == 57_600 + naive
    assert kinds == {
        kind: 4 * 2 * 2 * 2
        for kind in [
            "propaganda", "consultancy client first 2 turns", "consultancy client first 4 turns",
            "consultancy consultant first 2 turns", "consultancy consultant first 4 turns",
            "debate simultaneous 2 rounds", "debate simultaneous 4 rounds",
            "debate sequential 2 rounds", "debate sequential 4 rounds",
        ]
    }  # fmt: skip
    assert len({(row.kind, row.agent, row.judge) for row in grid.rows}) == len(grid.rows)
    assert {row.judge.split()[1] for row in grid.rows} == {"stated", "logprob"}


def test_the_grid_of_appendix_a_as_its_library_has_it():
    """Turns are speeches there: 2 and 4 are one and two rounds. Speeches have 100 words, and one
    judge picks among drafts, whoever judges the row."""
    grid = sweep((ROOT / "examples" / "appendix_a_solib.yaml").read_text(), problems=shipments(100))
    assert len(grid) == 58_000
    debates = [row.protocol for row in grid.rows if isinstance(row.protocol, Debate)]
    assert {debate.rounds for debate in debates} == {1, 2}
    agents = {debate.agent for debate in debates}
    assert {agent.base_agent.words for agent in agents} == {100}
    pickers = {agent.judge.name for agent in agents if isinstance(agent, BestOf)}
    assert pickers == {"openai/gpt-6-luna stated effort none"}


@pytest.mark.parametrize("name", ["first-live", "appendix_a", "appendix_a_sim"])
def test_a_judge_of_the_sweep_checks_the_sides_in_examples_that_ask_real_models(name):
    text = (ROOT / "examples" / f"{name}.yaml").read_text()
    protocols = [row.protocol for row in sweep(text, problems=shipments(1)).rows]
    judges = {(judge.model, judge.effort) for judge in (p.judge for p in protocols)}
    speakers = [p.agent for p in protocols if hasattr(p, "agent")]
    checkers = {(a.checker.model, a.checker.effort) for a in speakers if isinstance(a, SideCheck)}
    assert checkers == (set() if name == "appendix_a_sim" else judges)
    assert all(isinstance(p, SideCheck) for p in speakers) == bool(checkers)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["first-live", "strong_debaters"])
def test_the_header_of_a_bundled_example_states_its_plan(name):
    file = ROOT / "examples" / f"{name}.yaml"
    plan = asyncio.run(plan_sweep(open_sweep(file), None, listed(), frozenset()))
    planned = f"{plan.cells} cells, {plan.total('calls'):,} calls, likely ${plan.cost.likely:.2f}"
    assert f"# Planned: {planned}." in file.read_text()


@pytest.mark.campaign
@needs_published
@pytest.mark.parametrize("name", PRICED)
def test_the_header_of_an_example_says_what_the_plan_says(name):
    assert header(name) == planned(name), "write it anew with: python -m tools.examples"


def test_the_example_of_a_hidden_passage_names_its_data_where_they_are_fetched_to():
    text = (ROOT / "examples" / "hidden_passage.yaml").read_text()
    assert len(sweep(text, problems=shipments(100))) == 4 * 100 * 2
    fetched = originals()["quality"].loader.format(folder="data/quality")
    settings = yaml.safe_load(text)["problems"]["quality"]
    assert yaml.safe_load(fetched)["quality"].items() <= settings.items()


def taught(folder: Path, problems: str, *judges: str) -> LoadedSweep:
    file, listed = folder / "sweep.yaml", ", ".join(judges)
    file.write_text(f"problems: {{{problems}}}\njudges: [{listed}]\nprotocols: naive_judge\n")
    return open_sweep(file)


TWO, FIRST = "bundled: {name: arithmetic, limit: 2}", "apples-and-crates: stands"
STATED = "{model: sim/weak, shots: {bundled: {name: passages, limit: 3}}}"
POOLED = "{kind: ensemble, member: sim/weak, examples: {bundled: passages}, pool: [mean, logodds]}"


async def test_judges_learn_from_the_data_set_of_the_file_and_simulated_ones_know_it(tmp_path):
    sweep = taught(tmp_path, TWO, STATED, POOLED)
    cases = tuple(map(Shot.of, bundled("passages")))
    single, mean, logodds = (protocol.judge for protocol in sweep.file.protocols)
    assert single == StatedJudge("sim/weak", shots=cases[:3])
    member = StatedJudge("sim/weak")
    assert mean == Ensemble(member, examples=cases)
    assert logodds == Ensemble(member, examples=cases, pool="logodds")
    router = Router(sweep.models, (), Accounting(listed()), sweep.stop_token)
    for protocol in sweep.file.protocols:
        for problem in sweep.file.problems:
            for verdict in await protocol.worlds(problem, router):
                assert sum(verdict.probs) == pytest.approx(1)


@pytest.mark.parametrize("folder", ["", "FOLDER/"])
def test_file_of_examples_is_named_from_the_folder_of_the_sweep(folder, tmp_path):
    write_jsonl([APPLES], tmp_path / "mine.jsonl")
    path = f"{folder}mine.jsonl".replace("FOLDER", str(tmp_path))
    judge = f"{{model: sim/weak, shots: {{file: {path}}}}}"
    (protocol,) = taught(tmp_path, TWO, judge).file.protocols
    assert protocol.judge.shots == (Shot(Transcript(CRATES), (1, 0), id="apples"),)


def test_best_answers_share_the_probability_of_an_example():
    assert Shot.of(APPLES).probs == (1, 0)
    assert Shot.of(Problem("tied", THREE.question, (1, -1, 1))).probs == (0.5, 0, 0.5)


def test_a_simulated_world_knows_every_example_of_a_tree_of_roles():
    shot = Shot.of(APPLES)
    judge = Ensemble(StatedJudge("sim/weak", shots=(shot,)), examples=(shot,))
    problems = list(problems_of([judge, judge.member]))
    assert len(problems) == 3 and {problem.question for problem in problems} == {CRATES}
    assert {problem.best for problem in problems} == {APPLES.best}


@pytest.mark.parametrize(
    ("problems", "judge", "message"),
    [
        (TWO, "{model: sim/weak, shots: {bundled: arithmetic}}", FIRST),
        (TWO, "{kind: ensemble, member: sim/weak, examples: {bundled: arithmetic}}", FIRST),
        (
            "file: problems.jsonl",
            "{model: sim/weak, shots: {file: FOLDER/examples.jsonl}}",
            "two: stands among the examples of a judge as well, by its id",
        ),
    ],
)
def test_examples_that_are_also_problems_are_refused(tmp_path, problems, judge, message):
    def asked(id: str, text: str) -> Problem:
        return replace(APPLES, id=id, question=replace(CRATES, text=text))

    write_jsonl([asked("one", "How many?"), asked("two", "How much?")], tmp_path / "problems.jsonl")
    write_jsonl([asked("two", "What is the amount?")], tmp_path / "examples.jsonl")
    with pytest.raises(UsageError, match=f"yaml:1: problems: {message}"):
        taught(tmp_path, problems, judge.replace("FOLDER", str(tmp_path)))


def test_ids_that_are_places_in_two_files_do_not_make_two_questions_one(tmp_path):
    for split, text in (("dev", "is it green"), ("train", "is it blue")):
        row = {"question": text, "passage": "Grass.", "answer": True}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row))
    judge = f"{{model: sim/weak, shots: {{boolq: {{path: {tmp_path / 'train.jsonl'}}}}}}}"
    assert len(taught(tmp_path, "boolq: {path: dev.jsonl}", judge).file.problems) == 1


def test_prompts_have_names_and_braces(written):
    prompts = "prompts: {name: short, judge: {rules: 'Write \\frac{a}{b}, ${{x}} or {{y}}.'}}\n"
    (protocol, *_) = read_sweep_file(written(prompts + PLAIN)).protocols
    assert protocol.words.name == "short"
    assert protocol.words.text("judge.rules") == "Write \\frac{a}{b}, ${x} or {y}."


HOST = "extra_body: {provider: {order: [a], allow_fallbacks: false}}"


@pytest.mark.parametrize("body", ["", HOST])
def test_a_model_of_openrouter_without_a_pinned_host_is_noted(tmp_path, body):
    file, judge = tmp_path / "s.yaml", f"{{model: openrouter/meta/llama-4, {body}}}"
    file.write_text(f"problems: {{bundled: passages}}\njudges: {judge}\nprotocols: naive_judge\n")
    notes = [note for note in read_sweep_file(file).notes if "pin one with extra_body" in note]
    assert len(notes) == (not body)
