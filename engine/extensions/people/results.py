"""What people judged, as lines for `oversight measure judgements`, and what they take back."""

import hashlib
from collections.abc import Iterator, Sequence
from json import dumps, loads
from pathlib import Path
from typing import Any

import orjson

from ...analysis.scoring.judgements import Judgement
from ...run.reader import RunReader
from ...run.withdrawal import Withdrawal, withdraw_replies
from .journal import PERSONS, BeliefBefore, TaskAnswered, Withdrawn, read_journal
from .plan import read_plan
from .task import answer_digests


def pseudonym(run: str, rater: str) -> str:
    """What an export calls a rater: nobody can tell from it which link they had."""
    return hashlib.sha256(f"{run} {rater}".encode()).hexdigest()[:12]


def withdrawn(run: Path) -> set[str]:
    """The raters of a run who withdrew."""
    return {event.rater for event in read_journal(run) if isinstance(event, Withdrawn)}


def judged(run: Path) -> Iterator[tuple[TaskAnswered, Judgement]]:
    """All probabilities that were given of a problem's answers, in the order of the journal;
    without those of raters who withdrew. RunFolderError.

    A transcript of a finished run names its row as `setting`, and was judged in the world of the
    answer argued for; of a sweep with people in its seats, whose report has its rows, there is the
    verdict.
    """
    about = {task.task: task for task in read_plan(run / PERSONS)}
    problems = {}
    for problem in RunReader(run).problems:
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
        probs, before = event.probs, first.get((event.rater, event.task))
        verdict = tuple(probs[at] for at in places)
        task = about.get(event.task)
        worlds = tuple(verdict if task is None or task.side == label else () for label in labels)
        keys = {"judge": event.rater, "labels": dumps(labels)}
        keys |= {"group": problem.group} if problem.group else {}
        keys |= {"setting": task.row} if task else {}
        yield (
            event,
            Judgement(
                problem.id,
                problem.values,
                worlds,
                keys,
                tuple(before[at] for at in places) if before else None,
                task is None,
            ),
        )


def judgements(run: Path) -> Iterator[bytes]:
    """`judged` as JSON Lines, with pseudonyms for raters."""
    identity = RunReader(run).manifest.identity
    for event, its in judged(run):
        labels: list[str] = loads(its.keys["labels"])

        def told(probs: Sequence[float], labels: Sequence[str] = labels) -> dict[str, float]:
            return dict(zip(labels, probs, strict=True))

        line: dict[str, Any] = {
            "id": its.question,
            "values": told(its.values),
            "judge": pseudonym(identity, event.rater),
            **{key: its.keys[key] for key in ("group", "setting") if key in its.keys},
        }
        if its.first:
            line["first"] = told(its.first)
        worlds = {label: told(p) for label, p in zip(labels, its.worlds, strict=True) if p}
        line |= {"verdict": worlds[labels[0]]} if its.everywhere else {"worlds": worlds}
        yield orjson.dumps(line) + b"\n"


def delete_withdrawn(run: Path) -> Withdrawal:
    """Delete from record, outcomes and store what the journal says was erased.

    The run's lock must be free: erased by a rater while the pages are served, answers go from the
    journal at once, and from here when it ends. A task that another rater has answered since then
    is theirs. RunFolderError; StoreError.
    """
    answered: dict[str, str] = {}
    erased = set()
    for event in read_journal(run):
        if isinstance(event, TaskAnswered):
            answered[event.task] = event.rater
        elif isinstance(event, Withdrawn) and event.erased:
            erased.add(event.rater)
    tasks = {task for task, rater in answered.items() if rater in erased}
    return withdraw_replies(run, tasks) if tasks else Withdrawal(0, 0)
