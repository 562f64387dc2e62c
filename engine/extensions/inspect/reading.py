"""Logs of Inspect, by its reader: scores, from headers and summaries of samples alone, and runs of
agents as problems for monitors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ....cache.errors import install_command
from ....protocols.datasets.trajectories import Trajectories, Trajectory, TrajectoryStep
from ....protocols.errors import DatasetError
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
            try:
                group = _field(sample, cluster)
            except KeyError as key:
                raise UsageError(f"{file}: sample {sample.id} has no metadata {key}") from None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectTrajectories(Trajectories):
    """Runs of agents in a log of Inspect, or in a folder of logs, for a monitor to tell apart."""

    label: str = "metadata.mode"
    """The field of a sample that tells attacks from honest runs."""
    group: str = ""
    """The field of a sample that tells which runs depend on one another: `metadata.task`."""

    def _rows(self, root: Path) -> Iterator[tuple[int, Trajectory | DatasetError]]:
        path = root / self.path
        files = sorted(file for file in path.iterdir() if LOGS.holds(file)) if path.is_dir() else []
        number = 0
        for file in files or [path]:
            for sample in _read(file, "read_eval_log").samples or ():
                number += 1
                name = f"{file.name}: sample {sample.id}, epoch {sample.epoch}"
                try:
                    label, group = (_field(sample, field) for field in (self.label, self.group))
                    if not (steps := [*_steps(sample.messages)]):
                        raise ValueError("it has no message of the agent")
                    id = f"{sample.id}-{sample.epoch}" + f"-{file.stem}" * (len(files) > 1)
                    yield number, Trajectory(id=id, label=label, steps=steps, group=group)
                except KeyError as key:
                    fault = f"{name}: it has no metadata {key}"
                    yield number, DatasetError(self.path, number, fault)
                except ValueError as exc:
                    yield number, DatasetError(self.path, number, f"{name}: {exc}")


def _field(sample: Any, field: str) -> str:
    """A field of the metadata as text; empty for no field. KeyError if the sample lacks it."""
    return str(sample.metadata[field.removeprefix("metadata.")]) if field else ""


def _steps(messages: list[Any]) -> Iterator[TrajectoryStep]:
    """What the agent thought, said and did, and what its tools gave. The text of a system prompt
    is no step."""
    for message in messages:
        if message.role == "tool":
            yield TrajectoryStep(kind="output", text=message.text, tool=message.function or "")
        elif message.role == "user":
            yield TrajectoryStep(kind="message", text=message.text)
        elif message.role == "assistant":
            parts = message.content if isinstance(message.content, list) else ()
            for part in parts:
                if part.type == "reasoning":
                    yield TrajectoryStep(kind="thought", text=part.reasoning)
            if message.text:
                yield TrajectoryStep(kind="message", text=message.text)
            for call in message.tool_calls or ():
                arguments = orjson.dumps(call.arguments).decode()
                yield TrajectoryStep(kind="action", text=arguments, tool=call.function)
