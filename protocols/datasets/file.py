"""A file of problems: JSON Lines in our own format, or a table.

A table (`.csv`, `.tsv`, `.parquet`, `.arrow`) has the columns `question`, `answer`, which is right,
and `wrong`; `wrong_2`, `wrong_3`, `id`, `passage` and `group` may follow. Other names are mapped by
`columns`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..question import Problem
from .columns import columns_of
from .forms import Form
from .jsonl import problems
from .loader import FileLoader
from .rows import read_bytes
from .tabular import TABLES, records

_TABLE = columns_of(
    {
        "question": "question",
        "answer": "answer",
        "wrong": ["wrong", "wrong_2", "wrong_3"],
        "id": "id",
        "passage": "passage",
        "group": "group",
    }
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
