"""How good the raters of a run are, how far they agree, and how its own judge compares."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np

from oversight.cache.call import Call
from oversight.engine.errors import UsageError
from oversight.engine.persons.journal import (
    PERSONS,
    BeliefBefore,
    CheckAnswered,
    RaterEvent,
    RepeatAnswered,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    TaskReturned,
    read_journal,
)
from oversight.engine.persons.judging import JudgedCase, judged_cases
from oversight.engine.persons.panel import PERSON, read_raters
from oversight.engine.persons.task import answer_digests
from oversight.engine.runs.loaded_sweep import LoadedSweep, open_run
from oversight.engine.runs.lookup import Parts, cells_with_verdict
from oversight.engine.runs.recorded import recorded
from oversight.engine.runs.replay import replay_cache
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.question import Problem
from oversight.protocols.scores import RANGES, TIE, accuracy, brier
from oversight.protocols.scoring.agreement import Agreement, krippendorff_alpha
from oversight.protocols.scoring.calibration import Calibration, calibration
from oversight.protocols.scoring.sample import Sample
from oversight.protocols.scoring.statistics import Estimate, estimate

Probs = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RaterStanding:
    """How far a rater is."""

    rater: str
    answered: int
    abstained: int
    under_way: int
    let_lie: int
    checks: int
    passed: int
    """Of the attention items."""


@dataclass(frozen=True, slots=True)
class RaterQuality:
    """How good a rater's probabilities of answers are."""

    rater: str
    judged: int
    """Answers whose problem is one of the run's."""
    abstained: int
    brier: Estimate | None
    """Of the truth; in [-2, 0], 0 is best. None where nothing was judged."""
    accuracy: float | None
    calibration: Calibration | None
    """Of the answer found likeliest."""
    moved: Estimate | None
    """What the transcript changed: Brier score after less before, on tasks with both."""
    seconds: float | None
    """The median of a task."""
    checks: int
    passed: int


@dataclass(frozen=True, slots=True)
class JudgeBeside:
    """The judge of a run and the raters on the same transcripts."""

    judge: str
    transcripts: int
    persons: Estimate
    """Brier score of the raters' mean probabilities, problem by problem."""
    model: Estimate
    difference: Estimate
    """Persons less model: above zero, persons are better."""
    apart: float
    """Mean distance of the two probabilities of the truth, in [0, 1]."""
    same: float
    """Share of transcripts on which both find the same answer likeliest."""
    alpha: Agreement | None
    """Of the two, as if they were two raters."""


@dataclass(frozen=True, slots=True)
class SelfAgreement:
    """What a rater said of a transcript, and said of it again."""

    rater: str
    repeated: int
    apart: float
    """Mean of the largest change of a probability, in [0, 1]."""
    same: float
    """Share of repeats with the same answer found likeliest."""
    alpha: Agreement | None
    """Krippendorff's, of the two times as if they were two raters; None where all values are one.
    """


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    tasks: int
    """Different transcripts that were judged, or questions about them."""
    raters: tuple[RaterQuality, ...]
    nominal: Agreement | None
    """Of the answers found likeliest."""
    interval: Agreement | None
    """Of the probabilities."""
    beside: tuple[JudgeBeside, ...]
    again: tuple[SelfAgreement, ...]
    """Of raters who judged something twice."""


def rater_standings(run: Path) -> list[RaterStanding]:
    """A line a rater. UsageError for a run without any."""
    found = []
    by_rater = _by_rater(run)
    for rater, events in by_rater.items():
        ended = (TaskAnswered, TaskAbstained, CheckAnswered, RepeatAnswered, TaskReturned)
        given = {each.task for each in events if isinstance(each, TaskGiven)}
        over = {each.task for each in events if isinstance(each, ended)}
        checks = [each for each in events if isinstance(each, CheckAnswered)]
        found.append(
            RaterStanding(
                rater,
                sum(isinstance(each, TaskAnswered) for each in events),
                sum(isinstance(each, TaskAbstained) for each in events),
                len(given - over),
                sum(isinstance(each, TaskReturned) for each in events),
                len(checks),
                sum(each.passed for each in checks),
            )
        )
    return found


