"""`oversight record`: write the record of a run from its outcomes and its store."""

import asyncio
from dataclasses import asdict

import click
import orjson

from ...runs.rebuild import rebuild
from ...runs.recorded import recorded
from ...system.loop import event_loop
from ..completing import run_names
from ..exit_codes import ExitCode
from ..naming import run_named
from ..options import json_option, recorded_option
from ..output import say, show


@click.command()
@click.argument("named", metavar="RUN", shell_complete=run_names)
@recorded_option
@json_option
def command(named: str, store: str | None, as_json: bool) -> None:
    """Write the record of RUN, of what was asked, said and believed, where it lacks cells.

    For runs made before there were records, and for a record that was lost. Each cell is run again
    on its stored replies; nothing is sent, and no outcome is changed. A cell whose outcome does not
    come out equal is not recorded. Exit code 5 if the store lacks replies, 1 if outcomes differ.
    """
    run = run_named(named)
    with recorded(run, store) as replies, asyncio.Runner(loop_factory=event_loop()) as runner:
        done = runner.run(rebuild(run, replies))
    if as_json:
        show(orjson.dumps(asdict(done)).decode())
    say(f"{done.written:,} cells recorded; {done.there:,} were recorded before; nothing was sent")
    if done.lacking:
        say(f"{done.lacking:,} cells: the store does not hold every reply; name another by --store")
    if done.different:
        say(f"{done.different:,} cells: on the same replies, the code of today decides otherwise")
    if done.lacking:
        raise SystemExit(ExitCode.MISSED)
    if done.different:
        raise SystemExit(ExitCode.FAILED)
