"""Loaders by name; what a data set holds and shares with another, and what is proposed of it."""

import re
from pathlib import Path

from msgspec.structs import replace

from oversight import protocols
from oversight.cache import Call, value_address
from oversight.protocols import Answer, NaiveJudge, Problem, Question, StatedJudge, labelled
from oversight.protocols.datasets.bundled import Bundled, bundled
from oversight.protocols.datasets.catalogue import LOADERS, loader
from oversight.protocols.datasets.inventory import Inventory, inventory
from oversight.protocols.datasets.overlap import overlap
from oversight.protocols.datasets.proposals import ACCEPT, REJECT, proposals
from oversight.protocols.question import balanced
from tests.fakes import APPLES, Scripted, prompt


def problem(id, text, best=0, count=2, passage="", group=""):
    answers = tuple(Answer("ABCD"[n], f"answer {n}") for n in range(count))
    values = tuple(1.0 if n == best else -1.0 for n in range(count))
    return Problem(id, Question(text, answers, passage), values, group)


def test_problems_answers_labels_passages_and_groups_are_counted():
    held = inventory(
        [
            problem("a", "Who?", best=1, passage="One.", group="1"),
            problem("b", "What?", best=1, passage="One.", group="1"),
            problem("c", "Where?", count=4, passage="Two."),
            problem("d", "When?"),
        ]
    )
    assert held == Inventory(4, ((2, 3), (4, 1)), (("A", 2), ("B", 2)), 2, 3, ())


def test_a_question_that_stands_twice_is_found_but_for_case_and_spaces():
    problems = [
        problem("a", "Who came?"),
        problem("b", "Who went?"),
        problem("c", " who  CAME?", best=1),
        problem("d", "Who came?", passage="Another story."),
        problem("e", "Who came?"),
    ]
    assert inventory(problems).duplicates == (("a", "c", "e"),)


PAIR = [("yes", "", 1.0), ("no", "", -1.0)]


def about(id: str, text: str, passage: str = "") -> Problem:
    return labelled(id, text, PAIR, passage=passage)


def test_an_example_that_is_a_problem_is_named_with_it_by_id_or_by_text():
    problems = [
        about("a", "Is it?"),
        about("b", "Was it?"),
        about("c", "Will it be?"),
    ]
    examples = [
        about("b", "In other words?"),
        about("x", " is  IT? "),
        about("y", "No?"),
    ]
    assert overlap(problems, examples) == (("b", "b"), ("a", "x"))


def test_one_question_about_two_passages_is_two():
    assert overlap([about("a", "Why?", "One.")], [about("b", "Why?", "Two.")]) == ()
    assert overlap([about("a", "Why?", "One.")], [about("b", "Why?", "one.")]) == (("a", "b"),)


def test_what_has_no_text_in_common_does_not_overlap():
    assert overlap([], [about("a", "Is it?")]) == overlap([about("a", "Is it?")], []) == ()


WRONG = [(f"wrong {n}", "", -1.0) for n in range(3)]
FOUR = labelled("four", "Which?", [("right", "because", 1.0), *WRONG], passage="Text.", group="g")


def accepted(problem: Problem) -> float:
    """The value of accepting what is proposed."""
    texts = [answer.text for answer in problem.question.answers]
    assert sorted(texts) == sorted((ACCEPT, REJECT))
    assert sum(problem.values) == 0
    return problem.values[texts.index(ACCEPT)]


def test_of_each_problem_the_right_answer_is_proposed_and_one_wrong_one():
    for problem in (APPLES, FOUR):
        proposed = list(proposals([problem]))
        assert sorted(map(accepted, proposed)) == [-1, 1]
        for each in proposed:
            shown = each.question.text.partition("\n\nProposed answer: ")[2]
            of = {
                f"{a.text}\n{a.work}".strip(): v
                for a, v in zip(problem.question.answers, problem.values, strict=True)
            }
            assert of[shown] == accepted(each)
            assert each.question.passage == problem.question.passage
            assert each.group == (problem.group or problem.id)
        assert len({each.id for each in proposed}) == 2


def test_which_wrong_answer_is_proposed_depends_on_seed_and_id_alone():
    def drawn(id: str, seed: int) -> set[str]:
        return {each.question.text for each in proposals([replace(FOUR, id=id)], seed)}

    assert drawn("x", 1) == drawn("x", 1)
    assert len({frozenset(drawn(str(n), 0)) for n in range(30)}) == 3


async def test_who_accepts_whatever_is_proposed_has_no_agent_score_difference():
    """The known truth: a judge who always accepts is right about right proposals and wrong about
    wrong ones, of which there are as many: +2 and -2 by Brier, 0 in the mean. One who can tell
    has 2 for each, though it is shown the proposal alone."""
    data = bundled("arithmetic")[:10]
    asked = list(proposals(data))
    right = {p.question.answers[p.best].text for p in data}

    def judge(call: Call, credulous: bool) -> str:
        system = prompt(call).system
        accept = re.findall(rf'label="(\w)">\n{re.escape(ACCEPT)}', system)[0]
        reject = re.findall(rf'label="(\w)">\n{re.escape(REJECT)}', system)[0]
        text = system.partition("Proposed answer: ")[2].split("\n")[0]
        yes = credulous or text in right
        return f"{accept}: {100 if yes else 0}%\n{reject}: {0 if yes else 100}%"

    for credulous, expected in ((True, [-2, 2]), (False, [2])):
        ask = Scripted(lambda call, credulous=credulous: judge(call, credulous))
        asd = [
            await NaiveJudge(StatedJudge("judge")).agent_score_difference(each, ask)
            for each in asked
        ]
        assert sorted(set(asd)) == expected
        assert sum(asd) / len(asd) == (0 if credulous else 2)


def test_a_loader_asks_so_where_its_settings_say_so():
    made = loader("bundled", {"name": "arithmetic", "limit": 3, "proposals": True})
    assert made.load() == tuple(balanced(proposals(Bundled("arithmetic", limit=3).load())))
    assert sum(problem.best for problem in made.load()) == 3
    assert len(made.load()) == 6


def test_every_loader_is_a_public_name():
    for kind in LOADERS.values():
        assert getattr(protocols, kind.__name__) is kind
        assert kind.__name__ in protocols.__all__


def test_every_loader_has_one_setting_that_must_be_given_and_an_address():
    for name in LOADERS:
        first, second = ("arithmetic", "passages") if name == "bundled" else ("x", "y")
        one, other = loader(name, first), loader(name, second)
        assert value_address(one) != value_address(other)
        assert value_address(one) == value_address(loader(name, first))


def test_the_file_loader_reads_from_the_root_it_is_given(tmp_path):
    row = '{"id":"q","question":"?","answers":[{"text":"a","value":1},{"text":"b","value":0}]}'
    (tmp_path / "mine.jsonl").write_text(row)
    assert loader("file", "mine.jsonl").load(tmp_path)[0].id == "q"
    assert loader("file", str(tmp_path / "mine.jsonl")).load(Path("elsewhere"))[0].id == "q"
