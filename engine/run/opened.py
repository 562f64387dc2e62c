"""The sweep of a run, opened again from the run folder that it made."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ...protocols.question import Problem
from ..errors import RunFolderError, UsageError
from ..providers.settings import Api
from ..sweep.document import Document, code_named
from ..sweep.in_python import PYTHON_MARK, read_python_sweep
from ..sweep.sweepfile import checked_sweep
from .loaded_sweep import LoadedSweep, loaded
from .passages import with_passages
from .reader import RunReader
from .run_folder import REPORT, SWEEP


def open_run(
    folder: Path,
    overrides: Iterable[str] = (),
    passages: Path | None = None,
    own: Path | None = None,
) -> LoadedSweep:
    """The sweep of a run folder: its file, its overrides, its problems.

    passages: where source texts are that were left out of the folder; see `with_passages`. own: a
    sweep file of the user's, read in place of the folder's: only code that it names is imported.
    """
    run = RunReader(folder)
    manifest, problems = run.manifest, with_passages(run.problems, passages)
    document = Document.read(own or folder / SWEEP)
    named = set(code_named(document.value)) if own else set()
    if document.text.startswith(PYTHON_MARK):
        return _open_python_run(folder, document.text, problems, tuple(overrides), manifest.apis)
    for assignment in (*manifest.overrides, *overrides):
        document.set(assignment)
    if own is None or not named.issuperset(code_named(document.value)):
        document.inert = (
            "reading a run folder runs no code: look at it, and name a sweep file of your own that "
            f"names it: --sweep FILE, or start that: oversight run FILE --run-folder {folder}"
        )
    document.value.setdefault("name", manifest.name)
    checked = checked_sweep(document, own or folder / SWEEP, problems, manifest.prompt_sets)
    return loaded(checked, apis=manifest.apis)


def _open_python_run(
    folder: Path,
    text: str,
    problems: tuple[Problem, ...],
    overrides: tuple[str, ...],
    apis: Mapping[str, Api],
) -> LoadedSweep:
    if overrides:
        raise UsageError(f"--set {overrides[0]}: {folder} was made from Python; set it there")
    try:
        return loaded(read_python_sweep(text, problems), apis=apis)
    except RunFolderError as exc:
        raise RunFolderError(
            f"{folder} was made from Python, and {exc}: call run() again there, and show() of what "
            f"it returns; the reports are in {folder / REPORT}"
        ) from exc
