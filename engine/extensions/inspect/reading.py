"""Scores from logs of Inspect, by its reader: headers and summaries of samples alone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....cache.errors import install_command
from ...analysis.scores import Scored, ScoreRow, ScoreSource, number_of
from ...errors import UsageError

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Grades as numbers, as in Inspect's `value_to_float`."""
HEAD = 4096
"""Bytes of a JSON file that show whether it is a log."""


class Logs(ScoreSource):
    """A row for each task, model and scorer, and for each key of a score that is a mapping."""

    def holds(self, file: Path) -> bool:
        if file.suffix == ".eval":
            return True
        if file.suffix != ".json" or not file.is_file():
            return False
        with file.open("rb") as log:
            head = log.read(HEAD)
        return b'"eval"' in head and b'"status"' in head

    def notes(self, file: Path) -> Iterator[str]:
        status = _read(file, "read_eval_log", header_only=True).status
        if status != "success":
            yield f"{file}: the evaluation ended with the status {status!r}."

    def scores(self, file: Path, cluster: str) -> Iterator[Scored]:
        spec = _read(file, "read_eval_log", header_only=True).eval
        summaries = _read(file, "read_eval_log_sample_summaries")
        values = [{} if sample.error else _values(sample.scores or {}) for sample in summaries]
        metrics = dict.fromkeys(metric for by_metric in values for metric in by_metric)
        for sample, by_metric in zip(summaries, values, strict=True):
            group = ""
            if cluster:
                key = cluster.removeprefix("metadata.")
                if key not in sample.metadata:
                    raise UsageError(f"{file}: sample {sample.id} has no metadata {key!r}")
                group = str(sample.metadata[key])
            for metric in metrics or [""]:
                value = by_metric.get(metric)
                value = GRADES.get(value, value) if isinstance(value, str) else value
                yield Scored(
                    ScoreRow(spec.task, spec.model, metric, "", str(file)),
                    str(sample.id),
                    number_of(value, f"{file}: sample {sample.id}: {metric}"),
                    group,
                    str(sample.epoch),
                )


def _values(scores: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for scorer, score in scores.items():
        if isinstance(score.value, Mapping):
            values |= {f"{scorer}.{key}": value for key, value in score.value.items()}
        else:
            values[scorer] = score.value
    return values


def _read(file: Path, reader: str, **how: Any) -> Any:
    """UsageError, in Inspect's own words, for a log that it cannot read."""
    try:
        from inspect_ai import log
    except ImportError as exc:
        raise UsageError(f"{file}: logs of Inspect need {install_command('inspect')}") from exc
    try:
        return getattr(log, reader)(str(file), **how)
    except Exception as exc:
        reason = " ".join(str(exc).split())[:300] or type(exc).__name__
        raise UsageError(f"{file}: not a log that Inspect can read: {reason}") from exc


LOGS = Logs()
