"""Quality and agreement of the human raters of a run, and a comparison with its own judge."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

import numpy as np

from ....protocols.question import Problem
from ....protocols.scores import RANGES, TIE, accuracy, brier
from ...analysis.scoring.agreement import Agreement, krippendorff_alpha, shrunk
from ...analysis.scoring.calibration import Calibration, calibration
from ...analysis.scoring.estimate import Ends, Estimate
from ...analysis.scoring.inference import of_questions
from ...errors import UsageError
from ...run.reader import RunReader
from .journal import (
    PERSONS,
    BeliefBefore,
    RaterEvent,
    RepeatAnswered,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    TaskReturned,
    read_journal,
)
from .panel import read_raters
from .plan import PlannedTask, read_plan
from .results import withdrawn
from .task import answer_digests

Probs = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RaterStanding:
    """Progress of one rater, in numbers of tasks."""

    rater: str
    answered: int
    abstained: int
    under_way: int
    let_lie: int


@dataclass(frozen=True, slots=True)
class RaterQuality:
    """Accuracy and calibration of one rater's probabilities."""

    rater: str
    judged: int
    """Tasks answered whose problem belongs to the run."""
    abstained: int
    brier: Estimate | None
    """Mean Brier score, in [-2, 0], 0 is best; None if nothing was judged."""
    accuracy: float | None
    shrunk: float | None
    """Mean Brier score, drawn to that of all raters by as much as it is chance (empirical Bayes):
    the figure to rank raters by. None if nothing was judged."""
    calibration: Calibration | None
    """Calibration of the largest probability."""
    moved: Estimate | None
    """Change by the transcript: Brier score after minus before, on tasks with both."""
    seconds: float | None
    """Median time for a task."""


@dataclass(frozen=True, slots=True)
class ComparedJudge:
    """A judge of the run compared with the raters on the same transcripts."""

    judge: str
    transcripts: int
    persons: Estimate
    """Brier score of the raters' mean probabilities, problem by problem."""
    model: Estimate
    difference: Estimate
    """Persons minus model: above zero, persons are better."""
    apart: float
    """Mean absolute difference of the two probabilities of the truth, in [0, 1]."""
    same: float
    """Share of transcripts on which both find the same answer likeliest."""
    alpha: Agreement | None
    """Krippendorff's alpha of the two, taken as two raters."""


@dataclass(frozen=True, slots=True)
class SelfAgreement:
    """Agreement of a rater with itself on transcripts judged twice."""

    rater: str
    repeated: int
    apart: float
    """Mean over repeats of the largest change of a probability, in [0, 1]."""
    same: float
    """Share of repeats with the same likeliest answer."""
    alpha: Agreement | None
    """Krippendorff's alpha of the two times, taken as two raters; None if all values are equal."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Agreement among the raters of a run, with the quality of each."""

    tasks: int
    """Distinct tasks answered: transcripts, or questions about them."""
    raters: tuple[RaterQuality, ...]
    nominal: Agreement | None
    """Alpha of the likeliest answers."""
    interval: Agreement | None
    """Alpha of the probabilities."""
    beside: tuple[ComparedJudge, ...]
    again: tuple[SelfAgreement, ...]
    """Self-agreement of the raters who judged a transcript twice."""


def rater_standings(run: Path) -> list[RaterStanding]:
    """Progress of each rater. UsageError for a run without raters."""
    standings = []
    by_rater = _by_rater(run)
    for rater, events in by_rater.items():
        endings = (TaskAnswered, TaskAbstained, RepeatAnswered, TaskReturned)
        assigned = {each.task for each in events if isinstance(each, TaskGiven)}
        finished = {each.task for each in events if isinstance(each, endings)}
        standings.append(
            RaterStanding(
                rater,
                sum(isinstance(each, TaskAnswered) for each in events),
                sum(isinstance(each, TaskAbstained) for each in events),
                len(assigned - finished),
                sum(isinstance(each, TaskReturned) for each in events),
            )
        )
    return standings


