"""SOlib's data files: two numbers a question, each with a proof (arXiv 2504.03731).

A JSON array, or JSON Lines, of {"question", "answer_correct": {"numeric", "proof"},
"answer_incorrect": {"numeric", "proof"}}; other fields are ignored.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import FiniteFloat, field_validator

from ..errors import DatasetError
from ..question import Problem, labelled
from .loader import Loader
from .rows import DataRow, Text, each_row, read_bytes
from .solution import laid_out, number, number_text, steps

logger = logging.getLogger(__name__)

LISTED = 50
"""Maximum number of bad rows that an error lists."""


class NumericAnswer(DataRow):
    numeric: str | int | FiniteFloat
    proof: str = ""

    @field_validator("numeric")
    @classmethod
    def _number(cls, numeric: str | int | float) -> str:
        """The number as the file writes it. ValueError if it is none."""
        if number(str(numeric)) is None:
            raise ValueError(f"{numeric!r} is not a number such as 18 or 7.5")
        return str(numeric)

    @property
    def value(self) -> str:
        """The number in the notation that both answers share."""
        value = number(str(self.numeric))
        assert value is not None
        return number_text(value)


class SolibRow(DataRow):
    question: Text
    answer_correct: NumericAnswer
    answer_incorrect: NumericAnswer


@dataclass(frozen=True, slots=True)
class Solib(Loader):
    """SOlib's own data: problem `solib-17` is the 17th row, whether rows before it are skipped or
    not. Both proofs are laid out alike."""

    path: str
    on_bad_row: Literal["refuse", "skip"] = "refuse"
    """What to do with rows whose two numbers are equal, or are not numbers: list them in an error,
    or leave them out and count them."""
    raw: bool = False
    """Keep numbers and proofs as published, to reproduce published tables. Beware: a `.0` at the
    right number then gives most answers away."""

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        rows = list(self._rows(root / self.path))
        faults = [row for row in rows if isinstance(row, DatasetError)]
        problems = [row for row in rows if not isinstance(row, DatasetError)]
        if faults and self.on_bad_row == "refuse":
            listed = "".join(f"\n  {fault}" for fault in faults[:LISTED])
            if len(faults) > LISTED:
                listed += f"\n  … and {len(faults) - LISTED:,} more"
            raise DatasetError(
                str(root / self.path),
                faults[0].line,
                f"{len(faults)} of {len(rows):,} rows are wrong; fix them, or "
                f"leave them out with on_bad_row: skip{listed}",
            )
        if faults:
            logger.warning("%s: %d of %d rows are skipped", self.path, len(faults), len(rows))
        if not problems:
            raise DatasetError(str(root / self.path), 0, "no row of it can be used")
        return self._picked(problems)

    def skipped(self, root: Path = Path()) -> tuple[DatasetError, ...]:
        if self.on_bad_row == "refuse":
            return ()
        return tuple(row for row in self._rows(root / self.path) if isinstance(row, DatasetError))

    def _rows(self, path: Path) -> Iterator[Problem | DatasetError]:
        """Each row as a problem, or the error in it."""
        for place, (line, row) in enumerate(each_row(str(path), read_bytes(path), SolibRow), 1):
            if isinstance(row, DatasetError):
                yield row
                continue
            right, wrong = row.answer_correct, row.answer_incorrect
            if right.value == wrong.value:
                said = f"both answers are {right.value}; the incorrect one must differ"
                yield DatasetError(str(path), line, said)
                continue
            pair = [(*self._answer(right), 1.0), (*self._answer(wrong), -1.0)]
            yield labelled(f"solib-{place}", row.question, pair, seed=None)

    def _answer(self, answer: NumericAnswer) -> tuple[str, str]:
        """Text and work."""
        if self.raw:
            return str(answer.numeric), answer.proof
        return answer.value, laid_out(steps(answer.proof), answer.value)
