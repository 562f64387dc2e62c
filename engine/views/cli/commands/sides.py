"""`oversight measure sides`: which answer each stored speech argues for."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from .....cache.call import Ask
from .....protocols.drafting import SideCheck
from .....protocols.transcript import Failure
from ....display.text import counted
from ....errors import UsageError
from ....models.directory import MIN_CELLS
from ....providers.catalogue import entry, provider_of
from ....providers.simulated import PREFIX
from ....run.events import add_event, sync_events
from ....run.failures import failure
from ....run.later import Addition, run_all
from ....run.listing import Parts
from ....run.loaded_sweep import LoadedSweep
from ....run.lookup import cells_with_verdict
from ....run.reader import RunReader
from ....run.replay import open_run
from ....run.settings import AskSettings
from ....run.sides import COUNTS, SIDES, SidesRead, check_cell
from ....sweep.document import Node
from ....sweep.roles import agents
from ....sweep.sweep import Cell, dataclasses_in
from ....system.files import locked
from ....system.settings import flag
from ..beside import ask_beside, say_ended, store_of
from ..exit_codes import ExitCode
from ..flags import JSON, OWN_SWEEP, RUN_STORE, as_command
from ..naming import RUN
from ..output import say, show, show_json


@as_command
def command(
    *,
    run: Path = RUN,
    checker: str = flag(
        "Model that reads the speeches. Default: the sweep's side_check, else its only judge.",
        default="",
        metavar="MODEL",
    ),
    asks: AskSettings,
    sweep: Path | None = OWN_SWEEP,
    store: str | None = RUN_STORE,
    dry_run: bool = flag("Check everything, send nothing.", default=False),
    as_json: bool = JSON,
) -> None:
    """Have a checker read which answer each stored speech of RUN argues for.

    An agent may refuse in words to argue for an answer. Each different speech is one call, with the
    prompt of a side check (agents: side_check), so that nothing is paid twice. The findings are
    events of RUN: reports and pages flag the worlds of speeches for another answer or for none, and
    the bounds contain them. No verdict changes. --dry-run says how many cells are left to read. The
    budget is for all checks of RUN. The same command resumes after a stop, and asks nothing twice.
    """
    opened, reader = open_run(run, user_file=sweep), RunReader(run)
    check = _side_check(opened, checker)
    model = check.checker.model
    opened.models.require_allowed([model])
    verdicts = cells_with_verdict(opened.sweep, run, Parts())
    cells = [cell for cell in verdicts if cell.row.unchecked]
    read = {place for place, event in reader.sides.items() if event.checker == model}
    failed: dict[int, Failure] = {}

    def left() -> Iterator[Cell]:
        return (cell for cell in cells if cell.place not in read and cell.place not in failed)

    async def work(ask: Ask, added: Addition | None) -> None:
        async def attempt(cell: Cell) -> SidesRead | Failure:
            (recorded,) = reader.tables.cells([cell.place])
            try:
                return await check_cell(cell, recorded, check, ask)
            except Exception as exc:
                return failure(f"the side check of cell {cell.id}", exc)

        lanes, token = opened.file.top.max_cells or MIN_CELLS, opened.stop_token
        await run_all(left, attempt, keep, added=added, lanes=lanes, stop_token=token)

    def keep(cell: Cell, end: SidesRead | Failure) -> None:
        if isinstance(end, Failure):
            failed[cell.place] = end
        else:
            # Its replies are in the store.
            add_event(run, SIDES, end, durable=False)
            read.add(cell.place)

    if dry_run:
        show(f"{counted(len([*left()]), 'cell')} to read; nothing was sent")
        return
    with closing(store_of(run, store)) as replies:
        (run / SIDES).mkdir(exist_ok=True)
        with locked(run / SIDES):
            sync_events(run)
            halt, paid = ask_beside(
                *(opened, run / SIDES, replies, work, asks, [(model, "side check")]),
                cells=lambda: (len(cells), len(read), len(failed)),
            )
            sync_events(run)
    events = reader.sides.values()
    findings = dict(finding for event in events for finding in event.findings.values())
    counts = Counter[str](findings.values())
    if as_json:
        by_name = {name.replace(" ", "_"): counts[name] for name in ("on side", *COUNTS)}
        show_json({"speeches": len(findings), **by_name, "failed_cells": len(failed)})
    else:
        words = f"argue for another answer or for none, and {counts['unclear']:,} are unclear"
        show(f"{counts['off side']:,} of {len(findings):,} speeches {words}")
    if failed:
        first = next(iter(failed.values())).message
        say(f"{counted(len(failed), 'cell')} failed; the same command asks again: {first}")
    code = say_ended(halt, f"{counted(len(read), 'cell')} read", paid, f"oversight report {run}")
    raise SystemExit(ExitCode.FAILED if failed and halt is None else code)


def _side_check(opened: LoadedSweep, checker: str) -> SideCheck:
    """The side check of the sweep, or one by the model named, else by the only judge. UsageError,
    which names the option, where it is not clear who checks."""
    sweep = opened.sweep
    protocols = [row.protocol for row in sweep.rows]
    parts = (part for part in dataclasses_in(protocols) if isinstance(part, SideCheck))
    checks = {(part.checker, part.candor): part for part in parts}
    if len(checks) == 1 and not checker:
        return next(iter(checks.values()))
    models = {
        m for m in sweep.models if m.startswith(PREFIX) or entry(provider_of(m)).origin == "new"
    }
    judges = {
        (agent.model, agent.effort)
        for agent in (protocol.judge.base_agent for protocol in protocols)
        if agent.model in models
    }
    if not checker and (checks or len(judges) != 1):
        clear = sorted({agent.model for agent, _ in checks} or {model for model, _ in judges})
        raise UsageError(f"which model checks? Name it with --checker MODEL: {', '.join(clear)}")
    model, effort = (checker, "") if checker else next(iter(judges))
    settings = {"model": model, "effort": effort}
    (make,) = agents(Node(opened.file.document, ("checker",), settings))
    reader = make(protocols[0].judge).base_agent
    return SideCheck(reader, reader, retries=0)
