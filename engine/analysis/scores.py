"""Scores of others' runs: the mean of each row, and rows paired sample by sample."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, compress
from math import inf, isinf, isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ...protocols.datasets.rows import TABLES, ending, records
from ...protocols.errors import DatasetError
from ...protocols.spelling import suggestion
from ..display.quantity import counted
from ..errors import UsageError
from ..run.folders import is_run
from ..system.entry_points import SCORES_GROUP, load_one, registered
from ..system.flags import flag
from .catalogue import Analysis
from .findings.finding import Finding, Part, conservative, figure, number, program, word
from .reports.formats import CLUSTER, COLUMNS, ERROR, INTERVAL
from .rows import RunRows
from .scoring.estimate import Estimate, Interval
from .scoring.inference import ErrorKind, Influences, of_questions

METRIC = flag("Only the scores of this metric or scorer.", metavar="NAME")
FILTER = flag("Only the scores of this filter of lm-eval.", metavar="NAME")


class ScoreRow(NamedTuple):
    """The parts of a row's name."""

    task: str = ""
    model: str = ""
    metric: str = ""
    filter: str = ""
    file: str = ""


class Scored(NamedTuple):
    """The score of one sample in one epoch."""

    row: ScoreRow
    question: str
    """Identity of the sample within its task: samples of one question are paired."""
    value: float | None
    """None if the sample failed, or was not scored."""
    group: str = ""
    epoch: str = "1"
    name: str = ""
    """The id that messages show; empty: the question."""
    prompt: str = ""
    """Digest of the prompt, where it is known."""


class ScoreSource(ABC):
    """A reader of one tool's scores, registered under `oversight.scores`."""

    @abstractmethod
    def holds(self, file: Path) -> bool:
        """Whether this source can read the file; cheap."""

    @abstractmethod
    def scores(self, file: Path, cluster: str) -> Iterator[Scored]:
        """All scores of a file. cluster: the field that groups samples; empty: the tool's default.
        UsageError, with the sample's id, for a score that is not a number."""

    def notes(self, file: Path) -> Iterator[str]:
        """One line per fact that a reader of the figures should know."""
        yield from ()


