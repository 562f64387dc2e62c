"""What people judged: their progress and agreement, and lines for `measure judgements`."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json import dumps, loads
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from ....protocols.question import Problem
from ...analysis.catalogue import Analysis
from ...analysis.findings.finding import Finding, Part, number, word
from ...analysis.raters import (
    Both,
    Probs,
    agreement_part,
    alpha,
    beside,
    beside_part,
    likeliest,
    raters_part,
)
from ...analysis.rows import RunRows
from ...analysis.scoring.judgements import Judgement, Judgements
from ...errors import UsageError
from ...run.reader import RunReader
from .journal import (
    PERSONS,
    BeliefBefore,
    DeskHistory,
    JudgedTranscript,
    TaskAnswered,
    TaskGiven,
    Withdrawn,
    read_journal,
)
from .panel import read_raters
from .task import answer_digests

NO_PAIRS = (
    "no task has probabilities of two raters, or all are one: oversight human serve RUN --each 2"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One judgement of a rater."""

    request: str
    """What all judgements of one transcript have in common."""
    problem: Problem
    verdict: Probs
    """In the order of the problem's answers."""
    line: Judgement
    transcript: JudgedTranscript | None
    """None in a sweep with people in its seats."""


def judged(run: Path) -> Iterator[Judged]:
    """All probabilities that were given of a problem's answers, in the order of the journal;
    without those of raters who withdrew. RunFolderError.

    A transcript of a finished run names its row as `setting`, and was judged in the world of the
    answer argued for; of a sweep with people in its seats, whose report has its rows, there is the
    verdict.
    """
    problems = {}
    for problem in RunReader(run).problems:
        digest, order = answer_digests(problem.question)
        problems[digest] = problem, order
    events = list(read_journal(run))
    gone = {event.rater for event in events if isinstance(event, Withdrawn)}
    first = dict[tuple[str, str], Probs]()
    given = dict[str, TaskGiven]()
    for event in events:
        match event:
            case TaskGiven():
                given[event.task] = event
            case BeliefBefore():
                first[event.rater, event.task] = event.probs
            case TaskAnswered(probs=probs) if probs and event.rater not in gone:
                task = given[event.task]
                if task.problem not in problems or not task.order:
                    continue
                problem, order = problems[task.problem]
                labels = [answer.label for answer in problem.question.answers]
                places = [task.order.index(answer) for answer in order]
                before = first.get((event.rater, event.task))
                verdict = tuple(probs[at] for at in places)
                its = task.transcript
                worlds = tuple(verdict if its is None or its.side == at else () for at in labels)
                keys = {"judge": event.rater, "labels": dumps(labels)}
                keys |= {"group": problem.group} if problem.group else {}
                keys |= {"setting": its.row} if its else {}
                believed = tuple(before[at] for at in places) if before else None
                line = Judgement(problem.id, problem.values, worlds, keys, believed, its is None)
                yield Judged(task.request, problem, verdict, line, its)


@dataclass(frozen=True, slots=True)
class RaterStanding:
    """Progress of one rater, in numbers of tasks."""

    rater: str
    answered: int
    abstained: int
    under_way: int
    abandoned: int
    seconds: float | None
    """Median time for an answer."""


def rater_standings(run: Path) -> list[RaterStanding]:
    """Progress of each rater who did not withdraw. UsageError for a run without raters."""
    history = DeskHistory(read_raters(run / PERSONS))
    if not history.of:
        raise UsageError(f"{run}: no persons were asked; begin with oversight human serve {run}")
    for event in read_journal(run):
        history.note(event)
    found = []
    for name, its in history.of.items():
        ended = [each for each in history.settled.values() if each.rater == name]
        seconds = [each.seconds for each in ended if isinstance(each, TaskAnswered)]
        held = sum(holder == name for holder in history.holder.values())
        typical = median(seconds) if seconds else None
        standing = (len(seconds), len(ended) - len(seconds), held, len(its.returned), typical)
        if not its.withdrawn:
            found.append(RaterStanding(name, *standing))
    return found


def standings_part(found: Sequence[RaterStanding]) -> Part:
    """One line per rater: how far it is."""
    columns = [
        word("rater", "rater"),
        number("answered", "answered"),
        number("no answer", "abstained"),
        number("under way", "under_way"),
        number("abandoned", "abandoned"),
        number("median s", "seconds", ".0f"),
    ]
    return Part("standings", "Progress", columns, found)


def rater_agreement(run: Path) -> Finding:
    """Progress of the raters of a run, the quality of each, their agreement, and the judges of the
    run on the transcripts that both judged."""
    standings = standings_part(rater_standings(run))
    every = list(judged(run))
    if not every:
        return Finding((standings,), lead=(f"{run}: no rater has judged anything yet",))
    units = defaultdict[str, list[Judged]](list)
    for each in every:
        units[each.request].append(each)
    clusters = [its[0].problem.id for its in units.values()]
    verdicts = [[each.verdict for each in its] for its in units.values()]
    interval = alpha(verdicts, clusters)
    alphas = {
        "the answer found likeliest (nominal)": alpha(
            [[likeliest(probs) for probs in its] for its in verdicts], clusters
        ),
        "probabilities (interval)": interval,
    }
    by_judge = defaultdict[str, list[Both]](list)
    for (one, *_), probs in zip(units.values(), verdicts, strict=True):
        if one.transcript:
            both = Both(one.problem, one.transcript.probs, probs)
            by_judge[one.transcript.judge].append(both)
    title = f"Agreement on {len(units):,} tasks (Krippendorff's alpha)"
    return Finding(
        (
            standings,
            raters_part(Judgements.of(each.line for each in every), "Raters"),
            agreement_part(title, alphas, () if interval else (NO_PAIRS,)),
            beside_part(
                "The same transcripts before the judge of the run and before persons",
                [beside(judge, "persons", its) for judge, its in by_judge.items()],
            ),
        )
    )


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
        return rater_agreement(run.folder)

    def of_table(self, file: Path, score: str) -> Finding:
        from ..studies.scoring import is_study, study_agreement

        if not is_study(file):
            raise UsageError(f"{file}: neither a run nor a study's folder")
        return study_agreement(file)

    def suits(self, run: RunReader) -> bool:
        return any(True for _ in read_journal(run.folder))


def judgements(run: Path) -> Iterator[bytes]:
    """`judged` as JSON Lines, with pseudonyms for raters: nobody can tell from one which link they
    had."""
    identity = RunReader(run).manifest.identity
    for its in (each.line for each in judged(run)):
        labels: list[str] = loads(its.keys["labels"])
        rater = f"{identity} {its.keys['judge']}"

        def told(probs: Sequence[float], labels: Sequence[str] = labels) -> dict[str, float]:
            return dict(zip(labels, probs, strict=True))

        line: dict[str, Any] = {
            "id": its.question,
            "values": told(its.values),
            "judge": hashlib.sha256(rater.encode()).hexdigest()[:12],
            **{key: its.keys[key] for key in ("group", "setting") if key in its.keys},
        }
        if its.first:
            line["first"] = told(its.first)
        worlds = {label: told(p) for label, p in zip(labels, its.worlds, strict=True) if p}
        line |= {"verdict": worlds[labels[0]]} if its.everywhere else {"worlds": worlds}
        yield orjson.dumps(line) + b"\n"
