"""`oversight cache gather`: merge the parts of a sweep into one run."""

from pathlib import Path

from ....analysis.reports.report import report, save_report
from ....analysis.reports.results import collect
from ....models.accounting.ledger import UsageTotals, sum_usage
from ....models.accounting.ledger_file import read_ledger, write_ledger
from ....run.folders import store_noted
from ....run.loaded_sweep import run_folder
from ....run.parts import PartRun, cells_of, part_runs, whole_sweep
from ....run.reader import RunReader
from ....run.settings import RunSettings
from ....run.sources import origins
from ....system.flags import argument
from ..exit_codes import ExitCode
from ..flags import as_command
from ..options import FOLDER_OF_RUN, FORMAT, OWN_SWEEP, SCORE
from ..output import say, show, width


@as_command
def command(
    place: Path = argument("FOLDER"),
    sweep: Path | None = OWN_SWEEP,
    run_folder: Path | None = FOLDER_OF_RUN,
    format: str = FORMAT,
    score: str = SCORE,
) -> None:
    """Merge the parts in FOLDER, made by `oversight run --part`, into one run; print its report.

    Every part must be there and finished. The run folder is the same, to the byte, as that of the
    sweep run in one. Exit code 1 if some cells failed.
    """
    runs = part_runs(place, sweep)
    folder, failed = _gathered(runs, run_folder)
    loaded = whole_sweep(runs)
    results = collect(
        loaded.sweep,
        RunReader(folder).outcomes(),
        score=score,
        origins=origins(loaded.sweep, folder),
    )
    save_report(results, folder)
    show(report(results, format, width()))
    say(f"run folder  {folder}")
    stores = list(dict.fromkeys(run.manifest.store for run in runs))
    for store in stores[1:]:
        say(f"replies     oversight cache import {store} --store {stores[0]}")
    raise SystemExit(ExitCode.FAILED if failed else ExitCode.DONE)


def _gathered(runs: list[PartRun], path: Path | None) -> tuple[Path, int]:
    """Merge the runs into one folder; returns it, and its number of failed cells."""
    loaded = whole_sweep(runs)
    store = store_noted(runs[0].folder)
    with run_folder(loaded, RunSettings(folder=path), store, code=runs[0].manifest.code) as folder:
        for run in runs:
            cells = cells_of(run, loaded.sweep)
            folder.add(cell for cell in cells if not folder.has(cell.place))
        folder.settle()
        if accounts := _accounts(runs):
            write_ledger(folder.path, accounts)
        return folder.path, folder.failed


def _accounts(runs: list[PartRun]) -> dict[str, UsageTotals]:
    """Usage of all parts, by model."""
    sides = [read_ledger(run.folder) for run in runs]
    models = dict.fromkeys(model for side in sides for model in side)
    return {model: sum_usage([side[model] for side in sides if model in side]) for model in models}
