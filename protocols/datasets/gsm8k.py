"""GSM8K, grade-school word problems (Cobbe et al. 2021, arXiv 2110.14168).

Reads the folder as its authors published it: `test.jsonl` for the questions and their order, and
`example_model_solutions.jsonl` for the true solution and for the false ones that models wrote."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from operator import eq
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from pydantic import ConfigDict

from ..errors import DatasetError
from ..question import Answer, Problem, labelled, randomness
from .leak import Balance
from .loader import Notes, RowLoader
from .rows import DataRow, RowModel, Text, each_row, read_bytes
from .solution import closing, is_apart, laid_out, number, number_text, steps

QUESTIONS = "test.jsonl"
SOLUTIONS = "example_model_solutions.jsonl"

MOST_LEAN = 5
"""How much oftener an author may be right than wrong, or wrong than right."""

Offer: TypeAlias = tuple[str, Answer]
"""A solution with its author, empty for the person who wrote the true one."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class QuestionRow(DataRow):
    question: Text
    answer: Text


class ModelSolution(DataRow):
    is_correct: bool
    solution: str


class SolutionRow(DataRow):
    """A question, its true solution, and under the name of each model what that model wrote."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ModelSolution]

    question: Text
    ground_truth: Text


@dataclass(frozen=True, slots=True)
class Gsm8k(RowLoader):
    """GSM8K with a true solution against a false one that a model really wrote.

    A problem is called `gsm8k-17` after its line in `test.jsonl`. Both solutions are laid out in
    one format. A model's solution serves as the wrong one if it is marked incorrect, comes to
    another number than the truth (by more than rounding could explain), and to one of the same
    kind (whole where the truth is whole, of the same sign); and if its last step mentions the
    number: else the file's own reading of it went wrong, and it may well be right. Problems that
    no model got wrong in this way are left out: 1,115 of the 1,319 remain.

    Even in one layout, true solutions have more steps: a judge that just prefers more numbers gets
    62 % right. So of all pairs for a question the loader takes the one that balances the rules of
    the leakage check over the problems so far (`Balance`), which keeps every rule within about a
    point of chance. The style remains. Where models wrote both, each of them is right as often
    as wrong: a question that would tip that is left out, and 443 remain, on which a classifier of
    wording is at chance. It gets 67 % where the true solution is a person's; `rewriting` helps."""

    balances: ClassVar[bool] = True

    folder: str
    right: Literal["model", "person"] = "model"
    """Author of the true solution: a model that was marked correct, or a person, whose style gives
    it away (1,115 problems)."""
    balanced: bool = True
    """False draws the pair from (seed, id) alone; the leaks of form and of style stay in."""

    def _problems(self, root: Path, notes: Notes) -> Iterator[tuple[str, Problem]]:
        folder = root / self.folder
        questions = _good(folder / QUESTIONS, QuestionRow, notes)
        if self.shuffle:
            questions.sort(key=lambda row: self._rank(_id(row[0])))
        solutions = _solutions(folder / SOLUTIONS, notes)
        balance, leans, count = Balance(), Counter[str](), 0
        for line, row in questions:
            id, question = _id(line), row.question.strip()
            if question not in solutions:
                continue
            at, solution = solutions[question]
            try:
                truth = _truth(folder, line, row, at, solution)
            except DatasetError as fault:
                notes.bad.append(fault)
                continue
            if count == self.limit:
                # The rest is only checked: a pair depends on those before it, and takes time.
                continue
            # In an order drawn from (seed, id).
            written = sorted((solution.__pydantic_extra__ or {}).items())
            randomness(self.seed, id, "model solutions").shuffle(written)
            right = [("", _answer(steps(solution.ground_truth), truth))]
            if self.right == "model":
                right = _offers(written, True, partial(eq, truth))
            wrong = _offers(written, False, partial(is_apart, truth))
            pairs = [(r, w) for r in right for w in wrong]
            if self.balanced:
                pairs = [(r, w) for r, w in pairs if not r[0] or _even(leans, r[0], w[0])]
            if not pairs:
                continue
            n = balance.choose([(r, w) for (_, r), (_, w) in pairs]) if self.balanced else 0
            (author, best), (other, chosen) = pairs[n]
            leans[author] += 1
            leans[other] -= 1
            pair = [(best.text, best.work, 1.0), (chosen.text, chosen.work, -1.0)]
            count += 1
            yield id, labelled(id, question, pair, seed=None)
        if not count and not notes.bad:
            raise DatasetError(
                str(folder),
                0,
                f"no question of {QUESTIONS} has solutions in {SOLUTIONS} that could serve; "
                "are both of one release?",
            )


def _id(line: int) -> str:
    return f"gsm8k-{line}"


def _even(leans: Counter[str], right: str, wrong: str) -> bool:
    """Whether two authors would still be about as often right as wrong."""
    return leans[right] < MOST_LEAN and leans[wrong] > -MOST_LEAN


def _offers(
    written: Sequence[tuple[str, ModelSolution]], correct: bool, fits: Callable[[Decimal], bool]
) -> list[Offer]:
    """Solutions whose mark is `correct` and whose final number fits, in their order."""
    return [
        (author, _answer(reasoned, final))
        for author, solution in written
        if solution.is_correct == correct
        and (final := closing(solution.solution)) is not None
        and fits(final)
        and _names(reasoned := steps(solution.solution), final)
    ]


def _answer(reasoned: Sequence[str], final: Decimal) -> Answer:
    """An unlabelled answer."""
    text = number_text(final)
    return Answer("", text, laid_out(reasoned, text))


def _good(path: Path, model: type[RowModel], notes: Notes) -> list[tuple[int, RowModel]]:
    """(line, row) of the rows of a file that fit; the others go to the notes."""
    return list(notes.good(each_row(str(path), read_bytes(path), model)))


def _solutions(path: Path, notes: Notes) -> dict[str, tuple[int, SolutionRow]]:
    """(line, row) of each question's solutions."""
    by_question: dict[str, tuple[int, SolutionRow]] = {}
    for line, row in _good(path, SolutionRow, notes):
        question = row.question.strip()
        if question in by_question:
            first = by_question[question][0]
            fault = DatasetError(str(path), line, f"the question of line {first} again; remove one")
            notes.bad.append(fault)
            continue
        by_question[question] = line, row
    return by_question


def _truth(
    folder: Path, line: int, question: QuestionRow, at: int, solution: SolutionRow
) -> Decimal:
    """The true number, which both files must agree on."""
    truth = closing(question.answer)
    if truth is None:
        last = question.answer.strip().rpartition("\n")[2]
        raise DatasetError(
            str(folder / QUESTIONS), line, f"answer: ends in {last!r}, not in a line like #### 18"
        )
    if (solved := closing(solution.ground_truth)) != truth:
        raise DatasetError(
            str(folder / SOLUTIONS),
            at,
            f"ground_truth: comes to {solved}, and {QUESTIONS}:{line} to {truth}; fix one",
        )
    return truth


def _names(reasoned: Sequence[str], final: Decimal) -> bool:
    """Whether the last step mentions the number that the solution is said to come to."""
    return bool(reasoned) and abs(final) in {
        abs(number(text) or 0) for text in _NUMBER.findall(reasoned[-1])
    }
