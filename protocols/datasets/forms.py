"""The forms of data sets: which column is what, and what is special in each published one.

A file of one's own is in our format, or a table with the columns `question`, `answer`, which is
right, and `wrong`, and perhaps `wrong_2`, `wrong_3`, `id`, `passage` and `group`; other names are
mapped by `columns`.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from ..errors import DatasetError
from ..question import LABELS, Problem
from ..settings import ranged
from .columns import Columns, asked, columns_of, drawn
from .jsonl import problems
from .loader import FileLoader
from .rows import read_bytes
from .solution import sense
from .tabular import TABLES, Row, records

Placed: TypeAlias = tuple[str, int, str, Row]
"""A row with its file, its line, and the name of its problem unless a column holds one."""

NO_COMMENT = "i have no comment"
"""TruthfulQA lists it among right answers only, so it would give the label away."""

_OPTIONS = {"question": "question", "choices": "options"}


def _form(**named: object) -> Columns:
    return Columns.model_validate(named)


@dataclass(frozen=True, slots=True)
class Form(FileLoader):
    """A table with columns of known names."""

    forms: ClassVar[Sequence[Columns]] = ()
    """The columns of each form that it is published in; the first that fits the first row."""

    answers: int | None = ranged(2, least=2, most=len(LABELS))
    """How many answers a problem has, the right one included; fewer where a row has fewer."""

    def _problems(self, path: Path) -> Iterator[Problem]:
        return self.read(self._placed(path), self.forms)

    def _placed(self, path: Path) -> Iterator[Placed]:
        for place, (line, row) in enumerate(records(path), 1):
            yield str(path), line, f"{type(self).__name__.lower()}-{place}", row

    def read(self, rows: Iterable[Placed], forms: Sequence[Columns]) -> Iterator[Problem]:
        """The problems in the rows, read lazily. forms: the first that fits the first row is that
        of all. DatasetError where a row is wrong."""
        columns: Columns | None = None
        lines: dict[str, int] = {}
        for file, line, id, row in rows:
            columns = columns or next((each for each in forms if each.fit(row)), forms[0])
            try:
                for number, inner in enumerate(columns.unnested(row), 1):
                    name = f"{id}-{number}" if isinstance(row.get(columns.within), list) else id
                    if columns.id and str(inner.get(columns.id) or "").strip():
                        name = str(inner[columns.id]).strip()
                    name = self._name(name, inner, columns)
                    if not self._takes(inner):
                        continue
                    if name in lines:
                        raise ValueError(f"id: {name!r} is taken by line {lines[name]}; rename one")
                    lines[name] = line
                    right, wrong = self._answers(inner, columns)
                    yield drawn(
                        name,
                        self._question(inner, columns),
                        right,
                        wrong,
                        answers=self.answers,
                        seed=self.seed,
                        passage=str(inner.get(columns.passage) or ""),
                        group=str(inner.get(columns.group) or ""),
                    )
            except ValueError as exc:
                raise DatasetError(file, line, str(exc)) from exc
        if columns is not None and not lines:
            raise DatasetError(file, 0, "has no question that these settings take")

    def _takes(self, row: Row) -> bool:
        return True

    def _name(self, name: str, row: Row, columns: Columns) -> str:
        return name

    def _question(self, row: Row, columns: Columns) -> str:
        return asked(row, columns)

    def _answers(self, row: Row, columns: Columns) -> tuple[list[str], list[str]]:
        return columns.answers(row)


_TABLE = _form(
    question="question",
    answer="answer",
    wrong=("wrong", "wrong_2", "wrong_3"),
    id="id",
    passage="passage",
    group="group",
)


@dataclass(frozen=True, slots=True)
class JsonLines(FileLoader):
    """Problems from a file in our own format, JSON Lines or a table (CSV). A line of JSON Lines:
    `{"id": …, "question": …, "answers": [{"text": …, "value": …}, …]}`, with +1 for true and -1
    for false, or any grades. An answer may have a `label`, `work` (a solution that everybody
    may read) and a `flaw` (what is wrong in it, for nobody to read), a problem a `passage` and
    a `group`. A table has the columns `question`, `answer`, which is right, and `wrong`, and
    may have `wrong_2`, `wrong_3`, `id`, `passage` and `group`.
    """

    names_rows: ClassVar[bool] = True

    relabel: bool = False
    """Label the answers A, B, C … in an order drawn by the seed, whatever labels the file has. Rows
    without labels are always labelled so."""
    columns: dict[str, str | int | list[str]] | None = None
    """Which column of somebody else's table is what: {question: …, answer: …, wrong: …}, or
    {question: …, choices: …, answer: …}; CSV, TSV, JSON Lines, Parquet or Arrow."""
    answers: int | None = None
    """How many answers a problem of a table has, the right one included; None for all."""

    def __post_init__(self) -> None:
        super(JsonLines, self).__post_init__()
        if self.columns is not None:
            columns_of(self.columns)

    def _problems(self, path: Path) -> Iterator[Problem]:
        if self.columns is None and path.suffix.lower() not in TABLES:
            return problems(str(path), read_bytes(path), self.relabel)
        forms = [_TABLE] if self.columns is None else [columns_of(self.columns)]
        table = Form(self.path, answers=self.answers, seed=self.seed)
        rows = ((str(path), line, f"{path.stem}-{line}", row) for line, row in records(path))
        return table.read(rows, forms)


@dataclass(frozen=True, slots=True)
class Mmlu(Form):
    """MMLU (Hendrycks et al. 2021, arXiv:2009.03300): `question`, `choices` (or one column for
    each, `A` to `D`), and in `answer` the number of one from 0, or its letter."""

    forms = (
        _form(question="question", choices="choices", answer="answer"),
        _form(question="question", choices=tuple("ABCD"), answer="answer"),
    )

    subject: str = ""
    """Take only this subject, such as `anatomy`; empty takes all."""

    def _takes(self, row: Row) -> bool:
        return self.subject in ("", row.get("subject", ""))


@dataclass(frozen=True, slots=True)
class MmluPro(Form):
    """MMLU-Pro (Wang et al. 2024, arXiv:2406.01574): `options`, and in `answer` a letter."""

    forms = (_form(**_OPTIONS, answer="answer"),)


@dataclass(frozen=True, slots=True)
class SuperGpqa(Form):
    """SuperGPQA (Du et al. 2025, arXiv:2502.14739): `options`, and a letter in `answer_letter`."""

    forms = (_form(**_OPTIONS, answer="answer_letter"),)


@dataclass(frozen=True, slots=True)
class LogiQa(Form):
    """LogiQA (Liu et al. 2020, arXiv:2007.08124), and LogiQA 2.0: the text is asked with the
    question, since no judge could answer without it."""

    forms = (
        _form(question=("context", "query"), choices="options", answer="correct_option"),
        _form(question=("text", "question"), choices="options", answer="answer"),
    )


@dataclass(frozen=True, slots=True)
class Gpqa(Form):
    """GPQA (Rein et al. 2023, arXiv:2311.12022): its CSV with `Question`, `Correct Answer` and
    `Incorrect Answer 1` to 3. Problem `gpqa-1a2b3c4d` is named by a hash of its question's text."""

    forms = (
        _form(
            question="Question",
            answer="Correct Answer",
            wrong=tuple(f"Incorrect Answer {n}" for n in (1, 2, 3)),
        ),
    )

    def _name(self, name: str, row: Row, columns: Columns) -> str:
        # The file is published in several subsets, so row numbers identify nothing.
        return f"gpqa-{hashlib.sha256(asked(row, columns).encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class TruthfulQa(Form):
    """TruthfulQA (Lin et al. 2022, arXiv:2109.07958): its `TruthfulQA.csv`, or rows {"question",
    "correct_answers", "incorrect_answers"}. The right answer is drawn as well, from those that
    say something. Problem `truthfulqa-17` is row 17."""

    forms = (
        _form(question="question", answer="correct_answers", wrong="incorrect_answers"),
        _form(
            question="Question", answer="Correct Answers", wrong="Incorrect Answers", separator=";"
        ),
    )

    def _answers(self, row: Row, columns: Columns) -> tuple[list[str], list[str]]:
        right, wrong = super(TruthfulQa, self)._answers(row, columns)
        return _informative(right) or right, _informative(wrong)


