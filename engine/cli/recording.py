"""`oversight replay --record`: write the record of a run from its outcomes and its store."""

import asyncio
from dataclasses import asdict
from pathlib import Path

from ..runs.rebuild import rebuild
from ..runs.recorded import recorded
from ..system.loop import event_loop
from .exit_codes import ExitCode
from .output import say, show_json


def write_record(run: Path, store: str | None, as_json: bool) -> None:
    """Record the cells of a run that its record lacks, each run again on its stored replies.

    Nothing is sent, and no outcome is changed; a cell whose outcome does not come out equal is not
    recorded. Ends with exit code 5 if the store lacks replies, 1 if outcomes differ.
    """
    with recorded(run, store) as replies, asyncio.Runner(loop_factory=event_loop()) as runner:
        done = runner.run(rebuild(run, replies))
    if as_json:
        show_json(asdict(done))
    say(f"{done.written:,} cells recorded; {done.there:,} were recorded before; nothing was sent")
    if done.lacking:
        say(f"{done.lacking:,} cells: the store does not hold every reply; name another by --store")
    if done.different:
        say(f"{done.different:,} cells: on the same replies, the code of today decides otherwise")
    if done.lacking:
        raise SystemExit(ExitCode.MISSED)
    if done.different:
        raise SystemExit(ExitCode.FAILED)