def rater_agreement(run: Path) -> RaterAgreement:
    """Agreement of a run's raters, but for those who withdrew. UsageError if nobody has answered
    anything."""
    listed = RunReader(run).problems
    problems = {
        digest: (problem, order)
        for problem in listed
        for digest, order in [answer_digests(problem.question)]
    }
    events = _by_rater(run)
    units: dict[str, list[Probs]] = defaultdict(list)
    problem_of: dict[str, str] = {}
    tasks: set[str] = set()
    for event in (each for history in events.values() for each in history):
        if isinstance(event, TaskAnswered):
            tasks.add(event.request)
            if event.probs is not None:
                units[event.request].append(_in_order(event.probs, event, problems))
                problem_of[event.request] = event.problem
    if not tasks:
        raise UsageError(f"{run}: no rater has answered anything yet")
    clusters = [problem_of[request] for request in units]
    return RaterAgreement(
        len(tasks),
        _shrunk([_quality(rater, history, problems) for rater, history in events.items()]),
        _alpha([[_likeliest(p) for p in each] for each in units.values()], clusters),
        _alpha(list(units.values()), clusters),
        tuple(_beside(run, listed, units)),
        tuple(
            each for rater, history in events.items() if (each := _self_agreement(rater, history))
        ),
    )


Problems = Mapping[str, tuple[Problem, tuple[str, ...]]]


def _by_rater(run: Path) -> dict[str, list[RaterEvent]]:
    raters = read_raters(run / PERSONS)
    by_rater: dict[str, list[RaterEvent]] = {rater.name: [] for rater in raters}
    if not by_rater:
        raise UsageError(f"{run}: no persons were asked; begin with oversight human serve {run}")
    gone = withdrawn(run)
    for event in read_journal(run):
        if event.rater not in gone:
            by_rater.setdefault(event.rater, []).append(event)
    return {name: events for name, events in by_rater.items() if name not in gone}


def _in_order(probs: Probs, event: TaskAnswered, problems: Problems) -> Probs:
    """Probabilities in the order of the problem's answers; unchanged if the options are not its
    answers."""
    if event.problem not in problems or not event.order:
        return probs
    _, order = problems[event.problem]
    return tuple(probs[event.order.index(answer)] for answer in order)


def _quality(rater: str, events: Sequence[RaterEvent], problems: Problems) -> RaterQuality:
    listed = [problem for problem, _ in problems.values()]
    prior_probs = {each.task: each.probs for each in events if isinstance(each, BeliefBefore)}
    answered = [each for each in events if isinstance(each, TaskAnswered)]
    scores: dict[str, list[float]] = defaultdict(list)
    moves: dict[str, list[float]] = defaultdict(list)
    largest, right = [], []
    for each in answered:
        if each.probs is None or not each.order or each.problem not in problems:
            continue
        problem, _ = problems[each.problem]
        probs = _in_order(each.probs, each, problems)
        score = brier(probs, problem.best)
        scores[problem.id].append(score)
        largest.append(max(probs))
        right.append(accuracy(probs, problem.best))
        if each.task in prior_probs:
            prior = _in_order(prior_probs[each.task], each, problems)
            moves[problem.id].append(score - brier(prior, problem.best))
    return RaterQuality(
        rater,
        len(right),
        sum(isinstance(each, TaskAbstained) for each in events),
        _estimated(scores, listed, RANGES["brier"]),
        fmean(right) if right else None,
        None,
        calibration(np.array(largest), np.array(right)) if right else None,
        _estimated(moves, listed, (-2.0, 2.0)),
        median(each.seconds for each in answered) if answered else None,
    )


