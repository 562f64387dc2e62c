"""Data sets on the Hugging Face Hub: one split of one revision, from the Hub or its local cache."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ..errors import DatasetError
from ..question import Problem
from .columns import columns_of
from .forms import Form, Mapper, Placed, published_forms
from .loader import Notes, RowLoader
from .rows import TABLES, each_record, ending

ENDINGS = (*TABLES, ".jsonl", ".json")


@dataclass(frozen=True, slots=True)
class Hub(RowLoader):
    """A data set on the Hugging Face Hub: `{hf: {name: TIGER-Lab/MMLU-Pro, split: test}}`.

    Its files are read as they lie there, Parquet, CSV, TSV, Arrow or JSON Lines, and no code of it
    is run. They stay in the Hub's own cache on this machine, which HF_HOME names; with
    HF_HUB_OFFLINE=1 nothing else is asked. A token of yours is used as the Hub's own tools do.
    """

    name: str
    """As on the Hub: owner/name."""
    split: str = "test"
    config: str = ""
    """Which of its configurations, where it has several: the folder of the files."""
    revision: str = ""
    """A commit, tag or branch. A run keeps the commit that it began with, and its problems."""
    columns: dict[str, str | int | list[str]] | str | None = None
    """Which column is what; or the name of a known form; where it is left out, the form that
    fits."""
    answers: int | None = 2
    """How many answers a problem has, the right one included; None: all that a row has."""

    def __post_init__(self) -> None:
        super(Hub, self).__post_init__()
        forms = published_forms()
        if isinstance(self.columns, str) and self.columns not in forms:
            raise ValueError(
                f"columns: unknown form {self.columns!r}: choose from {', '.join(forms)}"
            )
        if isinstance(self.columns, dict):
            columns_of(self.columns)

    def _problems(self, root: Path, notes: Notes) -> Iterator[tuple[str, Problem]]:
        """root is not used. DatasetError where the Hub has no such thing, or it cannot be read."""
        rows = list(self._placed(self._snapshot()))
        mapper = Mapper(self._form(rows), self.seed, self.answers, {})
        return mapper.problems(rows, notes)

    def _form(self, rows: Sequence[Placed]) -> Form:
        """The form of the table: as the settings say, or the published one that fits."""
        if isinstance(self.columns, dict):
            return Form(columns=(columns_of(self.columns),))
        if isinstance(self.columns, str):
            return published_forms()[self.columns]
        first = next((row for *_, row in rows if not isinstance(row, DatasetError)), {})
        for form in published_forms().values():
            if any(columns.fit(first) for columns in form.columns):
                return form
        raise DatasetError(
            self.name,
            0,
            f"has the columns {', '.join(first)}; say which is what: columns: "
            "{question: …, choices: …, answer: …}",
        )

    def pinned(self) -> Self:
        """With the commit that the revision is now, as the Hub or its cache names it."""
        return replace(self, revision=self._snapshot().name)

    def _snapshot(self) -> Path:
        """The folder of the files of the split, in the Hub's cache; its name is the commit."""
        try:
            from huggingface_hub import snapshot_download
            from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        except ImportError:
            raise DatasetError(
                self.name, 0, "is on the Hub: pip install 'oversight-bench[data]'"
            ) from None
        wanted = [f"*{self.split}*{kind}" for kind in (*ENDINGS, *(f"{end}.gz" for end in ENDINGS))]
        try:
            return Path(
                snapshot_download(
                    self.name,
                    repo_type="dataset",
                    revision=self.revision or None,
                    allow_patterns=wanted,
                )
            )
        except (HfHubHTTPError, HFValidationError, OSError, ValueError) as exc:
            raise DatasetError(self.name, 0, f"cannot be had from the Hub: {exc}") from exc

    def _placed(self, folder: Path) -> Iterator[Placed]:
        word = re.compile(rf"(?:^|[^a-z0-9]){re.escape(self.split)}(?:[^a-z0-9]|$)", re.IGNORECASE)
        files = sorted(path for path in folder.rglob("*") if ending(path) in ENDINGS)
        files = [
            path for path in files if word.search(str(path.relative_to(folder).with_suffix("")))
        ]
        if self.config:
            files = [path for path in files if self.config in path.relative_to(folder).parts[:-1]]
        configs = sorted({str(path.parent.relative_to(folder)) for path in files})
        if len(configs) > 1:
            raise DatasetError(self.name, 0, f"config: which of {', '.join(configs)}?")
        if not files:
            raise DatasetError(
                self.name, 0, f"has no table for the split {self.split!r} that can be read here"
            )
        place = 0
        for path in files:
            for line, row in each_record(path):
                place += 1
                name = f"{self.name}/{path.relative_to(folder)}"
                yield name, line, f"{self.name.rpartition('/')[2]}-{place}".lower(), row
