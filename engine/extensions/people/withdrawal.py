"""Deleting what raters answered who took it back, from the whole of a run."""

from pathlib import Path

from ...run.withdrawal import Withdrawal, withdraw_replies
from .journal import TaskAnswered, Withdrawn, read_journal


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