def rater_agreement(run: Path, store: Path | str | None = None) -> RaterAgreement:
    """The figures. UsageError for a run that no rater has answered anything of.

    store: where the replies are from which transcripts are taken; None for the run's own.
    """
    opened = open_run(run)
    problems = {digest: (p, order) for p, digest, order in _digests(opened.sweep)}
    events = _by_rater(run)
    units: dict[str, list[Probs]] = defaultdict(list)
    about: dict[str, str] = {}
    tasks: set[str] = set()
    for event in (each for told in events.values() for each in told):
        if isinstance(event, TaskAnswered):
            tasks.add(event.request)
            if event.probs is not None:
                units[event.request].append(_in_order(event.probs, event, problems))
                about[event.request] = event.problem
    if not tasks:
        raise UsageError(f"{run}: no rater has answered anything yet")
    most = max((len(p) for each in units.values() for p in each), default=0)
    points = [[_padded(p, most) for p in each] for each in units.values()]
    clusters = [about[request] for request in units]
    return RaterAgreement(
        len(tasks),
        tuple(_quality(rater, told, problems) for rater, told in events.items()),
        krippendorff_alpha([[_likeliest(p) for p in each] for each in points], clusters),
        krippendorff_alpha(points, clusters),
        tuple(_beside(run, opened, store, units)),
        tuple(each for rater, told in events.items() if (each := _self_agreement(rater, told))),
    )


Problems = Mapping[str, tuple[Problem, tuple[str, ...]]]


def _by_rater(run: Path) -> dict[str, list[RaterEvent]]:
    folder = run / PERSONS
    found: dict[str, list[RaterEvent]] = {rater.name: [] for rater in read_raters(folder)}
    if not found:
        raise UsageError(f"{run}: no persons were asked; begin with oversight human serve {run}")
    for event in read_journal(folder):
        found.setdefault(event.rater, []).append(event)
    return found


def _digests(sweep: Sweep) -> Iterable[tuple[Problem, str, tuple[str, ...]]]:
    for problem in sweep.problems:
        yield problem, *answer_digests(problem.question)


def _in_order(probs: Probs, event: TaskAnswered, problems: Problems) -> Probs:
    """In the order of the problem's answers; as they stand where the options are no answers."""
    if event.problem not in problems or not event.order:
        return probs
    _, order = problems[event.problem]
    return tuple(probs[event.order.index(answer)] for answer in order)


def _quality(rater: str, events: Sequence[RaterEvent], problems: Problems) -> RaterQuality:
    before = {each.task: each.probs for each in events if isinstance(each, BeliefBefore)}
    answered = [each for each in events if isinstance(each, TaskAnswered)]
    checks = [each for each in events if isinstance(each, CheckAnswered)]
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
        if each.task in before:
            was = _in_order(before[each.task], each, problems)
            moves[problem.id].append(score - brier(was, problem.best))
    return RaterQuality(
        rater,
        len(right),
        sum(isinstance(each, TaskAbstained) for each in events),
        _estimated(scores, problems, RANGES["brier"]),
        fmean(right) if right else None,
        calibration(np.array(largest), np.array(right)) if right else None,
        _estimated(moves, problems, None),
        median(each.seconds for each in answered) if answered else None,
        len(checks),
        sum(each.passed for each in checks),
    )


