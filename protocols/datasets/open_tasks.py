"""Open tasks: answers that an agent writes itself, graded by a checker (arXiv:2605.27483).

An agent is instructed to solve a task right, or to plant a fault, or it solves the task freely. The
truth of a proposal is the checker's grade, never the instruction. Graded proposals become a
separate data set, so that every protocol judges the same ones."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from msgspec import structs

from ...cache.call import Ask, Call, ResponseFormat
from ..agents.agent import Agent, RolePrompt
from ..agents.tool import Allowance, Scene, ask_with_tools
from ..errors import DatasetError
from ..prompts.forms import TEXT, as_format, read_form
from ..prompts.prompt_set import NOTHING, PromptSet, default_prompts
from ..question import Answer, Problem, Question, labelled
from ..tags import escape_tags
from ..transcript import Transcript
from .checkers import Checker, Grade, extracted
from .columns import has_column, is_missing, lookup, optional_text, seen, text_of, value_of
from .leak import Balance
from .loader import proposal
from .rows import Row, each_record, strict

Instruction: TypeAlias = Literal["right", "fault", "free"]
"""right: solve it correctly. fault: plant one fault, and name it. free: solve it."""

MAX_ANSWER = 4_000
"""Maximum characters of an answer."""
CANDIDATES = 8
"""Maximum number of right and of wrong proposals of one task that a pair is chosen from."""


def instruction_of(id: str) -> tuple[str, str]:
    """The instruction and the task in the id of a proposal, `TASK-fault-0`. Empty for other ids."""
    name, _, repeat = id.rpartition("-")
    task, _, instruction = name.rpartition("-")
    is_proposal = task and instruction in get_args(Instruction) and repeat.isdecimal()
    return (instruction, task) if is_proposal else ("", "")


class OpenQuestion(Question, frozen=True, cache_hash=True):
    """A question without answers to choose from."""

    def __post_init__(self) -> None:
        if self.answers:
            raise ValueError("an open question lists no answers")


class Proposal(NamedTuple):
    """An answer to an open task."""

    work: str
    """The solution as others read it. Empty if absent."""
    answer: str
    fault: str = ""
    """The planted fault. Only measures read it."""


class Task(NamedTuple):
    """An open task, and the truth that its checker knows."""

    id: str
    question: OpenQuestion
    truth: Any
    """From `Checker.truth`."""
    row: Row
    group: str
    """The task's id, unless the file names a group."""
    existing: Proposal | None = None
    """The answer that somebody wrote. None: an agent is asked."""
    line: int = 0
    """Of the file."""


class Graded(NamedTuple):
    id: str
    task: Task
    proposal: Proposal
    grade: Grade


def read_tasks(
    path: Path, checker: Checker, question: str = "question", answers: str = ""
) -> tuple[Task, ...]:
    """The tasks of a file, with distinct ids. DatasetError for the first wrong row. question,
    answers: names of columns. answers: empty if an agent is to write them."""
    tasks, lines = list[Task](), dict[str, int]()
    for line, row in strict(each_record(path)):
        try:
            for name in (question, answers, checker.column if checker.compares else ""):
                if name and not has_column(row, name):
                    names = ", ".join(row)[:200]
                    raise ValueError(f"no column {name!r}; name yours, one of {names}")
            id = optional_text(row, "id").strip() or f"{path.stem}-{line}"
            if not id.isprintable():
                raise ValueError(f"id: {id!r} is not one line of text")
            if id in lines:
                raise ValueError(f"id: {id!r} is taken by line {lines[id]}; rename one")
            lines[id] = line
            passage, environment, group = (
                optional_text(row, name) for name in ("passage", "environment", "group")
            )
            text = text_of(question, value_of(row, question))
            if not text.strip():
                raise ValueError(f"{question}: has no text in it; write the task")
            open_question = OpenQuestion(text, (), passage, environment=environment)
            truth = checker.truth(lookup(row, checker.column))
            answer = lookup(row, answers) if answers else None
            existing = None
            if answers:
                work, fault = optional_text(row, "work"), optional_text(row, "fault")
                existing = Proposal(work, "" if is_missing(answer) else str(answer), fault)
            tasks.append(Task(id, open_question, truth, row, group or id, existing, line))
        except ValueError as exc:
            raise DatasetError(str(path), line, str(exc)) from exc
    return tuple(tasks)


async def check_references(tasks: Sequence[Task], checker: Checker, file: str) -> None:
    """DatasetError for a task whose own `reference` solution is not graded right."""
    for task in tasks:
        if reference := optional_text(task.row, "reference"):
            grade = await checker.grade(reference, task.truth, task.row)
            if not grade.right:
                reason = grade.reason or "wrong"
                message = f"reference: {task.id}: its own reference is graded {reason}; fix one"
                raise DatasetError(file, task.line, message)


