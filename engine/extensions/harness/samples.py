"""Samples of lm-evaluation-harness (0.4.13): scores of each document, for each filter and metric.

`lm_eval --log_samples` writes `MODEL/samples_TASK_DATE.jsonl`: a line per document and filter, with
the names of its metrics in `metrics`, and each metric as a key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....protocols.datasets.rows import regular
from ...analysis.scores import Scored, ScoreRow, ScoreSource, number_of
from ...errors import UsageError

KEYS = {"doc_id", "doc_hash", "filter", "metrics"}
"""Keys of each line that the scores need."""
DATE = len("_2026-01-31T12-00-00.000000")
"""Length of the date at the end of a file's name."""


class Samples(ScoreSource):
    """A row for each task, filter and metric; the folder's name is the model."""

    def holds(self, file: Path) -> bool:
        if file.suffix != ".jsonl" or not file.is_file():
            return False
        if file.name.startswith("samples_"):
            return True
        with file.open("rb") as lines:
            start = lines.readline()
        return b'"doc_hash"' in start and b'"doc_id"' in start

    def scores(self, file: Path, cluster: str) -> Iterator[Scored]:
        stem = file.stem.removeprefix("samples_")
        task = stem[:-DATE] if stem[-DATE : -DATE + 1] == "_" else stem
        model = file.absolute().parent.name
        copies = dict[tuple[str, str], dict[str, int]]()
        for line, sample in _lines(file):
            doc, hashed, by = str(sample["doc_id"]), str(sample["doc_hash"]), str(sample["filter"])
            # A document that occurs twice in a task is two questions in one group.
            numbers = copies.setdefault((by, hashed), {})
            nth = numbers.setdefault(doc, len(numbers))
            group = hashed if not cluster else _field(file, line, sample, cluster)
            for metric in sample["metrics"]:
                row = ScoreRow(task, model, str(metric), "" if by == "none" else by, str(file))
                if isinstance(sample.get(metric), (list, dict)):
                    continue  # parts of a figure over all documents, such as a perplexity
                value = number_of(sample.get(metric), f"{file}:{line}: doc {doc}: {metric}")
                question = f"{hashed} {nth}" if nth else hashed
                prompt = str(sample.get("prompt_hash", ""))
                yield Scored(row, question, value, group, "1", doc, prompt)


def _field(file: Path, line: int, sample: dict[str, Any], cluster: str) -> str:
    key = cluster.removeprefix("doc.")
    if key not in sample["doc"]:
        raise UsageError(f"{file}:{line}: --cluster {cluster}: the document has no {key!r}")
    return str(sample["doc"][key])


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with regular(file).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                sample = json.loads(line)
                lacking = sorted(KEYS - sample.keys())
            except (ValueError, RecursionError, AttributeError) as exc:
                raise UsageError(
                    f"{file}:{number}: not a line of lm-eval's samples; the download may be cut off"
                ) from exc
            if lacking:
                raise UsageError(f"{file}:{number}: {lacking[0]}: missing; it needs {KEYS}")
            yield number, sample


SAMPLES = Samples()
