"""`oversight cache rebuild`: make the database of a run again, from sweep file and store."""

import asyncio
from pathlib import Path

from ....display.text import counted
from ....run.record.schema import RUN_DB
from ....run.replay import rebuild
from ....system.process import event_loop
from ....system.settings import argument
from ..flags import FOLDER, OWN_SWEEP, STORE, as_command
from ..output import say


@as_command
def command(
    run: Path = argument("RUN", type=FOLDER),
    sweep: Path | None = OWN_SWEEP,
    store: Path | str | None = STORE,
) -> None:
    """Rebuild the run.db of RUN if it is damaged, lost or of an earlier version. Nothing is sent.

    First each recorded call is compared with its reply in the store: a file that can be read, and
    in which they agree, is left as it is. Else every cell is run again from the replies; name the
    store with --store if the run had another one than yours. The file before is kept as
    damaged-run.db."""
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        rebuilt = runner.run(rebuild(run, store, sweep))
    say(f"{run / RUN_DB} {rebuilt.wrong}")
    say(f"{counted(rebuilt.cells, 'cell')} made again in {run}")
    if rebuilt.missing:
        say(f"{counted(rebuilt.missing, 'cell')} lack replies: go on with oversight run")
