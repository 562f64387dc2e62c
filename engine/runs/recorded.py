"""Where recorded replies come from when nothing may be asked: a store, or a bundle of one run."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ...cache.bundle import BundleStore
from ...cache.disk import ReadOnlyStore
from ...cache.store import Reader
from ..errors import RunFolderError
from ..system.settings import is_url, store_path
from .manifest import read_manifest
from .stores import open_for_reading


@contextmanager
def recorded(run: Path, given: Path | str | None) -> Iterator[Reader]:
    """The store given, else the one that the run was made with, else the user's; read-only.

    A file is a bundle. RunFolderError, with the next step, if there is none.
    """
    told = str(given or read_manifest(run).store)
    if is_url(told):
        with closing(open_for_reading(told)) as store:
            yield store
        return
    named = Path(told).expanduser()
    path = Path(given) if given else named if told and named.exists() else store_path(None)
    if not path.exists():
        raise RunFolderError(
            f"{path}: there is no store there; name the one that has the replies of {run}, or a "
            "bundle of them, with --store"
        )
    with closing(BundleStore(path) if path.is_file() else ReadOnlyStore(path)) as store:
        yield store
