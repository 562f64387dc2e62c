"""`oversight export pack`, `open` and `verify`: a run in one file, to send and to keep."""

from functools import partial
from pathlib import Path

import click

from ....display.quantity import counted
from ....errors import UsageError
from ....extensions.pack.making import make_pack
from ....extensions.pack.opening import SUFFIX, Contents, open_pack
from ....extensions.pack.verifying import verify
from ....providers.settings import environment
from ....run.folders import RUNS
from ....run.reader import REPLIES, RunReader, recorded
from ....system.flags import argument, flag
from ....views.cli.exit_codes import ExitCode
from ....views.cli.flags import as_command
from ....views.cli.naming import RUN
from ....views.cli.options import JSON, OWN_SWEEP, RECORDED_STORE, output
from ....views.cli.output import say, show, show_json, show_line

FILE = argument(type=click.Path(path_type=Path, dir_okay=False))


@as_command
def pack(
    run: Path = RUN,
    output: Path | None = output("RUN.oversight"),
    passages: bool = flag(
        "Put source texts in, if you may hand them on; otherwise their digests go in.",
        default=False,
    ),
    no_store: bool = flag("Leave out requests and replies, which are in the store.", default=False),
    sweep: Path | None = OWN_SWEEP,
    store: str | None = RECORDED_STORE,
) -> None:
    """Write all of RUN that others may have into one file.

    It holds the sweep, its problems, the outcomes, the record of what was said, every figure, and
    the requests and replies, by which others can replay the run. With --sweep it holds the files of
    code that your sweep file names, too. All of it is searched for your keys. The same run gives
    the same bytes.
    """
    read = RunReader(run.resolve())
    to = output or Path(f"{read.name}{SUFFIX}")
    if to.suffix != SUFFIX:
        raise UsageError(f"-o {to}: a pack ends in {SUFFIX}, by which other commands know it")
    source = None if no_store else partial(recorded, run, store)
    made = make_pack(read, to, passages, source, environment(Path()), sweep)
    _listed(made, sweep)
    say(f"{counted(len(made.files), 'file')}, {made.bytes:,} bytes, in {to.stat().st_size:,}")
    show(str(to))


@as_command
def open_(file: Path = FILE, output: Path | None = output("runs/NAME")) -> None:
    """Make a run folder of FILE, for every command that reads.

    Nothing in it is executed, and its store and its addresses are never used. Its code runs only
    where you start a sweep file of your own that names it.
    """
    to = output or RUNS / file.name.removesuffix(SUFFIX)
    contents = open_pack(file, to)
    say(f"{contents.name}: {contents.cells:,} cells of {counted(contents.problems, 'problem')}")
    say(f"read it: oversight report {to}; oversight view {to}")
    show(str(to))


@as_command
def verify_(file: Path = FILE, as_json: bool = JSON) -> None:
    """Compute every figure of FILE again from the evidence inside, offline.

    Each file, cell, reply and figure that differs is named, and the exit code is 1. No code of the
    pack runs: whether its cells follow from its replies is for oversight export open and replay.
    """
    contents, wrong = verify(file)
    if as_json:
        show_json({"pack": str(file), "wrong": wrong, "contents": contents})
    for each in () if as_json else wrong:
        show_line(f"! {each}")
    if wrong or contents is None:
        raise SystemExit(ExitCode.FAILED)
    if not as_json:
        replies = any(each.path == REPLIES for each in contents.files)
        beside = "" if replies else ", but no replies are inside that the evidence follows from"
        show(f"{file}: every figure of {contents.cells:,} cells follows from the evidence{beside}")


def _listed(contents: Contents, own: Path | None) -> None:
    """Say what a pack holds, in one line per file."""
    for file in contents.files:
        say(f"{file.size:>14,}  {file.sha256[:12]}  {file.path}")
    if contents.passages == "digests":
        say("source texts: digests alone; --passages puts them in, if you may hand them on")
    advice = "; to put it in, give your sweep file: --sweep FILE" if own is None else ""
    for name in contents.missing_code:
        say(f"not in it: {name}, which the sweep names{advice}")
