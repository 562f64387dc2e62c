"""Loaders of two data sets of questions about a text, for information asymmetry.

Agents read the passage; judges, as a rule, do not. Questions about one text share a `group`, so
that no interval takes them for independent.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ..errors import DatasetError
from ..question import Problem, labelled, randomness
from .loader import FileLoader
from .rows import DataRow, Text, json_rows, read_bytes
from .solution import sense


class BestDistractor(DataRow):
    untimed_best_distractor: int = 0


class QualityQuestion(DataRow):
    question: Text
    # Lists, as JSON has them: strict validation takes no list for a tuple.
    options: Annotated[list[Text], Field(min_length=2)]
    gold_label: Annotated[int, Field(ge=1)]
    validation: list[BestDistractor] = Field(default_factory=list)
    difficult: Literal[0, 1] | None = None
    """1: most annotators with only 45 seconds for the article were wrong."""


class QualityRow(DataRow):
    article: Text
    article_id: str = ""
    set_unique_id: str = ""
    questions: Annotated[list[QualityQuestion], Field(min_length=1)]


class BoolQRow(DataRow):
    question: Text
    passage: Text
    answer: bool


@dataclass(frozen=True, slots=True)
class Quality(FileLoader):
    """QuALITY (Pang et al. 2022, arXiv:2112.08608): articles with questions of four options.

    The wrong answer is the distractor that most annotators found best; ties, and questions without
    annotators, are settled by a draw. Problem `quality-3-7` is question 7 of row 3, also if `hard`.
    Agents quote the article, checked, to a judge who cannot read it, unless `quotes` is set.
    """

    quoted: ClassVar[bool] = True

    hard: bool = False
    """Only the hard subset, QuALITY-HARD, which studies of debate use: questions that most readers
    in a hurry got wrong."""

    def _problems(self, path: Path) -> Iterator[Problem]:
        for place, (line, row) in enumerate(json_rows(str(path), read_bytes(path), QualityRow), 1):
            group = row.article_id or row.set_unique_id or f"quality-{place}"
            for number, asked in enumerate(row.questions, 1):
                if self.hard and asked.difficult == 0:
                    continue
                id, text = f"quality-{place}-{number}", asked.question.strip()
                try:
                    right, wrong = self._answers(asked)
                except ValueError as exc:
                    said = f"questions[{number - 1}].{exc}"
                    raise DatasetError(str(path), line, said) from exc
                chosen = randomness(self.seed, id, "wrong answer").choice(wrong).strip()
                pair = [(right, "", 1.0), (chosen, "", -1.0)]
                yield labelled(id, text, pair, seed=self.seed, passage=row.article, group=group)

    def _answers(self, asked: QualityQuestion) -> tuple[str, list[str]]:
        """The right answer, and the distractors to draw from. ValueError names the field."""
        if self.hard and asked.difficult is None:
            raise ValueError(
                "difficult: missing; `hard: true` needs it, as the authors' own files have it"
            )
        if asked.gold_label > len(asked.options):
            raise ValueError(
                f"gold_label: {asked.gold_label} is no place among {len(asked.options)} options; "
                "places count from 1"
            )
        right = asked.options[asked.gold_label - 1].strip()
        if not (wrong := self._distractors(asked)):
            raise ValueError(f"options: all are the right one, {right!r}; give another")
        return right, wrong

    def _distractors(self, asked: QualityQuestion) -> list[str]:
        """The wrong options that were found best most often; all of them where nobody was asked."""
        right = sense(asked.options[asked.gold_label - 1])
        wrong = [n for n, option in enumerate(asked.options) if sense(option) != right]
        votes = Counter(each.untimed_best_distractor - 1 for each in asked.validation)
        most = max((votes[n] for n in wrong), default=0)
        return [asked.options[n] for n in wrong if votes[n] == most]


@dataclass(frozen=True, slots=True)
class BoolQ(FileLoader):
    """BoolQ (Clark et al. 2019, arXiv:1905.10044): {"question", "passage", "answer"}.

    The answers are yes and no. Problem `boolq-17` is the 17th row.
    """

    def _problems(self, path: Path) -> Iterator[Problem]:
        for place, (_, row) in enumerate(json_rows(str(path), read_bytes(path), BoolQRow), 1):
            value = 1.0 if row.answer else -1.0
            pair = [("yes", "", value), ("no", "", -value)]
            group = hashlib.sha256(row.passage.encode()).hexdigest()[:12]
            asked = row.question.strip().rstrip("?")
            text = f"{asked[:1].upper()}{asked[1:]}?"
            yield labelled(
                f"boolq-{place}", text, pair, seed=self.seed, passage=row.passage, group=group
            )