def form(instruction: Instruction) -> ResponseFormat:
    fields = {"work": TEXT, "answer": TEXT} | ({"fault": TEXT} if instruction == "fault" else {})
    return as_format("proposal", fields)


def compose(
    task: Task, agent: Agent, instruction: Instruction, prompts: PromptSet | None = None
) -> Call:
    """The call for a proposal: one form, with the agent's tools."""
    stance = (prompts or default_prompts()).text(f"open_tasks.{instruction}")
    if agent.scratchpad and agent.reason == "none":
        agent = replace(agent, reason="private")
    prompt = RolePrompt("Proposer", NOTHING, stance, prompts=prompts)
    call = agent.compose(Transcript(task.question), None, prompt, form=form(instruction))
    tools = tuple(agent.toolbox[tool].spec for tool in agent.tools)
    return structs.replace(call, request=structs.replace(call.request, tools=tools))


async def propose(
    task: Task, agent: Agent, instruction: Instruction, ask: Ask, prompts: PromptSet | None = None
) -> Proposal:
    """A proposal that the agent writes under an instruction. Unreadable if its reply is not the
    form, Declined for a refusal."""
    allowed = Allowance(agent.toolbox, agent.tools, agent.budget)
    call, context = compose(task, agent, instruction, prompts), Scene(task.question, None)
    reply, _ = await ask_with_tools(call, ask, allowed, context)
    filled = read_form(reply, form(instruction), ("work", "fault"))
    answer = filled.fields["answer"]
    is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
    work, fault = (str(filled.fields.get(key) or "") for key in ("work", "fault"))
    return Proposal(
        agent.shown(work, agent.words).text,
        str(answer) if is_number else filled.text("answer"),
        agent.shown(fault, agent.words).text,
    )


async def graded(id: str, task: Task, written: Proposal, checker: Checker) -> Graded:
    """The proposal with its grade. An answer that was found in a longer text has that as work."""
    grade = await checker.grade(written.answer, task.truth, task.row)
    if checker.extract and grade.right is not None:
        answer = extracted(written.answer, checker.extract)
        written = written._replace(work=written.work or written.answer, answer=answer)
    if len(written.answer) > MAX_ANSWER:
        grade = Grade(None, f"an answer of over {MAX_ANSWER:,} characters")
    return Graded(id, task, written, grade)


def accept_or_reject(one: Graded) -> Problem:
    """A graded proposal as a problem: accept it or reject it. Its labels are not drawn yet."""
    flaw = "" if one.grade.right else one.proposal.fault
    return proposal(
        one.id,
        one.task.question,
        _answer(one),
        bool(one.grade.right),
        group=one.task.group,
        flaw=flaw,
    )


def _answer(one: Graded) -> Answer:
    return Answer("", escape_tags(one.proposal.answer), escape_tags(one.proposal.work))


def pairs(proposals: Sequence[Graded]) -> tuple[list[Problem], Counter[str]]:
    """For each task a right and a wrong proposal, as the two answers of a problem, and the number
    of tasks without both, by reason. Labels are not drawn yet. Among the first proposals the pair
    is chosen that balances the rules of the leakage check. Answers that others wrote belong to the
    task that their group names."""
    by_task = defaultdict[str, dict[bool, list[Graded]]](lambda: {True: [], False: []})
    missing, problems, balance = Counter[str](), list[Problem](), Balance()
    for one in proposals:
        by_grade = by_task[one.task.group if one.task.existing else one.task.id]
        if one.grade.right is not None:
            by_grade[one.grade.right].append(one)
    for id, by_grade in by_task.items():
        rights, wrongs = (by_grade[is_right][:CANDIDATES] for is_right in (True, False))
        if not (rights and wrongs):
            missing["all right" if rights else "all wrong" if wrongs else "all ungraded"] += 1
            continue
        choices = [
            (right, wrong)
            for right, wrong in product(rights, wrongs)
            if seen(right.proposal.answer) != seen(wrong.proposal.answer)
        ]
        if not choices:
            missing["one text graded both ways"] += 1
            continue
        right, wrong = choices[balance.choose([(_answer(r), _answer(w)) for r, w in choices])]
        best, other = _answer(right), _answer(wrong)
        flaw, question = wrong.proposal.fault, right.task.question
        problems.append(
            labelled(
                id,
                question.text,
                [(best.text, best.work, 1.0), (other.text, other.work, -1.0)],
                seed=None,
                passage=question.passage,
                group=right.task.group,
                flaws=("", flaw) if flaw else (),
                environment=question.environment,
            )
        )
    return problems, missing
