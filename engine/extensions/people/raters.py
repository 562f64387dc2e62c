"""The people who judged a run: their progress, quality and agreement, beside the run's judges."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ...analysis.catalogue import Analysis
from ...analysis.findings.finding import (
    Finding,
    Part,
    change,
    figure,
    number,
    plain,
    share,
    word,
)
from ...analysis.raters import (
    Beside,
    Both,
    Probs,
    Rater,
    alpha,
    beside,
    likeliest,
    raters,
)
from ...analysis.rows import RunRows
from ...analysis.scoring.agreement import Agreement
from ...analysis.scoring.judgements import Judgements
from ...errors import EngineError, UsageError
from ...run.reader import RunReader
from .journal import (
    PERSONS,
    RaterEvent,
    TaskAbstained,
    TaskAnswered,
    TaskGiven,
    TaskReturned,
    read_journal,
)
from .panel import read_raters
from .plan import read_plan
from .results import judged, withdrawn

NO_PAIRS = (
    "no task has probabilities of two raters, or all are one: oversight human serve RUN --each 2"
)


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
    """How good one rater is."""

    rater: str
    judged: int
    """Tasks answered whose problem belongs to the run."""
    abstained: int
    its: Rater | None
    """None if nothing was judged."""
    seconds: float | None
    """Median time for a task."""


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
    beside: tuple[Beside, ...]
    """Each judge of the run, and the raters of the transcripts that both have judged."""


def rater_standings(run: Path) -> list[RaterStanding]:
    """Progress of each rater. UsageError for a run without raters."""
    standings = []
    by_rater = _by_rater(run)
    for rater, events in by_rater.items():
        endings = (TaskAnswered, TaskAbstained, TaskReturned)
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
    events = _by_rater(run)
    answered = [e for history in events.values() for e in history if isinstance(e, TaskAnswered)]
    if not answered:
        raise UsageError(f"{run}: no rater has answered anything yet")
    every = list(judged(run))
    verdicts = {(event.rater, event.task): next(filter(None, its.worlds)) for event, its in every}
    units: dict[str, list[Probs]] = defaultdict(list)
    problem_of: dict[str, str] = {}
    for event in answered:
        if event.probs is not None:
            # Options that are no answers of a problem stand as they were shown.
            units[event.request].append(verdicts.get((event.rater, event.task)) or event.probs)
            problem_of[event.request] = event.problem
    clusters = [problem_of[request] for request in units]
    good = raters(Judgements.of(its for _, its in every)) if every else []
    by_name = {each.judge: each for each in good}
    return RaterAgreement(
        len({event.request for event in answered}),
        tuple(_quality(rater, history, by_name.get(rater)) for rater, history in events.items()),
        alpha([[likeliest(p) for p in each] for each in units.values()], clusters),
        alpha(list(units.values()), clusters),
        tuple(_beside(run, units)),
    )


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


def _quality(rater: str, events: Sequence[RaterEvent], its: Rater | None) -> RaterQuality:
    seconds = [each.seconds for each in events if isinstance(each, TaskAnswered)]
    return RaterQuality(
        rater,
        its.n if its else 0,
        sum(isinstance(each, TaskAbstained) for each in events),
        its,
        median(seconds) if seconds else None,
    )


def _beside(run: Path, units: Mapping[str, Sequence[Probs]]) -> Iterable[Beside]:
    problems = {problem.id: problem for problem in RunReader(run).problems}
    by_judge: dict[str, dict[str, Both]] = defaultdict(dict)
    for task in read_plan(run / PERSONS):
        if task.request in units and task.problem in problems:
            both = Both(problems[task.problem], task.probs, units[task.request])
            by_judge[task.judge].setdefault(task.request, both)
    return (beside(judge, "persons", list(its.values())) for judge, its in by_judge.items())


def standings_finding(found: Sequence[RaterStanding]) -> Finding:
    """One line per rater: how far it is."""
    columns = [
        word("rater", "rater"),
        number("answered", "answered"),
        number("no answer", "abstained"),
        number("under way", "under_way"),
        number("abandoned", "let_lie"),
    ]
    return Finding((Part("standings", "Progress", columns, found),))


def agreement_finding(found: RaterAgreement) -> Finding:
    """Raters, their agreement, and the judge of the run beside them."""
    raters = [
        word("rater", "rater"),
        number("judged", "judged"),
        number("no answer", "abstained"),
        figure("Brier", "its.score"),
        change("shrunk", "its.shrunk"),
        share("right", "its.right.value"),
        number("calibration error", "its.calibration.debiased_error", "z.2f"),
        change("overconfident", "its.calibration.overconfidence", 2),
        figure("moved by what was said", "its.moved"),
        number("median s", "seconds", ".0f"),
    ]
    beside = [
        word("judge", "first"),
        number("transcripts", "transcripts"),
        figure("persons", "second_score"),
        figure("judge", "first_score"),
        figure("persons less judge", "difference"),
        number("apart", "apart", ".2f"),
        share("same", "same"),
        figure("alpha", "alpha.alpha", 2),
    ]
    alphas = (
        _Alpha("the answer found likeliest (nominal)", found.nominal),
        _Alpha("probabilities (interval)", found.interval),
    )
    agreement = [
        word("of", "of"),
        figure("alpha", "agreement.alpha"),
        number("tasks", "agreement.units"),
        number("answers", "agreement.values"),
    ]
    title = f"Agreement on {found.tasks:,} tasks (Krippendorff's alpha)"
    same = "The same transcripts before persons and before the judge of the run (Brier score)"
    return Finding(
        (
            Part("", "Raters", raters, found.raters),
            Part("", title, agreement, alphas, () if found.interval else (NO_PAIRS,)),
            Part("", same, beside, found.beside),
        ),
        plain(found),
    )


@dataclass(frozen=True, slots=True)
class _Alpha:
    of: str
    agreement: Agreement | None


@dataclass(frozen=True, slots=True)
class People(Analysis):
    """Print the progress of the raters of RUN, their agreement, and the score of each.

    Krippendorff's alpha of the answers that they found likeliest, and of their probabilities; for
    each rater, Brier score, accuracy and calibration, and the effect of the transcript; for
    finished transcripts also the run's own judge on the same ones. RUN may be a study's folder:
    then its judges, and those of one conversation beside each other.
    """

    title = "People"
    lead = (
        "People who judged transcripts of this run, beside its models. Raters are pseudonyms; of a "
        "person nothing else is kept."
    )

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        parts = standings_finding(rater_standings(run.folder)).parts
        try:
            found = agreement_finding(rater_agreement(run.folder))
            return Finding((*parts, *found.parts), found.about)
        except EngineError as exc:
            return Finding(parts, lead=(str(exc),))

    def of_table(self, file: Path, score: str) -> Finding:
        from ..studies.scoring import is_study, study_agreement

        if not is_study(file):
            raise UsageError(f"{file}: neither a run nor a study's folder")
        return study_agreement(file)

    def suits(self, run: RunReader) -> bool:
        return any(True for _ in read_journal(run.folder))
