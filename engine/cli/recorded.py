"""Where recorded replies come from when nothing may be asked: a store, or a bundle of one run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oversight.cache.bundle import BundleStore
from oversight.cache.disk import ReadOnlyStore
from oversight.cache.store import Reader
from oversight.engine.errors import RunFolderError
from oversight.engine.runs.manifest import read_manifest
from oversight.engine.system.settings import store_path


@contextmanager
def recorded(run: Path, given: Path | None) -> Iterator[Reader]:
    """The store given, else the one that the run was made with, else the user's; read-only.

    A file is a bundle. RunFolderError, with the next step, if there is none.
    """
    named = Path(read_manifest(run).store).expanduser()
    path = given or (named if named != Path() and named.exists() else store_path(None))
    if not path.exists():
        raise RunFolderError(
            f"{path}: there is no store there; name the one that has the replies of {run}, or a "
            "bundle of them, with --store"
        )
    store: Reader = BundleStore(path) if path.is_file() else ReadOnlyStore(path)
    try:
        yield store
    finally:
        store.close()
