"""Judgements of people: their progress and agreement, and lines for `measure judgements`."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import dumps, loads
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson

from ....protocols.question import Problem
from ...analysis.catalogue import Analysis
from ...analysis.findings.finding import Finding, Part, number, word
from ...analysis.raters import (
    agreement_of,
    agreement_part,
    alphas,
    beside,
    beside_part,
    raters_part,
)
from ...analysis.reading import ASIDE, JudgementSource, read_judgements
from ...analysis.reports.formats import COLUMNS
from ...analysis.rows import RunRows
from ...analysis.scoring.judgements import Judgement
from ...errors import UsageError
from ...run.folders import is_run
from ...run.reader import RunReader
from .journal import (
    PERSONS,
    BeliefBefore,
    RaterHistories,
    TaskAnswered,
    TaskGiven,
    Withdrawn,
    read_journal,
    read_raters,
)
from .task import answer_digests

NO_PAIRS = (
    "no task has probabilities of two raters, or all probabilities are 1: "
    "oversight human serve RUN --raters-per-transcript 2"
)


class PeopleJudged(JudgementSource):
    """The judgements of a run's raters, in the order of the journal, without withdrawn raters. For
    a finished run, also its judge's verdict on each transcript, marked as aside.

    A transcript of a finished run has its row as `setting`, and was judged in the world of the
    argued answer. A sweep with people in its roles has one verdict for all worlds. `repeat` is the
    address of the request that shows the transcript."""

    def holds(self, path: Path) -> bool:
        return is_run(path) and (path / PERSONS).is_dir()

    def judgements(self, path: Path) -> Iterator[Judgement]:
        problems = {}
        for problem in RunReader(path).problems:
            digest, order = answer_digests(problem.question)
            problems[digest] = problem, order
        events = list(read_journal(path))
        withdrawn = {event.rater for event in events if isinstance(event, Withdrawn)}
        first = dict[tuple[str, str], tuple[float, ...]]()
        tasks, with_judge = dict[str, TaskGiven](), set[str]()
        for line, event in enumerate(events, 1):
            match event:
                case TaskGiven():
                    tasks[event.task] = event
                case BeliefBefore():
                    first[event.rater, event.task] = event.probs
                case TaskAnswered(probs=probs) if probs and event.rater not in withdrawn:
                    task = tasks[event.task]
                    if task.problem not in problems or not task.order:
                        continue
                    problem, order = problems[task.problem]
                    labels = [answer.label for answer in problem.question.answers]
                    indices = [task.order.index(answer) for answer in order]
                    before = first.get((event.rater, event.task))
                    belief = tuple(before[n] for n in indices) if before else None
                    verdict, transcript = tuple(probs[n] for n in indices), task.transcript
                    side = transcript.side if transcript else None
                    keys = {"labels": dumps(labels), "repeat": task.request}
                    keys |= {"group": problem.group} if problem.group else {}
                    keys |= {"setting": transcript.row} if transcript else {}
                    of_rater = keys | {"judge": event.rater}
                    yield _judgement(problem, verdict, side, of_rater, line, belief)
                    if transcript and task.request not in with_judge:
                        with_judge.add(task.request)
                        keys |= {"judge": transcript.judge, ASIDE: transcript.judge}
                        yield _judgement(problem, transcript.probs, side, keys, line)


def _judgement(
    problem: Problem,
    verdict: tuple[float, ...],
    side: str | None,
    keys: dict[str, str],
    line: int,
    first: tuple[float, ...] | None = None,
) -> Judgement:
    """side: the label of the argued answer; None if the verdict stands for all worlds."""
    labels = [answer.label for answer in problem.question.answers]
    worlds = tuple(verdict if side in (None, label) else () for label in labels)
    return Judgement(problem.id, problem.values, worlds, keys, first, side is None, line)


SOURCE = PeopleJudged()


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
    """Progress of each rater, without withdrawn ones. UsageError for a run without raters."""
    histories = RaterHistories(read_raters(run / PERSONS))
    if not histories.of:
        raise UsageError(f"{run}: no people were asked; start with oversight human serve {run}")
    for event in read_journal(run):
        histories.note(event)
    standings = []
    for name, history in histories.of.items():
        ended = [event for event in histories.settled.values() if event.rater == name]
        seconds = [event.seconds for event in ended if event.posted is not None]
        open_tasks = sum(holder == name for holder in histories.holder.values())
        typical = median(seconds) if seconds else None
        counts = len(seconds), len(ended) - len(seconds), open_tasks, len(history.returned)
        if not history.withdrawn:
            standings.append(RaterStanding(name, *counts, typical))
    return standings


def standings_part(standings: Sequence[RaterStanding]) -> Part:
    """The progress of each rater, one per line."""
    columns = [
        word("rater", "rater"),
        number("answered", "answered"),
        number("no answer", "abstained"),
        number("under way", "under_way"),
        number("abandoned", "abandoned"),
        number("median s", "seconds", ".0f"),
    ]
    return Part("standings", "Progress", columns, standings)


def rater_agreement(run: Path) -> Finding:
    """Progress, quality and agreement of the raters of a run, and the verdicts of the run's judges
    on the same transcripts."""
    standings = standings_part(rater_standings(run))
    if not any(True for _ in SOURCE.judgements(run)):
        return Finding((standings,), lead=(f"{run}: no rater has judged anything yet",))
    judgements = read_judgements(run, aside=True)
    aside = judgements.codes.get(ASIDE, np.full(len(judgements), -1))
    people = judgements[aside < 0]
    agreement = alphas(people)
    paired = any(agreement.values())
    lines = [
        beside((judge, "persons"), judgements, aside == n, aside < 0)
        for n, judge in enumerate(judgements.names.get(ASIDE, ()))
    ]
    return Finding(
        (
            standings,
            raters_part(people, "Raters"),
            agreement_part(agreement, () if paired else (NO_PAIRS,)),
            beside_part("The judge of the run and persons on the same transcripts", lines),
        )
    )


@dataclass(frozen=True, slots=True)
class People(Analysis):
    """Print the progress of the raters of RUN, their agreement, and the score of each.

    Shows Krippendorff's alpha of the likeliest answers and of the probabilities. For each rater it
    shows Brier score, accuracy, calibration and the effect of the transcript; for finished
    transcripts, also the verdicts of the run's judge. RUN may also be a study's folder or a
    judgement table; then it compares the judges of each transcript."""

    columns: Mapping[str, str] = COLUMNS

    title = "People"
    lead = (
        "People who judged transcripts of this run, alongside its models. Raters are pseudonyms; "
        "nothing else about a person is kept."
    )

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        return rater_agreement(run.folder)

    def of_table(self, file: Path, score: str) -> Finding:
        judgements = read_judgements(file, columns=dict(self.columns), aside=True)
        return agreement_of(judgements, file.name)

    def suits(self, run: RunReader) -> bool:
        return any(True for _ in read_journal(run.folder))


def judgements(run: Path) -> Iterator[bytes]:
    """The judgements as JSON Lines, under pseudonyms that do not identify the links."""
    identity = RunReader(run).manifest.identity
    for judgement in SOURCE.judgements(run):
        if ASIDE in judgement.keys:
            continue
        labels: list[str] = loads(judgement.keys["labels"])
        rater = f"{identity} {judgement.keys['judge']}"

        def by_label(numbers: Sequence[float], labels: Sequence[str] = labels) -> dict[str, float]:
            return dict(zip(labels, numbers, strict=True))

        line: dict[str, Any] = {
            "id": judgement.question,
            "values": by_label(judgement.values),
            "judge": hashlib.sha256(rater.encode()).hexdigest()[:12],
            **{k: v for k, v in judgement.keys.items() if k in ("group", "setting", "repeat")},
        }
        if judgement.first:
            line["first"] = by_label(judgement.first)
        worlds = {k: by_label(p) for k, p in zip(labels, judgement.worlds, strict=True) if p}
        line |= {"verdict": worlds[labels[0]]} if judgement.everywhere else {"worlds": worlds}
        yield orjson.dumps(line) + b"\n"
