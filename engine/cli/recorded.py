"""Where recorded replies come from when nothing may be asked: a store, or a bundle of one run."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from oversight.cache.bundle import BundleStore
from oversight.cache.disk import ReadOnlyStore
from oversight.cache.store import Store
from oversight.engine.errors import RunFolderError
from oversight.engine.runs.manifest import read_manifest
from oversight.engine.runs.stores import is_url, open_for_reading
from oversight.engine.system.settings import store_path


@contextmanager
def recorded(run: Path, given: Path | None) -> Iterator[Store]:
    """The store given, else the one that the run was made with, else the user's; read-only.

    A file is a bundle. RunFolderError, with the next step, if there is none.
    """
    told = read_manifest(run).store
    if given is None and is_url(told):
        with closing(open_for_reading(told)) as store:
            yield store
        return
    named = Path(told).expanduser()
    path = given or (named if named != Path() and named.exists() else store_path(None))
    if not path.exists():
        raise RunFolderError(
            f"{path}: there is no store there; name the one that has the replies of {run}, or a "
            "bundle of them, with --store"
        )
    with closing(BundleStore(path) if path.is_file() else ReadOnlyStore(path)) as store:
        yield store
