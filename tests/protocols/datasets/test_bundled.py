"""The problems that come with the program: sound arithmetic, honest form, real evidence; loaders by
name, what a data set holds and shares with another, and what is proposed of it."""

import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from oversight import protocols
from oversight.cache.call import Call, value_address
from oversight.engine.extensions.datasets.checking import Inventory, inventory
from oversight.protocols import Answer, NaiveJudge, Problem, Question, StatedJudge, labelled
from oversight.protocols.agents.tools import calculate
from oversight.protocols.datasets.catalogue import LOADERS, PUBLISHED, loader
from oversight.protocols.datasets.forms import published_forms
from oversight.protocols.datasets.jsonl import BUNDLED, Bundled, bundled, write_jsonl
from oversight.protocols.datasets.leak import leakage_check
from oversight.protocols.datasets.loader import ACCEPT, REJECT, copies_line, overlap, proposals
from oversight.protocols.datasets.solution import number, steps
from oversight.protocols.question import lettered
from tests.fakes import APPLES, Scripted, prompt

NUMBER = r"\d+(?:\.\d+)?"
EQUATION = re.compile(rf"({NUMBER}(?: [-+*] {NUMBER}|/{NUMBER})*) = ({NUMBER})")
QUOTE = re.compile(r'"([^"]+)"')


def answers(name):
    return [answer for problem in bundled(name) for answer in problem.question.answers]


def test_every_equation_holds_in_right_and_in_wrong_solutions():
    for answer in answers("arithmetic"):
        equations = EQUATION.findall(answer.work)
        assert answer.work.count("=") == len(equations), f"an equation not read: {answer.work}"
        for expression, result in equations:
            assert calculate(expression) == calculate(result), f"{expression} = {result}"


def test_every_solution_is_equations_in_the_one_format():
    """A solution has no words that tell which answer it takes for right."""
    for answer in answers("arithmetic"):
        *written, last = answer.work.split("\n")
        assert last == f"The answer is {answer.text}."
        assert 1 <= len(written) <= 5, answer.work
        assert steps(answer.work) == tuple(written)
        assert all(EQUATION.fullmatch(line.removesuffix(".")) for line in written), answer.work
        assert answer.text in re.findall(NUMBER, written[-1]), answer.work


def test_arithmetic_has_enough_problems_and_both_solutions_differ_in_their_number():
    problems = bundled("arithmetic")
    assert len(problems) >= 64
    for problem in problems:
        numbers = {number(answer.text) for answer in problem.question.answers}
        assert len(numbers) == 2 and None not in numbers


@pytest.mark.parametrize("name", BUNDLED)
def test_ids_are_slugs_and_labels_do_not_tell(name):
    problems = bundled(name)
    for problem in problems:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", problem.id)
        assert [answer.label for answer in problem.question.answers] == ["A", "B"]
        assert sorted(problem.values) == [-1, 1]
    half = len(problems) // 2
    assert Counter(problem.best for problem in problems) == {0: half, 1: half}


@pytest.mark.parametrize(
    ("name", "first"), [("arithmetic", 60), ("arithmetic", None), ("passages", None)]
)
def test_no_rule_of_form_is_far_from_chance(name, first):
    gate = leakage_check(Bundled(name, limit=first).load())
    assert gate.leaks == ()
    for rule in gate.rules:
        # Right solutions have a step more somewhat oftener: of 92 problems that tells some. Of few
        # passages one may be told by luck.
        assert rule.accuracy <= 0.61 if name == "arithmetic" else abs(rule.accuracy - 0.5) < 0.09


def test_passages_are_a_page_long_and_shared_ones_form_a_group():
    problems = bundled("passages")
    assert len(problems) == 12
    shared = Counter(problem.question.passage for problem in problems)
    for problem in problems:
        passage = problem.question.passage
        assert 250 <= len(passage.split()) <= 450
        assert bool(problem.group) == (shared[passage] > 1)
        mates = {p.question.passage for p in problems if p.group == problem.group}
        assert not problem.group or mates == {passage}


@pytest.mark.parametrize("problem", bundled("passages"), ids=lambda problem: problem.id)
def test_every_answer_quotes_its_passage_word_for_word(problem):
    for answer in problem.question.answers:
        quotes = QUOTE.findall(answer.work)
        assert len(quotes) == 2
        for quote in quotes:
            # The judge may not see the passage: the question alone must not carry the evidence.
            assert quote in problem.question.passage and quote not in problem.question.text


def problem(id, text, best=0, count=2, passage="", group=""):
    answers = tuple(Answer("ABCD"[n], f"answer {n}") for n in range(count))
    values = tuple(1.0 if n == best else -1.0 for n in range(count))
    return Problem(id, Question(text, answers, passage), values, group)


def test_the_contents_are_counted_and_copies_are_found_whatever_case_and_spaces():
    assert inventory(
        [
            problem("a", "Who?", best=1, passage="One.", group="1"),
            problem("b", "What?", best=1, passage="One.", group="1"),
            problem("c", "Where?", count=4, passage="Two."),
            problem("d", "Who?"),
            problem("e", " wHo? ", passage="One.", group="1"),
            problem("f", "Who?", passage="One."),
        ]
    ) == Inventory(6, {2: 5, 4: 1}, {"A": 4, "B": 2}, 2, 4, (("a", "e", "f"),))