def _shrunk(raters: Sequence[RaterQuality]) -> tuple[RaterQuality, ...]:
    """The raters with shrunk means. A rater with one answer must not top the table."""
    judged = [each.brier for each in raters if each.brier]
    if not judged:
        return tuple(raters)
    n = np.array([each.n for each in judged], np.float64)
    values = np.array([each.value for each in judged])
    mean = float((n * values).sum() / n.sum())
    noise = np.array([(each.error**2 * each.n) if each.error else np.nan for each in judged])
    within = float(np.nanmean(noise)) if not np.isnan(noise).all() else 0.0
    drawn = iter(shrunk(values, within / n, mean).tolist())
    return tuple(replace(each, shrunk=next(drawn)) if each.brier else each for each in raters)


def _self_agreement(rater: str, events: Sequence[RaterEvent]) -> SelfAgreement | None:
    first = {each.task: each.probs for each in events if isinstance(each, TaskAnswered)}
    pairs = [
        (before, each.probs)
        for each in events
        if isinstance(each, RepeatAnswered) and each.probs and (before := first.get(each.of))
    ]
    if not pairs:
        return None
    return SelfAgreement(
        rater,
        len(pairs),
        fmean(max(abs(p - q) for p, q in zip(a, b, strict=True)) for a, b in pairs),
        fmean(_likeliest(a) == _likeliest(b) for a, b in pairs),
        _alpha(pairs),
    )


def _estimated(
    values: Mapping[str, Sequence[float]], problems: Iterable[Problem], ends: Ends
) -> Estimate | None:
    """The mean over problems of each problem's mean value; groups are resampled together."""
    if not values:
        return None
    groups = {problem.id: problem.group for problem in problems}
    means = tuple(fmean(each) for each in values.values())
    return of_questions(tuple(values), means, [groups[id] for id in values], ends).estimate()


def _beside(
    run: Path, listed: Sequence[Problem], units: Mapping[str, Sequence[Probs]]
) -> Iterable[ComparedJudge]:
    """Compare the run's own judges with the raters on the transcripts that both have judged."""
    problems = {problem.id: problem for problem in listed}
    by_judge: dict[str, dict[str, PlannedTask]] = defaultdict(dict)
    for task in read_plan(run / PERSONS):
        if task.request in units and task.problem in problems:
            by_judge[task.judge].setdefault(task.request, task)
    for judge, tasks in by_judge.items():
        persons: dict[str, list[float]] = defaultdict(list)
        model: dict[str, list[float]] = defaultdict(list)
        apart, same, pairs = [], [], []
        for request, task in tasks.items():
            problem = problems[task.problem]
            mean = tuple(map(fmean, zip(*units[request], strict=True)))
            persons[problem.id].append(brier(mean, problem.best))
            model[problem.id].append(brier(task.probs, problem.best))
            apart.append(abs(mean[problem.best] - task.probs[problem.best]))
            same.append(float(_likeliest(mean) == _likeliest(task.probs)))
            pairs.append((mean, task.probs))
        differences = {
            id: [a - b for a, b in zip(persons[id], model[id], strict=True)] for id in persons
        }
        ends = RANGES["brier"]
        of_persons, of_model = (_estimated(each, listed, ends) for each in (persons, model))
        difference = _estimated(differences, listed, (-2.0, 2.0))
        assert of_persons and of_model and difference, "there is a task of every judge"
        alpha = _alpha(pairs, [task.problem for task in tasks.values()])
        yield ComparedJudge(
            judge, len(tasks), of_persons, of_model, difference, fmean(apart), fmean(same), alpha
        )


def _likeliest(probs: Sequence[float]) -> Probs:
    """Indicator of the likeliest answer; answers that tie share the 1 equally."""
    top = [p >= max(probs) - TIE for p in probs]
    return tuple(each / sum(top) for each in top)


def _alpha(units: Sequence[Sequence[Probs]], clusters: Sequence[str] = ()) -> Agreement | None:
    """Krippendorff's alpha of probabilities, those of fewer answers filled up with 0."""
    most = max((len(p) for unit in units for p in unit), default=0)
    filled = [[(*p, *(0.0,) * (most - len(p))) for p in unit] for unit in units]
    return krippendorff_alpha(filled, clusters)
