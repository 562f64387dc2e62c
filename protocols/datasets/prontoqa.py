"""PrOntoQA (Saparov and He 2023, arXiv:2210.01240): is a statement true in a made-up ontology?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..question import Problem, labelled
from .loader import FileLoader
from .rows import DataRow, Text, json_rows, members, read_bytes

NESTED = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"example\d+"\s*:')
"""Start of the authors' own files."""


class ProntoQaRow(DataRow):
    question: Text
    query: Text
    answer: Literal["True", "False"]


class ProntoQaExample(DataRow):
    """An entry of the authors' own files; its few-shot examples are ignored."""

    test_example: ProntoQaRow


@dataclass(frozen=True, slots=True)
class ProntoQa(FileLoader):
    """The authors' own JSON, `{"example1": {…, "test_example": ROW}, …}`, or ROWs, one a line.

    A ROW is {"question", "query", "chain_of_thought", "answer"}: facts, and a statement about
    them. The chain of thought proves the right answer only, so nobody is shown it: it would give
    the label away. Problem `prontoqa-17` is the 17th of the file. Files made for proofs only have
    no answers, and cannot be used.
    """

    def _problems(self, path: Path) -> Iterator[Problem]:
        for place, row in enumerate(_rows(path), 1):
            pair = [(said, "", 1.0 if row.answer == said else -1.0) for said in ("True", "False")]
            text = f"{row.question}\n{row.query}"
            yield labelled(f"prontoqa-{place}", text, pair, seed=self.seed)


def _rows(path: Path) -> Iterator[ProntoQaRow]:
    data = read_bytes(path)
    if not NESTED.match(data):
        yield from (row for _, row in json_rows(str(path), data, ProntoQaRow))
        return
    for _, example in members(str(path), data, ProntoQaExample):
        yield example.test_example
