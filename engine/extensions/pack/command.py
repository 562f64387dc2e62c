"""`oversight export pack`, `open` and `verify`: a run in one file, to send and to keep."""

from functools import partial
from pathlib import Path

import click
from rich.filesize import decimal

from ....cache.portable import SUFFIX
from ...display.text import counted
from ...errors import UsageError
from ...providers.settings import environment
from ...run.folders import RUNS
from ...run.reader import recorded
from ...system.settings import argument, flag
from ...views.cli.exit_codes import ExitCode
from ...views.cli.flags import JSON, OWN_SWEEP, RECORDED_STORE, as_command, output
from ...views.cli.naming import RUN, reader_of
from ...views.cli.output import say, show, show_json, show_line
from .pack import make_pack, open_pack
from .verifying import verify

FILE = argument(type=click.Path(path_type=Path, dir_okay=False))


@as_command
def pack(
    run: Path = RUN,
    output: Path | None = output("RUN.oversight"),
    passages: bool = flag(
        "Include source texts, if their licence allows; otherwise their hashes go in.",
        default=False,
    ),
    no_store: bool = flag("Leave out requests and replies, which are in the store.", default=False),
    no_notes: bool = flag("Leave out your notes on transcripts.", default=False),
    sweep: Path | None = OWN_SWEEP,
    store: str | None = RECORDED_STORE,
) -> None:
    """Package RUN into one file to share.

    It holds the sweep, its database with problems and cells, the outcomes, every figure, and the
    requests and replies, by which others can replay the run. With --sweep it also holds the files
    of code that your sweep file names. Your keys are searched for. Equal runs give equal bytes."""
    reader = reader_of(run.resolve())
    to = output or Path(f"{reader.name}{SUFFIX}")
    if to.suffix != SUFFIX:
        raise UsageError(f"-o {to}: the name of a pack must end in {SUFFIX}")
    source = None if no_store else partial(recorded, run, store)
    contents, missing = make_pack(
        reader, to, passages, source, environment(Path()), sweep, notes=not no_notes
    )
    for name, member in contents.members.items():
        say(f"{member.bytes:>14,}  {member.sha256[:12]}  {name}")
    if contents.counts["passages_left_out"]:
        say("source texts left out (hashes only); --passages includes them if their licence allows")
    advice = "; to put it in, give your sweep file: --sweep FILE" if sweep is None else ""
    for name in missing:
        say(f"not in it: {name}, which the sweep names{advice}")
    sizes = f"{decimal(contents.bytes)} ({decimal(to.stat().st_size)} compressed)"
    say(f"{counted(len(contents.members), 'file')}, {sizes}")
    say(f"its recipient runs: oversight export open {to.name}")
    show(str(to))


@as_command
def open_(file: Path = FILE, output: Path | None = output("runs/NAME")) -> None:
    """Unpack FILE into a run folder.

    Nothing in it is executed, and its store and its addresses are never used. Its code runs only
    if you start your sweep file that names it."""
    to = output or RUNS / file.name.removesuffix(SUFFIX)
    counts = open_pack(file, to).counts
    say(f"{counts['cells']:,} cells of {counted(counts['problems'], 'problem')}")
    say(f"read it: oversight report {to}; oversight view {to}")
    show(str(to))


@as_command
def verify_(file: Path = FILE, as_json: bool = JSON) -> None:
    """Compare everything in FILE, a pack or exported replies, with its replies, offline.

    Calls, outcomes and figures are computed again. Each member, row and field that differs is
    named, and the exit code is 1. No code of a pack runs: its cells are then not run again, which
    the last line says."""
    contents, wrong, why = verify(file)
    if as_json:
        show_json({"pack": str(file), "wrong": wrong, "not_run_again": why, "contents": contents})
    for difference in () if as_json else wrong:
        show_line(f"! {difference}")
    if wrong or contents is None:
        raise SystemExit(ExitCode.FAILED)
    if as_json:
        return
    counts = contents.counts
    if contents.kind == "run":
        show(f"{file}: every figure of {counts['cells']:,} cells follows from the evidence")
    else:
        show(f"{file}: {counted(counts['replies'], 'intact reply', 'intact replies')}")
    if why:
        say(f"cells were not run again: {why}")
