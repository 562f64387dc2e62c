"""A person reads the same words as a model, and answers in the form that the role asks for."""

import math
from pathlib import Path

import pytest

from oversight.cache import Call, Reply, Request
from oversight.engine.extensions.people.task import FormField, PersonTask, answer_digests
from oversight.protocols import Case, Declined, DistributionJudge, Judge, Question, Unreadable
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.transcript import Quote, ToolUse, Transcript, Turn
from tests.fakes import CRATES, laid_out
from tests.protocols.judges.test_judges import JUDGES
from tests.sessions import sessions
from tests.tables import expressions
from tests.world import plain, shipment

TRANSCRIPT = Transcript(CRATES).then(
    Turn("Debater A", "It is 48.", CRATES.answers[0]), Turn("Debater B", "No.", CRATES.answers[1])
)


def posted(task: PersonTask, first: float = 80.0) -> dict[str, str]:
    """The form of an obliging person."""
    if task.is_probable:
        others = (100 - first) / (len(task.options) - 1)
        return {f"p{n}": f"{others if n else first}" for n in range(len(task.options))}
    if task.kind == "vote":
        return {"choice": "0", "reason": "The sum is right."}
    if task.kind == "text":
        return {"text": "Look at the second step (A)."}
    return {f"f-{field.name}": filled(field) for field in task.fields}


def filled(field: FormField) -> str:
    match field.kind:
        case "choice":
            return next(iter(field.options))
        case "number" | "whole":
            return "1"
        case "texts" if field.columns:
            row = " | ".join(filled(column) for column in field.columns)
            return f"{row}\n{row} "
        case "texts":
            return "The first step.\nThe second step.\n"
    return "It does not follow."


class Person:
    """An `Ask` that is a person."""

    def __init__(self) -> None:
        self.tasks: list[PersonTask] = []

    async def __call__(self, call: Call) -> Reply:
        task = PersonTask(call)
        self.tasks.append(task)
        return task.reply(task.read(posted(task)), "raters-1")


@pytest.mark.parametrize("name", [name for name in JUDGES if name != "ensemble"])
async def test_every_judge_reads_a_persons_answer(name):
    verdict = await JUDGES[name].judge(TRANSCRIPT, Person())
    # In both orders, the first option is (A) both times, and each answer is (A) once.
    expected = {"both orders": 0.5, "votes": 1.0}.get(name, 0.8)
    assert math.isclose(verdict.probs[0], expected, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("judge", "text"),
    [("stated", "A: 20%\nB: 80%"), ("logprob", "B"), ("votes", "The sum is right.\nAnswer: A")],
)
async def test_answers_of_people_have_the_form_of_a_models(judge, text):
    person = Person()
    await JUDGES[judge].judge(TRANSCRIPT, person)
    task = person.tasks[0]
    assert task.read(posted(task, 20.0)).text == text


@pytest.mark.parametrize("judge", ["stated", "distribution", "logprob"])
@pytest.mark.parametrize("name", PROTOCOLS)
async def test_person_can_take_every_role_of_every_mechanism(name, judge):
    if name == "weak_to_strong":
        judge = "distribution"
    question, person = shipment(0).question, Person()
    verdict = await plain(PROTOCOLS[name], judge=JUDGES[judge]).run(
        question, question.answers[0], person
    )
    assert math.isclose(sum(verdict.probs), 1)
    assert {task.problem for task in person.tasks} == {answer_digests(question)[0]}


async def test_task_parses_question_answers_and_turns_from_the_prompt():
    passage = Question("Who left?", CRATES.answers, "Ada left <b>early</b>.")
    turn = Turn(
        "Consultant",
        "It says <quote>Ada left</quote> and <quote>Ben left</quote>, (A).",
        passage.answers[0],
        tools=(ToolUse("calculator", "4*12", "48"),),
        quotes=(Quote("Ada left", True), Quote("Ben left", False)),
    )
    person = Person()
    await DistributionJudge("person/x", reads_passage=True).judge(
        Transcript(passage).then(turn), person
    )
    task = person.tasks[0]
    text, answers = task.question
    assert text == "Who left?"
    assert answers == (("A", "48\n4 crates x 12 = 48"), ("B", "36\n3 crates x 12 = 36"))
    assert task.passage == "Ada left <b>early</b>."
    assert task.rules == "A judge decides how likely each answer to a question is to be right."
    [(speaker, parts)] = task.turns
    assert speaker == "Consultant"
    assert [(part.kind, part.text) for part in parts] == [
        ("tool", "4*12 → 48"), ("plain", "It says "), ("verified", "Ada left"), ("plain", " and "),
        ("unverified", "Ben left"), ("plain", ", (A)."),
    ]  # fmt: skip
    await DistributionJudge("person/x").judge(Transcript(passage).then(turn), person)
    assert person.tasks[1].passage == ""


async def test_worlds_orders_and_repeats_of_a_question_are_one_problem():
    person = Person()
    both: Judge = DistributionJudge("person/x", both_orders=True)
    await both.judge(Transcript(CRATES), person)
    await both.judge(TRANSCRIPT, person)
    assert len({task.problem for task in person.tasks}) == 1
    assert len({task.request for task in person.tasks}) == 4
    first, second = person.tasks[:2]
    assert first.order == tuple(reversed(second.order))


def speech(*texts: str, side: int | None = 0, task: str = "argue", draw: int = 0) -> PersonTask:
    transcript = Transcript(CRATES, tuple(Turn("Speaker", text) for text in texts))
    argued = "" if side is None else CRATES.answers[side].label
    prompt = laid_out("Rules.", transcript, task, f"Do {task}.", argued)
    return PersonTask(Call(Request("person/raters", prompt), (draw,)))


def typed(first: str, second: str | None, **more: str) -> tuple[float, ...]:
    """The recorded probabilities of the percentages that a person types for two answers."""
    judge = DistributionJudge("person/lay")
    task = PersonTask(Call(judge.compose(judge.shown(Case(TRANSCRIPT), range(2))).request, (0,)))
    fields = {"p0": first} | ({} if second is None else {"p1": second}) | more
    task.read(fields)
    return task.probabilities(fields)


@sessions(Path(__file__).with_name("typed.md"))
def test_typed_percentages_are_recorded_as_meant(session, request):
    names = dict(globals())
    session.check(request, expressions(names), names)


async def test_abstention_is_a_refusal_and_never_a_default():
    async def abstains(call: Call) -> Reply:
        return PersonTask(call).reply(None, "raters-2")

    reply = await abstains(speech("a").call)
    assert (reply.outcome, reply.text, reply.served_model) == ("refused", "", "raters-2")
    for judge in ("stated", "distribution", "logprob", "votes"):
        with pytest.raises(Unreadable) as raised:
            await JUDGES[judge].judge(TRANSCRIPT, abstains)
        assert judge == "logprob" or isinstance(raised.value, Declined), judge
