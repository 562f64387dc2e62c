"""What people judged, as lines for `oversight measure judgements`, and what they take back."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from json import dumps, loads
from pathlib import Path
from typing import Any

import orjson

from ...analysis.scoring.judgements import Judgement
from ...run.folders import is_run, locked, store_noted
from ...run.reader import RunReader
from ...run.record.database import RunDatabase
from ...run.record.errors import no_run
from ...run.run_folder import OUTCOMES
from ...run.stores import open_store
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


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What was deleted."""

    cells: int = 0
    """Cells that rested on a reply, and have no outcome any more."""
    replies: int = 0
    """Replies that were deleted from the store."""


def delete_withdrawn(run: Path) -> Withdrawal:
    """Delete from record, outcomes and store what the journal says was erased.

    The run's lock must be free: erased by a rater while the pages are served, answers go from the
    journal at once, and from here when it ends. A task that another rater has answered since then
    is theirs. Packs made later hold none of it; requests of other calls that quote them stay in the
    store. Doing it again completes what a crash cut off. RunFolderError; StoreError.
    """
    answered: dict[str, str] = {}
    erased = set()
    for event in read_journal(run):
        if isinstance(event, TaskAnswered):
            answered[event.task] = event.rater
        elif isinstance(event, Withdrawn) and event.erased:
            erased.add(event.rater)
    tasks = {task for task, rater in answered.items() if rater in erased}
    if not tasks:
        return Withdrawal()
    if not is_run(run):
        raise no_run(run)
    with locked(run), closing(RunDatabase(run)) as database:
        cells = database.withdraw(tasks)
        # Its lines are written again when the run settles.
        (run / OUTCOMES).unlink(missing_ok=True)
    named = Path(store_noted(run)).expanduser()
    if not named.name or not named.exists():
        return Withdrawal(cells)
    with closing(open_store(str(named))) as store:
        keys = [key for task in tasks for key in store.keys(task)]
        return Withdrawal(cells, store.delete_many(keys))