class ScoreTable(ScoreSource):
    """Plain scores in CSV, TSV or Parquet: `question` and `score`, and `row`, `group`, `epoch`."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns

    def _column(self, key: str) -> str:
        return self._columns.get(key, key)

    def holds(self, file: Path) -> bool:
        if ending(file) not in TABLES or not file.is_file():
            return False
        try:
            _, first = next(records(file))
        except DatasetError:
            return False
        return self._column("score") in first

    def scores(self, file: Path, cluster: str) -> Iterator[Scored]:
        group = cluster or self._column("group")
        for line, record in records(file):
            for column in (self._column("question"), *[cluster] * bool(cluster)):
                if column not in record:
                    raise UsageError(
                        f"{file}:{line}: unknown column {column!r}{suggestion(column, record)}"
                    )
            row, question, score, epoch = (
                record.get(self._column(key)) for key in ("row", "question", "score", "epoch")
            )
            if question in (None, ""):
                raise UsageError(f"{file}:{line}: {self._column('question')}: empty")
            name = ScoreRow(model="" if row is None else str(row), file=str(file))
            value = number_of(score, f"{file}:{line}: {self._column('score')}")
            yield Scored(name, str(question), value, str(record.get(group) or ""), str(epoch or 1))


def number_of(score: Any, place: str) -> float | None:
    """A score as a number; None for an empty field or NaN. UsageError for anything else."""
    try:
        words = {"": nan, "none": nan, "true": 1.0, "false": 0.0}
        value = float(words.get(str(score).lower(), score))
    except (TypeError, ValueError):
        value = inf
    if isinf(value):
        raise UsageError(f"{place}: {score!r:.80} is not a number; leave it empty if it is missing")
    return None if isnan(value) else value


class MeanScore(NamedTuple):
    """The mean score of one row."""

    row: str
    parts: ScoreRow
    n: int
    """Samples with a score."""
    lost: int
    """Samples and epochs without a score."""
    influences: Influences


@dataclass(frozen=True, slots=True)
class Scores:
    """The rows of some score files."""

    rows: Mapping[str, MeanScore]
    notes: tuple[str, ...]


def _sources(columns: Mapping[str, str]) -> list[ScoreSource]:
    names = registered(SCORES_GROUP)
    return [
        *(load_one(SCORES_GROUP, name, ScoreSource) for name in names),
        ScoreTable(columns),
    ]


def _files(path: Path, sources: Sequence[ScoreSource]) -> Iterator[tuple[Path, ScoreSource]]:
    """The score files at a path, each with its reader."""
    if not path.is_dir():
        files, readers = [path], sources
    else:
        # A folder may hold tables of anything; only the logs of tools count.
        files = [] if is_run(path) else sorted(file for file in path.rglob("*") if file.is_file())
        readers = [each for each in sources if not isinstance(each, ScoreTable)]
    for file in files:
        if source := next((each for each in readers if each.holds(file)), None):
            yield file, source


def is_scores(path: Path, columns: Mapping[str, str]) -> bool:
    """Whether scores can be read from the file or folder."""
    return any(True for _ in _files(path, _sources(columns)))


def read_scores(
    paths: Sequence[Path],
    *,
    columns: Mapping[str, str],
    cluster: str = "",
    metric: str | None = None,
    filter: str | None = None,
) -> Scores:
    """The rows of score files and of folders of them. UsageError for a file that cannot be read,
    that contradicts itself or another one, or without the metric."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError(f"{paths[0]}: the same file twice; compare two")
    sources = _sources(columns)
    files = [pair for path in paths for pair in _files(path, sources)]
    if not files:
        raise UsageError(
            f"{', '.join(map(str, paths))}: no scores: needed are logs of Inspect (.eval, .json), "
            "samples of lm-eval (samples_*.jsonl), or a table with the columns question and score"
        )
    notes = [note for file, source in files for note in source.notes(file)]
    every: dict[ScoreRow, dict[str, list[Scored]]] = {}
    known: dict[tuple[str, str], Scored] = {}
    prompts: dict[str, set[str]] = {}
    for file, source in files:
        try:
            for scored in source.scores(file, cluster):
                task = scored.row.task
                first = known.setdefault((task, scored.name or scored.question), scored)
                if first.question != scored.question:
                    raise UsageError(
                        f"{file}: {task}: sample {scored.name} is another document in "
                        f"{first.row.file}; compare runs on the same version of the task"
                    )
                if first.group != scored.group:
                    raise UsageError(
                        f"{file}: sample {scored.name or scored.question} has the group "
                        f"{scored.group!r}, and {first.group!r} before; a sample has one"
                    )
                if first.prompt != scored.prompt:
                    prompts.setdefault(task, set()).add(scored.question)
                every.setdefault(scored.row, {}).setdefault(scored.question, []).append(scored)
        except DatasetError as exc:
            raise UsageError(str(exc)) from exc
    notes += [
        f"{task}: {counted(len(others), 'sample')} with another prompt in some file."
        for task, others in prompts.items()
    ]
    for kind, name in (("metric", metric), ("filter", filter)):
        every = _chosen(every, kind, name) if name else every
    ids = {(task, scored.question): name for (task, name), scored in reversed(known.items())}
    rows = _means(every, ids, notes)
    if not rows:
        raise UsageError(f"{', '.join(map(str, paths))}: no sample has a score")
    return Scores(rows, tuple(notes))


def _chosen(every: dict[ScoreRow, Any], kind: str, name: str) -> dict[ScoreRow, Any]:
    """The rows of one metric or filter. A key of a scorer may stand without the scorer."""
    chosen = {
        row: samples
        for row, samples in every.items()
        if name in (getattr(row, kind), getattr(row, kind).rpartition(".")[2])
    }
    if not chosen:
        others = sorted({getattr(row, kind) for row in every} - {""})
        raise UsageError(f"--{kind} {name}: unknown; choose from {', '.join(others) or 'no names'}")
    return chosen


