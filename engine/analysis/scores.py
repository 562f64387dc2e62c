"""Scores of others' runs: the mean of each row, and rows paired sample by sample."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, compress
from math import inf, isinf, isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from ...protocols.datasets.columns import is_mark, name_of, number_in, seen
from ...protocols.datasets.rows import TABLES, each_record, ending, strict
from ...protocols.errors import DatasetError
from ...protocols.settings import suggestion
from ..display.text import counted
from ..errors import UsageError
from ..run.folders import is_run
from ..system.process import SCORES_GROUP, load_one, registered
from ..system.settings import flag
from .catalogue import Analysis
from .findings.finding import Finding, Part, conservative, figure, number, program, word
from .reports.formats import CLUSTER, COLUMNS, ERROR, INTERVAL
from .rows import RunRows
from .scoring.estimate import Estimate, Interval
from .scoring.inference import ErrorKind, Influences, of_questions


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


Rows: TypeAlias = dict[ScoreRow, dict[str, list[Scored]]]
"""By row and question, its scores in all epochs."""

SampleIds: TypeAlias = Mapping[tuple[str, str], str]
"""By task and question, the id that messages show."""


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


SCORE_KEYS = ("row", "question", "score", "group", "epoch")


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
            _, first = next(strict(each_record(file)))
        except DatasetError:
            return True  # its reader names the fault
        return self._column("score") in first

    def scores(self, file: Path, cluster: str) -> Iterator[Scored]:
        if unknown := [key for key in self._columns if key not in SCORE_KEYS]:
            near = suggestion(unknown[0], SCORE_KEYS)
            raise UsageError(f"--column {unknown[0]}: choose from {', '.join(SCORE_KEYS)}{near}")
        needed = {self._column("question"), *self._columns.values(), *[cluster] * bool(cluster)}
        for line, record in strict(each_record(file)):
            if lacking := sorted(needed - record.keys()):
                near = suggestion(lacking[0], record)
                raise UsageError(f"{file}:{line}: unknown column {lacking[0]!r}{near}")
            row, question, score, group, epoch = (
                record.get(self._column(key)) for key in SCORE_KEYS
            )
            group = record[cluster] if cluster else group
            if not _text(question):
                raise UsageError(f"{file}:{line}: {self._column('question')}: empty")
            name = ScoreRow(model=_text(row), file=str(file))
            value = number_of(score, f"{file}:{line}: {self._column('score')}")
            yield Scored(name, _text(question), value, _text(group), _text(epoch) or "1")


def _text(name: Any) -> str:
    """A name; "" for an empty field. 1.0 is 1, as of a column of whole numbers with a gap."""
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    return "" if name is None or name != name else seen(str(name)).strip()


def number_of(score: Any, place: str) -> float | None:
    """A score as a number; None for an empty field or NaN. UsageError for anything else."""
    text = "" if score is None or is_mark(str(score)) else str(score).strip().lower()
    words = {"": nan, "none": nan, "true": 1.0, "false": 0.0}
    value = words[text] if text in words else number_in(text, inf)
    if isinf(value):
        raise UsageError(f"{place}: {score!r:.80} is not a number; leave it empty if it is missing")
    return None if isnan(value) else value


class MeanScore(NamedTuple):
    row: str
    parts: ScoreRow
    n: int
    """Samples with a score."""
    lost: int
    """Samples and epochs without a score."""
    influences: Influences
    mean: Estimate


@dataclass(frozen=True, slots=True)
class OfScores(Analysis):
    """An analysis that can read scores: which ones, and how their errors are estimated."""

    metric: str | None = flag("Only the scores of this metric or scorer.", metavar="NAME")
    filter: str | None = flag("Only the scores of this filter of lm-eval.", metavar="NAME")
    columns: Mapping[str, str] = COLUMNS
    ways: tuple[str, ...] = CLUSTER
    error: ErrorKind = ERROR
    interval: Interval | None = INTERVAL

    def samples(self, paths: Sequence[Path]) -> tuple[Rows, SampleIds, list[str]]:
        """The scores of files and folders, the ids of samples, and notes. UsageError for a file
        that cannot be read, contradicts itself or another one, or lacks the metric."""
        if len({path.resolve() for path in paths}) < len(paths):
            raise UsageError(f"{paths[0]}: the same file twice; compare two")
        if len(self.ways) > 1:
            raise UsageError(f"--cluster {','.join(self.ways)}: scores have one kind of cluster")
        cluster = next((way for way in self.ways if way != "problem"), "")
        sources = _sources(self.columns)
        by_path = {path: list(_files(path, sources)) for path in paths}
        if without := [path for path, pairs in by_path.items() if not pairs]:
            raise UsageError(
                f"{without[0]}: no scores: needed are logs of Inspect (.eval, .json), samples of "
                "lm-eval (samples_*.jsonl), or a table with the columns question and score"
            )
        files = list(chain.from_iterable(by_path.values()))
        notes = [note for file, source in files for note in source.notes(file)]
        scored = ((file, one) for file, source in files for one in source.scores(file, cluster))
        try:
            every, ids, prompts = _by_row(scored)
        except DatasetError as exc:
            raise UsageError(str(exc)) from exc
        for kind in ("metric", "filter"):
            every = _chosen(every, kind, getattr(self, kind))
        return every, ids, [*notes, *prompts]

    def scores(self, paths: Sequence[Path]) -> tuple[dict[str, MeanScore], tuple[str, ...]]:
        """The means of all rows, and notes. UsageError as `samples`, or without any score."""
        every, ids, notes = self.samples(paths)
        rows = self._means(every, ids)
        if not rows:
            raise UsageError(f"{', '.join(map(str, paths))}: no sample has a score")
        measured = {mean.parts for mean in rows.values()}
        lost = [row for row in every if row not in measured]
        notes += [f"{' '.join(filter(None, row))}: left out, without a score." for row in lost]
        return rows, tuple(notes)

    def _means(self, every: Rows, ids: SampleIds) -> dict[str, MeanScore]:
        several = len({row.task for row in every}) > 1
        unbounded = {
            row.metric
            for row, samples in every.items()
            for scored in chain(*samples.values())
            if not 0 <= (scored.value or 0.0) <= 1
        }
        rows: dict[str, MeanScore] = {}
        for row, name in names_of_rows(list(every)).items():
            samples = every[row]
            if not (values := sample_means(samples)):
                continue
            lost = sum(scored.value is None for scored in chain(*samples.values()))
            ids_shown = [f"{row.task} " * several + ids[row.task, question] for question in values]
            groups = [samples[question][0].group for question in values]
            ends = None if row.metric in unbounded else (0.0, 1.0)
            mean = of_questions(ids_shown, list(values.values()), groups, ends)
            estimate = mean.estimate(self.error, self.interval or "t")
            rows[name] = MeanScore(name, row, len(ids_shown), lost, mean, estimate)
        return rows


def sample_means(samples: Mapping[str, Sequence[Scored]]) -> dict[str, float]:
    """The mean over epochs of each sample that has a score."""
    return {
        question: fmean(values)
        for question, repeats in samples.items()
        if (values := [one.value for one in repeats if one.value is not None])
    }


def _sources(columns: Mapping[str, str]) -> list[ScoreSource]:
    names = registered(SCORES_GROUP)
    return [*(load_one(SCORES_GROUP, name, ScoreSource) for name in names), ScoreTable(columns)]


def _files(path: Path, sources: Sequence[ScoreSource]) -> Iterator[tuple[Path, ScoreSource]]:
    """The score files at a path, each with its reader."""
    if not path.is_dir():
        files, readers = [path], sources
    else:
        # A folder may hold tables of anything; only the logs of tools count.
        files = [] if is_run(path) else sorted(file for file in path.rglob("*") if file.is_file())
        readers = [source for source in sources if not isinstance(source, ScoreTable)]
    for file in files:
        if source := next((reader for reader in readers if reader.holds(file)), None):
            yield file, source


def is_scores(path: Path, columns: Mapping[str, str]) -> bool:
    """Whether scores can be read from the file or folder."""
    return any(True for _ in _files(path, _sources(columns)))


def _by_row(every: Iterable[tuple[Path, Scored]]) -> tuple[Rows, SampleIds, Any]:
    """Scores by row; by task and question, the id that messages show; and notes on prompts."""
    rows: Rows = {}
    firsts: dict[tuple[str, str], Scored] = {}
    prompts: dict[str, set[str]] = {}
    for file, scored in every:
        scored = scored._replace(group=name_of(scored.group))
        task, name = scored.row.task, scored.name or scored.question
        first = firsts.setdefault((task, name), scored)
        if first.question != scored.question:
            raise UsageError(
                f"{file}: {task}: sample {name} is another document in {first.row.file}; compare "
                "runs on the same version of the task"
            )
        if first.group != scored.group:
            raise UsageError(
                f"{file}: sample {name} has the group {scored.group!r}, and {first.group!r} "
                "before; a sample has one"
            )
        if first.prompt != scored.prompt:
            prompts.setdefault(task, set()).add(scored.question)
        samples = rows.setdefault(scored.row, {}).setdefault(scored.question, [])
        if any(other.epoch == scored.epoch for other in samples):
            raise UsageError(
                f"{file}: sample {name} stands twice in one epoch; give repetitions an epoch, and "
                "rows a name"
            )
        samples.append(scored)
    notes = [
        f"{task}: {counted(len(others), 'sample')} with another prompt in some file."
        for task, others in prompts.items()
    ]
    return rows, {(t, s.question): name for (t, name), s in reversed(firsts.items())}, notes


def _chosen(every: Rows, kind: str, name: str | None) -> Rows:
    """The rows of one metric or filter. A key of a scorer may stand without the scorer."""
    parts = {row: getattr(row, kind) for row in every}
    chosen = {
        row: samples
        for row, samples in every.items()
        if name in (None, parts[row], parts[row].rpartition(".")[2])
    }
    if every and not chosen:
        others = ", ".join(sorted({*parts.values()} - {""})) or "no names"
        raise UsageError(f"--{kind} {name}: unknown; choose from {others}")
    return chosen


def names_of_rows(rows: Sequence[ScoreRow]) -> dict[ScoreRow, str]:
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
class MeasureScores(OfScores):
    """Print the mean score of each row of RUN, a score file or a folder of them.

    RUN is a log of Inspect (.eval, .json), a file of samples of lm-eval (samples_*.jsonl), or a
    table with the columns question and score. Samples of one group depend on each other. A sample
    that failed or has no score is missing: it is counted, and is not 0."""

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        raise UsageError(f"{run.folder}: a run has its report; `measure scores` takes score files")

    def of_table(self, file: Path, score: str) -> Finding:
        rows, notes = self.scores([file])
        columns = [
            word("row", "row"),
            *(program(part, f"parts.{part}") for part in ScoreRow._fields),
            number("n", "n"),
            number("lost", "lost"),
            figure("mean score", "mean", key="mean"),
        ]
        means = [row.mean for row in rows.values()]
        fewest = min(means, key=lambda mean: mean.clusters)
        how = "; ".join(filter(None, (fewest.how or fewest.reason, conservative(means))))
        notes = (*notes, f"Brackets: 95% CI, {how}.")
        title = f"{file.resolve().name}: mean scores"
        return Finding((Part("rows", title, columns, [*rows.values()], notes),))

    def suits(self, run: Any) -> bool:
        return False
