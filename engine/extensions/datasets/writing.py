"""Wrong answers that models write, for questions that have only a right one.

A question has {"question", "answer", "id"?}, the answer being a solution that ends in a line like
`#### 18` (as in GSM8K's own files), a number, or any text; or it is a problem of our own format, of
which the best answer is taken and the others are ignored.

As in Sudhir et al. 2025 (arXiv:2504.03731), in four steps: the model names mistakes that one could
make (brainstorm), writes a solution that rests on each (drafts), rates how plausible each is
(evaluation), and one of the most plausible is taken (pick). A number must differ from the right one
by more than rounding, and be of its kind; a text must not be a right answer after all. Where we
differ: among about equally plausible drafts we pick the one that balances the rules of the leakage
check over the questions so far.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Literal

import yaml

from ....cache.call import Ask, Call, Message, Request, ResponseFormat, nth
from ....cache.reply import Reply
from ....protocols.datasets.jsonl import problems
from ....protocols.datasets.leak import Balance
from ....protocols.datasets.rows import AnyRow, DataRow, Text, json_rows, read_bytes
from ....protocols.datasets.solution import (
    closing,
    is_apart,
    laid_out,
    number,
    number_text,
    sense,
    steps,
)
from ....protocols.errors import DatasetError, Unreadable, unreadable
from ....protocols.gather import gather_deterministic
from ....protocols.prompts.forms import NUMBER, TEXTS, as_format, fields_of, read_form
from ....protocols.prompts.prompt_set import default_prompts
from ....protocols.prompts.render import Instructions, answer_body
from ....protocols.prompts.words import Words
from ....protocols.question import Answer, Problem, balanced, labelled
from ....protocols.settings import check_numbers, ranged
from ....protocols.tags import escape_and_count, escape_tags


@dataclass(frozen=True, slots=True)
class Known:
    """A question and its right answer, in the form that the wrong one is to have."""

    id: str
    text: str
    right: Answer
    """Without a label."""
    passage: str = ""
    group: str = ""


class KnownRow(DataRow):
    question: Text
    answer: Text
    id: str = ""


def known_questions(path: Path) -> tuple[Known, ...]:
    """All questions of a file, with distinct ids; a row without one is named by file and line.

    DatasetError where the file is wrong.
    """
    data = read_bytes(path)
    _, first = next(json_rows(str(path), data, AnyRow))
    if "answers" in (first.__pydantic_extra__ or {}):
        return tuple(_best(str(path), data))
    return tuple(_answered(path, data))


def _best(file: str, data: bytes) -> Iterator[Known]:
    for problem in problems(file, data):
        question = problem.question
        best = question.answers[problem.best]
        yield Known(
            problem.id, question.text, _right(best.text, best.work), question.passage, problem.group
        )


def _answered(path: Path, data: bytes) -> Iterator[Known]:
    lines: dict[str, int] = {}
    for line, row in json_rows(str(path), data, KnownRow):
        id = row.id or f"{path.stem}-{line}"
        if id in lines:
            raise DatasetError(
                str(path), line, f"id: {id!r} is taken by line {lines[id]}; rename one"
            )
        lines[id] = line
        answer = row.answer.strip()
        final = closing(answer)
        right = _right(answer) if final is None else _right(number_text(final), answer)
        yield Known(id, row.question.strip(), right)


def _right(text: str, work: str = "") -> Answer:
    """The right answer; a number and its solution in the common notation and layout."""
    value = number(text)
    if value is None:
        return Answer("", text, work)
    return Answer("", number_text(value), laid_out(steps(work), number_text(value)) if work else "")


def solution_form(answer: Literal["integer", "number", "string"]) -> ResponseFormat:
    """Steps, and the answer that they come to."""
    return as_format("solution", {"steps": TEXTS, "answer": {"type": answer}})


MISTAKES = as_format("mistakes", {"mistakes": TEXTS})
PLAUSIBILITY = as_format("plausibility", {"plausibility": NUMBER, "right": {"type": "boolean"}})
"""How plausible a wrong answer is, from 0 to 10, and whether it is a right one after all."""

PROMPTS: Mapping[str, str] = yaml.safe_load(
    files(__package__).joinpath("writing.yaml").read_text("utf-8")
)
MAX_PLAUSIBILITY = 10
LEEWAY = 1.0
"""Points of plausibility by which a draft may fall short of the best one and still be picked."""


@dataclass(frozen=True, slots=True)
class Draft:
    answer: Answer
    """Unlabelled, in the form of the right answer: with work only if that has some."""
    plausibility: float
    """In [0, 10]."""


@dataclass(frozen=True, slots=True)
class Generator:
    """The model that writes wrong answers and rates its own drafts."""

    model: str
    temperature: float | None = None
    """None leaves it to the provider."""
    max_tokens: int = ranged(1024)
    drafts: int = ranged(4)
    """How many wrong answers are written for each question."""

    def __post_init__(self) -> None:
        check_numbers(self)

    async def write(self, known: Known, ask: Ask) -> tuple[Draft, ...]:
        """The usable drafts, in order of draw. Unreadable if none is, Declined for a refusal."""
        told = PROMPTS["brainstorm"].format(count=self.drafts)
        reply = await ask(self.compose(known, told, MISTAKES))
        mistakes = read_form(reply, MISTAKES).texts("mistakes")
        if not mistakes:
            raise unreadable("no mistake was named", reply)
        tried = await gather_deterministic(
            *(
                self._draft(known, mistakes[n % len(mistakes)], nth(ask, n))
                for n in range(self.drafts)
            )
        )
        usable = tuple(draft for draft in tried if isinstance(draft, Draft))
        if not usable:
            raise next(fault for fault in tried if isinstance(fault, Unreadable))
        return usable

    def compose(
        self,
        known: Known,
        told: str,
        form: ResponseFormat,
        *,
        wrong: Answer | None = None,
        mistake: str = "",
    ) -> Call:
        """The call that asks for a form. wrong: a draft to show beside the right answer; mistake:
        one that the model named, shown as data."""
        shown = {"passage": known.passage, "question": known.text}
        tags = [f"<{tag}>\n{escape_tags(text)}\n</{tag}>" for tag, text in shown.items() if text]
        parts = [PROMPTS["task"], *tags, _block("right", known.right)]
        if wrong:
            parts.append(_block("wrong", wrong))
        asked = default_prompts().fill("agent.form", fields=fields_of(form))
        todo = Instructions(form.name, Words(told), asked=asked).text()
        if mistake:
            todo = f"<statement>\n{escape_tags(mistake)}\n</statement>\n\n{todo}"
        return Call(
            Request(
                self.model,
                (Message("system", "\n\n".join(parts)), Message("user", todo)),
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                response_format=form,
            )
        )

    async def _draft(self, known: Known, mistake: str, ask: Ask) -> Draft | Unreadable:
        """One draft with its rating, or why it cannot be used."""
        truth = number(known.right.text)
        form = solution_form(_kind(truth))
        reply = await ask(self.compose(known, PROMPTS["draft"], form, mistake=mistake))
        try:
            wrong = _wrong(known.right, truth, reply, form)
            return Draft(wrong, await self._plausibility(known, wrong, ask))
        except Unreadable as fault:
            return fault

    async def _plausibility(self, known: Known, wrong: Answer, ask: Ask) -> float:
        reply = await ask(self.compose(known, PROMPTS["evaluate"], PLAUSIBILITY, wrong=wrong))
        filled = read_form(reply, PLAUSIBILITY)
        if not isinstance(right := filled.fields["right"], bool):
            raise unreadable(f"'right' is {str(right)[:40]!r}, neither true nor false", reply)
        if right:
            raise unreadable(f"the draft {wrong.text[:40]!r} is right after all", reply)
        return filled.number("plausibility", 0, MAX_PLAUSIBILITY)


def picked(
    written: Iterable[tuple[Known, Sequence[Draft]]], *, seed: int = 0
) -> tuple[Problem, ...]:
    """One problem per question: its right answer against one of its drafts, which are not empty.

    Labels are drawn by the seed. A pick depends only on the questions before it.
    """
    balance = Balance()
    return tuple(balanced((_problem(known, drafts, balance) for known, drafts in written), seed))


def _problem(known: Known, drafts: Sequence[Draft], balance: Balance) -> Problem:
    best = max(draft.plausibility for draft in drafts)
    ranked = sorted(drafts, key=lambda draft: -draft.plausibility)
    offered = [draft.answer for draft in ranked if draft.plausibility >= best - LEEWAY]
    wrong = offered[balance.choose([(known.right, each) for each in offered])]
    pair = [(known.right.text, known.right.work, 1.0), (wrong.text, wrong.work, -1.0)]
    return labelled(known.id, known.text, pair, seed=None, passage=known.passage, group=known.group)


def _wrong(right: Answer, truth: Decimal | None, reply: Reply, form: ResponseFormat) -> Answer:
    """The answer of a draft, in the form of the right one. Unreadable if it could be right."""
    filled = read_form(reply, form)
    said, _ = escape_and_count(str(filled.fields["answer"]).strip())
    reasoned = [escape_and_count(step)[0] for step in filled.texts("steps")]
    if truth is None:
        if not said or sense(said) == sense(right.text):
            raise unreadable(f"the draft comes to {said[:40]!r}, as the right answer does", reply)
        return Answer("", said, "\n".join(reasoned) if right.work else "")
    final = number(said)
    if final is None or not is_apart(truth, final):
        raise unreadable(
            f"the draft comes to {said[:40]!r}: not another number of the kind of "
            f"{number_text(truth)}",
            reply,
        )
    text = number_text(final)
    return Answer("", text, laid_out(steps("\n".join(reasoned)), text) if right.work else "")


def _kind(truth: Decimal | None) -> Literal["integer", "number", "string"]:
    if truth is None:
        return "string"
    return "integer" if truth == truth.to_integral_value() else "number"


def _block(label: str, answer: Answer) -> str:
    return f'<answer label="{label}">\n{answer_body(answer)}\n</answer>'
