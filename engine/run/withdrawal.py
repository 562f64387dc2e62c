"""Deleting replies that a person takes back: from a run and from its store."""

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from .as_left import store_noted
from .folders import is_run, locked
from .record.database import RunDatabase
from .record.errors import no_run
from .run_folder import OUTCOMES
from .stores import open_store


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What was deleted."""

    cells: int
    """Cells that rested on a reply, and have no outcome any more."""
    replies: int
    """Replies that were deleted from the store."""


def withdraw_replies(run: Path, addresses: Collection[str]) -> Withdrawal:
    """Delete the replies to these calls, given by address, and the outcomes that rest on them.

    Packs made later hold none of it. Requests of other calls that quote them stay in the store.
    Doing it again completes what a crash cut off. RunFolderError; StoreError.
    """
    if not is_run(run):
        raise no_run(run)
    with locked(run), closing(RunDatabase(run)) as database:
        cells = database.withdraw(addresses)
        # Its lines are written again when the run settles.
        (run / OUTCOMES).unlink(missing_ok=True)
    replies = 0
    named = Path(store_noted(run)).expanduser()
    if named.name and named.exists():
        with closing(open_store(str(named))) as store:
            replies = store.delete_many(
                [key for address in addresses for key in store.keys(address)]
            )
    return Withdrawal(cells, replies)
