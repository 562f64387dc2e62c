"""Problems as SOlib keeps them: two numbers, each with a proof (arXiv 2504.03731).

A JSON array, or JSON Lines, of {"question", "answer_correct": {"numeric", "proof"},
"answer_incorrect": {"numeric", "proof"}}; other fields are left aside.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, FiniteFloat, field_validator

from oversight.protocols.datasets.loader import Loader
from oversight.protocols.datasets.rows import Text, json_rows, read_bytes
from oversight.protocols.datasets.solution import laid_out, number, number_text, steps
from oversight.protocols.errors import DatasetError
from oversight.protocols.question import Problem, labelled


class NumericAnswer(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    numeric: str | int | FiniteFloat
    proof: str = ""

    @field_validator("numeric")
    @classmethod
    def _number(cls, numeric: str | int | float) -> str:
        value = number(str(numeric))
        if value is None:
            raise ValueError(f"{numeric!r} is not a number such as 18 or 7.5")
        return number_text(value)


class SolibRow(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    question: Text
    answer_correct: NumericAnswer
    answer_incorrect: NumericAnswer


@dataclass(frozen=True, slots=True)
class Solib(Loader):
    """SOlib's own data: problem `solib-17` is the 17th row. Both proofs are laid out alike."""

    path: str

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        return self._picked(self._problems(root / self.path))

    def _problems(self, path: Path) -> Iterator[Problem]:
        for place, (line, row) in enumerate(json_rows(str(path), read_bytes(path), SolibRow), 1):
            right, wrong = str(row.answer_correct.numeric), str(row.answer_incorrect.numeric)
            if right == wrong:
                raise DatasetError(
                    str(path), line, f"both answers are {right}; the incorrect one must differ"
                )
            pair = [
                (right, laid_out(steps(row.answer_correct.proof), right), 1.0),
                (wrong, laid_out(steps(row.answer_incorrect.proof), wrong), -1.0),
            ]
            yield labelled(f"solib-{place}", row.question, pair, seed=self.seed)
