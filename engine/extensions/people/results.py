"""What people judged, as lines that `oversight measure judgements` reads: one a rater and task."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ...run.reader import RunReader
from .journal import PERSONS, BeliefBefore, TaskAnswered, Withdrawn, read_journal
from .plan import read_plan
from .task import answer_digests


def pseudonym(run: str, rater: str) -> str:
    """What an export calls a rater: nobody can tell from it which link they had."""
    return hashlib.sha256(f"{run} {rater}".encode()).hexdigest()[:12]


def withdrawn(run: Path) -> set[str]:
    """The raters of a run who withdrew."""
    return {event.rater for event in read_journal(run) if isinstance(event, Withdrawn)}


def judgements(run: Path) -> Iterator[bytes]:
    """JSON Lines of all probabilities that were given of a problem's answers, in the order of the
    journal; without those of raters who withdrew. RunFolderError.

    A transcript of a finished run names its row as `setting`, and the answer argued for as the
    world; of a sweep with people in its seats, whose report has its rows, there is the verdict.
    """
    reader = RunReader(run)
    about = {task.task: task for task in read_plan(run / PERSONS)}
    problems = {}
    for problem in reader.problems:
        digest, order = answer_digests(problem.question)
        problems[digest] = problem, order
    gone, first = withdrawn(run), dict[tuple[str, str], tuple[float, ...]]()
    for event in read_journal(run):
        if isinstance(event, BeliefBefore):
            first[event.rater, event.task] = event.probs
        if not isinstance(event, TaskAnswered) or event.rater in gone or event.probs is None:
            continue
        if event.problem not in problems or not event.order:
            continue
        problem, order = problems[event.problem]
        labels = [answer.label for answer in problem.question.answers]
        places = [event.order.index(answer) for answer in order]

        def told(
            probs: tuple[float, ...], labels: list[str] = labels, places: list[int] = places
        ) -> dict[str, float]:
            return {label: probs[at] for label, at in zip(labels, places, strict=True)}

        line: dict[str, Any] = {
            "id": problem.id,
            "values": dict(zip(labels, problem.values, strict=True)),
            "judge": pseudonym(reader.manifest.identity, event.rater),
        }
        if problem.group:
            line["group"] = problem.group
        if before := first.get((event.rater, event.task)):
            line["first"] = told(before)
        if task := about.get(event.task):
            line |= {"setting": task.row, "worlds": {task.side: told(event.probs)}}
        else:
            line["verdict"] = told(event.probs)
        yield orjson.dumps(line) + b"\n"