@dataclass(frozen=True, slots=True)
class Quality(Form):
    """QuALITY (Pang et al. 2022, arXiv:2112.08608): articles with questions of four options.

    The wrong answer is the distractor that most annotators found best; ties, and questions without
    annotators, are settled by a draw. Problem `quality-3-7` is question 7 of row 3, also if `hard`.
    Agents quote the article, checked, to a judge who cannot read it, unless `quotes` is set.
    """

    quoted: ClassVar[bool] = True
    forms = (
        _form(
            **_OPTIONS,
            answer="gold_label",
            first=1,
            within="questions",
            passage="article",
            group="article_id",
        ),
        _form(**_OPTIONS, answer="answer", passage="article"),
    )

    hard: bool = False
    """Only the hard subset, QuALITY-HARD, which studies of debate use: questions that most readers
    in a hurry got wrong."""

    def _takes(self, row: Row) -> bool:
        if not self.hard:
            return True
        if (hard := row.get("difficult", row.get("hard"))) is None:
            raise ValueError(
                "difficult: missing; `hard: true` needs it, as the authors' own files have it"
            )
        return bool(hard)

    def _answers(self, row: Row, columns: Columns) -> tuple[list[str], list[str]]:
        right, _ = super(Quality, self)._answers(row, columns)
        options = [str(each) for each in row["options"]]
        wrong = [n for n, option in enumerate(options) if sense(option) != sense(right[0])]
        votes = Counter(each["untimed_best_distractor"] - 1 for each in row.get("validation") or ())
        most = max((votes[n] for n in wrong), default=0)
        return right, [options[n] for n in wrong if votes[n] == most]


@dataclass(frozen=True, slots=True)
class BoolQ(Form):
    """BoolQ (Clark et al. 2019, arXiv:1905.10044): {"question", "passage", "answer"}.

    The answers are yes and no. Problem `boolq-17` is the 17th row.
    """

    forms = (_form(question="question", answer="answer", passage="passage"),)

    def _question(self, row: Row, columns: Columns) -> str:
        text = super(BoolQ, self)._question(row, columns).strip().rstrip("?")
        return f"{text[:1].upper()}{text[1:]}?"

    def _answers(self, row: Row, columns: Columns) -> tuple[list[str], list[str]]:
        right, _ = super(BoolQ, self)._answers(row, columns)
        return (["yes"], ["no"]) if right[0] in ("True", "yes") else (["no"], ["yes"])


@dataclass(frozen=True, slots=True)
class ProntoQa(Form):
    """PrOntoQA (Saparov and He 2023, arXiv:2210.01240): is a statement true in a made-up ontology?

    The authors' own JSON, `{"example1": {…, "test_example": ROW}, …}`, or ROWs, one a line. A ROW
    is {"question", "query", "chain_of_thought", "answer"}. The chain of thought proves the right
    answer only, so nobody is shown it. Files made for proofs only have no answers.
    """

    forms = (
        _form(question=("question", "query"), answer="answer"),
        _form(question=("question", "query"), answer="answer", within="test_example"),
    )


def _informative(answers: Iterable[str]) -> list[str]:
    return [each for each in answers if each.strip(" .").casefold() != NO_COMMENT]