def _self_agreement(rater: str, events: Sequence[RaterEvent]) -> SelfAgreement | None:
    first = {each.task: each.probs for each in events if isinstance(each, TaskAnswered)}
    pairs = [
        (before, each.probs)
        for each in events
        if isinstance(each, RepeatAnswered) and each.probs and (before := first.get(each.of))
    ]
    if not pairs:
        return None
    most = max(len(a) for a, _ in pairs)
    return SelfAgreement(
        rater,
        len(pairs),
        fmean(max(abs(p - q) for p, q in zip(a, b, strict=True)) for a, b in pairs),
        fmean(_likeliest(a) == _likeliest(b) for a, b in pairs),
        krippendorff_alpha([[_padded(a, most), _padded(b, most)] for a, b in pairs]),
    )


def _estimated(
    values: Mapping[str, Sequence[float]], problems: Problems, ends: tuple[float, float] | None
) -> Estimate | None:
    """The mean over problems, of each the mean of its values; groups are resampled together."""
    if not values:
        return None
    groups = {problem.id: problem.group for problem, _ in problems.values()}
    means = tuple(fmean(each) for each in values.values())
    return estimate(Sample(tuple(values), means, tuple(groups[id] for id in values), ends))


def _beside(
    run: Path, opened: LoadedSweep, store: Path | str | None, units: Mapping[str, Sequence[Probs]]
) -> Iterable[JudgeBeside]:
    """The run's own judges on the transcripts that raters have judged again."""
    by_judge: dict[str, dict[str, JudgedCase]] = defaultdict(dict)
    for case, request in _judged_again(run, opened, store, units):
        by_judge[case.cell.row.judge].setdefault(request, case)
    problems = {digest: (p, order) for p, digest, order in _digests(opened.sweep)}
    for judge, cases in by_judge.items():
        persons: dict[str, list[float]] = defaultdict(list)
        model: dict[str, list[float]] = defaultdict(list)
        apart, same, pairs = [], [], []
        for request, case in cases.items():
            problem = case.cell.problem
            mean = tuple(map(fmean, zip(*units[request], strict=True)))
            persons[problem.id].append(brier(mean, problem.best))
            model[problem.id].append(brier(case.probs, problem.best))
            apart.append(abs(mean[problem.best] - case.probs[problem.best]))
            same.append(float(_likeliest(mean) == _likeliest(case.probs)))
            pairs.append((mean, case.probs))
        differences = {
            id: [a - b for a, b in zip(persons[id], model[id], strict=True)] for id in persons
        }
        ends = RANGES["brier"]
        of_persons, of_model = (_estimated(each, problems, ends) for each in (persons, model))
        difference = _estimated(differences, problems, (-2.0, 2.0))
        assert of_persons and of_model and difference, "there is a case of every judge"
        most = max(len(a) for a, _ in pairs)
        points = [[_padded(a, most), _padded(b, most)] for a, b in pairs]
        alpha = krippendorff_alpha(points, [case.cell.problem.id for case in cases.values()])
        yield JudgeBeside(
            judge, len(cases), of_persons, of_model, difference, fmean(apart), fmean(same), alpha
        )


def _judged_again(
    run: Path, opened: LoadedSweep, store: Path | str | None, units: Mapping[str, object]
) -> list[tuple[JudgedCase, str]]:
    panels = {f"{PERSON}{rater.panel}" for rater in read_raters(run / PERSONS)}
    if again := panels - set(opened.sweep.models):
        cells = cells_with_verdict(opened.sweep, run, Parts())
        with recorded(run, store) as replies:
            cache = replay_cache(replies, opened.models.identity_in(replies))

            async def found() -> list[tuple[JudgedCase, str]]:
                cases = [case async for case in judged_cases(cells, cache)]
                asked = (
                    (case, Call(case.call(m).request).address) for case in cases for m in again
                )
                return [(case, request) for case, request in asked if request in units]

            return asyncio.run(found())
    return []


def _likeliest(probs: Sequence[float]) -> Probs:
    """A place among the answers as a point; several that tie share it."""
    top = [p >= max(probs) - TIE for p in probs]
    return tuple(each / sum(top) for each in top)


def _padded(probs: Probs, most: int) -> Probs:
    return probs + (0.0,) * (most - len(probs))