def test_an_example_that_is_a_problem_is_named_with_it_by_id_or_by_text_and_passage():
    problems = [problem("a", "Is it?", passage="One."), problem("b", "Was it?")]
    problems.append(problem("c", "Is it?", passage="One."))
    examples = [problem("b", "In other words?"), problem("x", " is  IT? ", passage="one.")]
    assert overlap(problems, examples) == (("b", "b"), ("a", "x"))
    assert overlap(problems, [problem("y", "No?"), problem("z", "Is it?", passage="Two.")]) == ()
    (line,) = copies_line([*problems, problem("z", "Is it?", passage="Two.")])
    assert line.startswith("4 problems, 3 different questions: ")


WRONG = [(f"wrong {n}", "", -1.0) for n in range(3)]
FOUR = labelled("four", "Which?", [("right", "because", 1.0), *WRONG], passage="Text.", group="g")


def _four(n: int) -> Problem:
    return replace(FOUR, id=f"four-{n}", question=replace(FOUR.question, text=f"Which of {n}?"))


def accepted(problem: Problem) -> float:
    """The value of accepting what is proposed."""
    texts = [answer.text for answer in problem.question.answers]
    assert sorted(texts) == sorted((ACCEPT, REJECT)) and sum(problem.values) == 0
    return problem.values[texts.index(ACCEPT)]


def test_the_right_answer_and_one_wrong_one_of_each_problem_are_proposed():
    for problem in (APPLES, FOUR):
        proposed = list(proposals([problem]))
        assert sorted(map(accepted, proposed)) == [-1, 1]
        for item in proposed:
            text = item.question.text.partition("\n\nProposed answer: ")[2]
            texts = (answer.whole for answer in problem.question.answers)
            assert dict(zip(texts, problem.values, strict=True))[text] == accepted(item)
            assert item.question.passage == problem.question.passage
            assert item.group == (problem.group or problem.id)
        assert len({item.id for item in proposed}) == 2
        flaws = tuple(
            f"in {value}" if value < max(problem.values) else "" for value in problem.values
        )
        for item in proposals([replace(problem, flaws=flaws)]):
            assert item.flaws == (() if accepted(item) > 0 else (f"in {min(problem.values)}", ""))


def test_proposed_wrong_answer_depends_on_seed_and_content_alone():
    def drawn(passage: str, seed: int, id: str = "x", way: int = 1) -> set[str]:
        question = replace(FOUR.question, passage=passage, answers=FOUR.question.answers[::way])
        one = replace(FOUR, id=id, question=question, values=FOUR.values[::way])
        (first, second) = proposals([one], seed)
        return {first.question.text, second.question.text}

    assert drawn("x", 1) == drawn("x", 1, id="y") == drawn("x", 1, way=-1)
    for inputs in ([(str(n), 0) for n in range(30)], [("x", seed) for seed in range(30)]):
        assert len({frozenset(drawn(*args)) for args in inputs}) == 3


async def test_a_judge_who_accepts_every_proposal_has_no_agent_score_difference():
    """The known truth: a judge who always accepts is right about right proposals and wrong about
    as many wrong ones: +2 and -2 by Brier, 0 in the mean. A judge who can tell them apart has 2 for
    each, although it sees only the proposal."""
    data = bundled("arithmetic")[:10]
    problems = list(proposals(data))
    right = {p.question.answers[p.best].text for p in data}

    def judge(call: Call, credulous: bool) -> str:
        system = prompt(call).system
        accept = re.findall(rf'label="(\w)">\n{re.escape(ACCEPT)}', system)[0]
        reject = re.findall(rf'label="(\w)">\n{re.escape(REJECT)}', system)[0]
        yes = credulous or system.partition("Proposed answer: ")[2].split("\n")[0] in right
        return f"{accept}: {100 if yes else 0}%\n{reject}: {0 if yes else 100}%"

    for credulous, expected in ((True, [-2, 2]), (False, [2])):
        ask = Scripted(lambda call, credulous=credulous: judge(call, credulous))
        naive = NaiveJudge(StatedJudge("judge"))
        asd = [await naive.agent_score_difference(problem, ask) for problem in problems]
        assert sorted(set(asd)) == expected and sum(asd) / len(asd) == (0 if credulous else 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_loader_asks_so_where_its_settings_say_so(tmp_path, seed):
    write_jsonl([_four(n) for n in range(6)], tmp_path / "d.jsonl")
    settings = {"path": str(tmp_path / "d.jsonl"), "limit": 3, "seed": seed}
    loaded = loader("file", settings | {"proposals": True}).load()
    proposed = proposals(loader("file", settings).load(), seed)
    assert loaded == tuple(lettered(proposed, seed)) and len(loaded) == 6


def test_every_loader_is_a_public_name_with_one_setting_that_must_be_given_and_an_address():
    assert set(PUBLISHED) == set(published_forms())
    for name, kind in LOADERS.items():
        assert getattr(protocols, kind.__name__) is kind and kind.__name__ in protocols.__all__
        first, second = ("arithmetic", "passages") if name == "bundled" else ("x", "y")
        one, other = loader(name, first), loader(name, second)
        assert value_address(one) != value_address(other)
        assert value_address(one) == value_address(loader(name, first))


def test_the_file_loader_reads_from_the_root_it_is_given(tmp_path):
    row = '{"id":"q","question":"?","answers":[{"text":"a","value":1},{"text":"b","value":0}]}'
    (tmp_path / "mine.jsonl").write_text(row)
    assert loader("file", "mine.jsonl").load(tmp_path)[0].id == "q"
    assert loader("file", str(tmp_path / "mine.jsonl")).load(Path("elsewhere"))[0].id == "q"
