"""`oversight cache rebuild`: make the database of a run again, from sweep file and store."""

import asyncio
from pathlib import Path

from ....display.quantity import counted
from ....run.rebuilding import rebuild
from ....system.flags import argument
from ....system.process import event_loop
from ..flags import as_command
from ..options import FOLDER, OWN_SWEEP, STORE
from ..output import say


@as_command
def command(
    run: Path = argument("RUN", type=FOLDER),
    sweep: Path | None = OWN_SWEEP,
    store: Path | str | None = STORE,
) -> None:
    """Make run.db of the folder RUN again, where it is damaged or lost; nothing is sent.

    Every cell is run again from the replies in the store; name the store with --store if the run
    had another one than yours. A damaged file is kept beside it.
    """
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        made, missing = runner.run(rebuild(run, store, sweep))
    say(f"{counted(made, 'cell')} made again in {run}")
    if missing:
        say(f"{counted(missing, 'cell')} lack replies: go on with oversight run")
