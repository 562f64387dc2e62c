"""MMLU, questions of 57 subjects with four choices (Hendrycks et al. 2021, arXiv:2009.03300)."""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from ..errors import DatasetError
from ..question import Problem
from .choices import Choices
from .rows import DataRow, Text, json_rows, read_bytes, regular
from .tabular import csv_rows

CHOICE_LETTERS = "ABCD"
COLUMNS = ("question", "A", "B", "C", "D", "answer")
"""Columns of the authors' CSV files, which have no header."""


class MmluRow(DataRow):
    question: Text
    subject: str = ""
    # A list, as JSON has it: strict validation takes no list for a tuple.
    choices: Annotated[list[str], Field(min_length=2)]
    answer: Annotated[int, Field(ge=0)]


class MmluRecord(DataRow):
    question: Text
    A: str
    B: str
    C: str
    D: str
    answer: Literal["A", "B", "C", "D"]


@dataclass(frozen=True, slots=True)
class Mmlu(Choices):
    """MMLU in the authors' `data.tar`, read as it is, or as rows {"question", "subject",
    "choices", "answer"}, the answer being an index from 0.

    Problem `mmlu-anatomy-17` is the 17th record of anatomy in the archive, `mmlu-17` the 17th row.
    """

    split: Literal["test", "val", "dev"] = "test"
    """Split of the archive; rows have none."""
    subject: str = ""
    """Take only this subject, such as `anatomy`; empty takes all, one after the other."""

    def _problems(self, path: Path) -> Iterator[Problem]:
        empty = True
        for problem in self._archived(path) if path.suffix == ".tar" else self._listed(path):
            empty = False
            yield problem
        if empty:
            what = f"no subject {self.subject!r}" if self.subject else "no question"
            raise DatasetError(str(path), 0, f"there is {what} in it; subjects are written a_b")

    def _listed(self, path: Path) -> Iterator[Problem]:
        for place, (line, row) in enumerate(json_rows(str(path), read_bytes(path), MmluRow), 1):
            if self.subject and row.subject != self.subject:
                continue
            if row.answer >= len(row.choices):
                raise DatasetError(
                    str(path),
                    line,
                    f"answer: {row.answer} is no place among {len(row.choices)} choices; "
                    "places count from 0",
                )
            yield self._chosen(
                str(path), line, f"mmlu-{place}", row.question, row.choices, row.answer
            )

    def _archived(self, path: Path) -> Iterator[Problem]:
        for subject, file, data in self._files(path):
            for place, (line, row) in enumerate(csv_rows(file, data, MmluRecord, COLUMNS), 1):
                choices = [row.A, row.B, row.C, row.D]
                id = f"mmlu-{subject}-{place}"
                yield self._chosen(
                    file, line, id, row.question, choices, CHOICE_LETTERS.index(row.answer)
                )

    def _chosen(
        self, file: str, line: int, id: str, text: str, choices: list[str], answer: int
    ) -> Problem:
        if not choices[answer].strip():
            raise DatasetError(
                file, line, f"choice {answer}, the right one, is {choices[answer]!r}; write it out"
            )
        wrong = [choice for n, choice in enumerate(choices) if n != answer]
        return self._problem(file, line, id, text, [choices[answer]], wrong)

    def _files(self, path: Path) -> Iterator[tuple[str, str, bytes]]:
        """(subject, name, bytes) of each file of the split, by subject."""
        ending = f"_{self.split}.csv"
        try:
            with tarfile.open(regular(path)) as archive:
                for member in sorted(archive, key=lambda member: member.name):
                    name = PurePosixPath(member.name)
                    subject = name.name.removesuffix(ending)
                    if name.parent.name != self.split or subject == name.name:
                        continue
                    content = archive.extractfile(member)
                    if content is not None and self.subject in ("", subject):
                        yield subject, f"{path}/{member.name}", content.read()
        except FileNotFoundError as exc:
            raise DatasetError(
                str(path), 0, "no such file; fetch it: oversight dataset fetch mmlu"
            ) from exc
        except (OSError, tarfile.TarError) as exc:
            raise DatasetError(str(path), 0, f"is no readable archive: {exc}") from exc