def _means(
    every: Mapping[ScoreRow, Mapping[str, Sequence[Scored]]],
    ids: Mapping[tuple[str, str], str],
    notes: list[str],
) -> dict[str, MeanScore]:
    """ids: by task and question, the name that messages show. notes: rows left out are added."""
    several = len({row.task for row in every}) > 1
    rows: dict[str, MeanScore] = {}
    unbounded = {
        row.metric
        for row, samples in every.items()
        for scored in chain(*samples.values())
        if not 0 <= (scored.value or 0.0) <= 1
    }
    for row, name in _names(list(every)).items():
        samples = every[row]
        for question, repeats in samples.items():
            if len({scored.epoch for scored in repeats}) < len(repeats):
                raise UsageError(
                    f"{row.file}: sample {repeats[0].name or question} stands twice in one epoch; "
                    "give repetitions an epoch, and rows a name"
                )
        values = {
            question: fmean(numbers)
            for question, one in samples.items()
            if (numbers := [scored.value for scored in one if scored.value is not None])
        }
        lost = sum(scored.value is None for scored in chain(*samples.values()))
        if not values:
            notes.append(f"{name}: left out, since no sample has a score.")
            continue
        names = [ids[row.task, question] for question in values]
        shown = [f"{row.task} {name}" if several else name for name in names]
        groups = [samples[question][0].group for question in values]
        ends = None if row.metric in unbounded else (0.0, 1.0)
        influences = of_questions(shown, list(values.values()), groups, ends)
        rows[name] = MeanScore(name, row, len(shown), lost, influences)
    return rows


def _names(rows: Sequence[ScoreRow]) -> dict[ScoreRow, str]:
    """A name of each row: the parts that not all rows share; the file where these are equal."""
    varying = [len(set(parts)) > 1 for parts in zip(*rows, strict=True)][:-1]
    if not any(varying):
        varying = [True] * len(varying)
    plain = {row: " ".join(filter(None, compress(row, varying))) for row in rows}
    stems = {row: f"{plain[row]} {Path(row.file).stem}".strip() for row in rows}
    paths = {row: f"{plain[row]} {row.file}".strip() for row in rows}
    return next(
        (names for names in (plain, stems) if len({*names.values()} - {""}) == len(rows)), paths
    )


def score_pairs(rows: Mapping[str, MeanScore]) -> list[tuple[str, str]]:
    """Pairs of rows of one task, metric and filter. UsageError without any."""
    pairs = [
        (first.row, second.row)
        for first, second in combinations(rows.values(), 2)
        if first.parts[0] == second.parts[0] and first.parts[2:4] == second.parts[2:4]
    ]
    if not pairs:
        raise UsageError(
            "no two rows have one task and metric; name two with --contrast 'A - B': "
            + ", ".join(rows)
        )
    return pairs


@dataclass(frozen=True, slots=True)
class MeasureScores(Analysis):
    """Print the mean score of each row of RUN, a score file or a folder of them.

    RUN is a log of Inspect (.eval, .json), a file of samples of lm-eval (samples_*.jsonl), or a
    table with the columns question and score. Samples of one group depend on each other. A sample
    that failed or has no score is missing: it is counted, and is not 0.
    """

    metric: str | None = METRIC
    filter: str | None = FILTER
    columns: Mapping[str, str] = COLUMNS
    ways: tuple[str, ...] = CLUSTER
    error: ErrorKind = ERROR
    interval: Interval | None = INTERVAL

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        raise UsageError(f"{run.folder}: a run has its report; `measure scores` takes score files")

    def of_table(self, file: Path, score: str) -> Finding:
        scores = read_scores(
            [file],
            columns=dict(self.columns),
            cluster=cluster_of(self.ways),
            metric=self.metric,
            filter=self.filter,
        )
        lines = [
            _Line(*row, row.influences.estimate(self.error, self.interval or "t"))
            for row in scores.rows.values()
        ]
        columns = [
            word("row", "row"),
            *(program(part, f"parts.{part}") for part in ScoreRow._fields),
            number("n", "n"),
            number("lost", "lost"),
            figure("mean score", "mean", key="mean"),
        ]
        means = [line.mean for line in lines]
        clusters = min(means, key=lambda mean: mean.clusters)
        how = "; ".join(filter(None, (clusters.how or clusters.reason, conservative(means))))
        notes = (*scores.notes, f"Brackets: 95% CI, {how}.")
        return Finding(
            (Part("rows", f"{file.resolve().name}: mean scores", columns, lines, notes),)
        )

    def suits(self, run: Any) -> bool:
        return False


class _Line(NamedTuple):
    row: str
    parts: ScoreRow
    n: int
    lost: int
    influences: Influences
    mean: Estimate


def cluster_of(ways: Sequence[str]) -> str:
    """The field that groups samples; empty for the default. UsageError for several."""
    if len(ways) > 1:
        raise UsageError(f"--cluster {','.join(ways)}: scores have one kind of cluster")
    return "" if not ways or ways[0] == "problem" else ways[0]
