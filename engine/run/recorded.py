"""Where the replies of a run are had when nothing may be asked."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ...cache.store import Reader
from ..errors import RunFolderError
from ..system.settings import is_url
from .as_left import store_noted
from .stores import open_for_reading, store_name

_log = logging.getLogger(__name__)

REPLIES = "replies.bundle"
"""The replies of a run, in its folder, where it was taken from a pack."""


@contextmanager
def recorded(run: Path, given: Path | str | None) -> Iterator[Reader]:
    """The store given, else the one that the run was made with on this machine, or the replies that
    came with it, else the user's; read-only. A store that a folder names is not opened.

    A file is a bundle. RunFolderError, with the next step, if there is none.
    """
    told = str(given or _named_by(run))
    name = told if given or _is_there(told) else store_name(None)
    if not _is_there(name):
        raise RunFolderError(
            f"{name}: there is no store there; name the one that has the replies of {run}, or a "
            "bundle of them, with --store"
        )
    if not given and name != told:
        why = "its store is not there" if told else "it was not made on this machine"
        _log.warning(
            "%s: %s; replies are looked for in your store, %s (--store names another)",
            run,
            why,
            name,
        )
    with closing(_opened(name)) as store:
        yield store


def _is_there(name: str) -> bool:
    """Whether something has that name; a database tells only when it is opened."""
    return bool(name) and (is_url(name) or Path(name).expanduser().exists())


def _opened(name: str) -> Reader:
    path = Path(name).expanduser()
    if path.is_file():
        from ...cache.bundle import BundleStore

        return BundleStore(path)
    return open_for_reading(name)


def _named_by(run: Path) -> str:
    """Where the replies of a run are; empty if that is not known."""
    replies = run / REPLIES
    with_it = str(replies) if replies.is_file() and not replies.is_symlink() else ""
    store = store_noted(run)
    return store if _is_there(store) else with_it or store


@contextmanager
def at_hand(given: Path | str | None) -> Iterator[Reader | None]:
    """The store given, else the user's own where there is one; None where there is none.

    A store that a run folder names is not opened: who handed it on may have written it.
    """
    name = str(given) if given else store_name(None)
    if not given and not _is_there(name):
        yield None
        return
    with closing(_opened(name)) as store:
        yield store
