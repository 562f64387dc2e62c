"""`oversight export inspect`: a run as logs of Inspect."""

from functools import partial
from pathlib import Path

from ...display.text import counted
from ...run.listing import Parts
from ...run.reader import recorded
from ...system.settings import flag
from ...views.cli.flags import RECORDED_STORE, SCORE, as_command, output
from ...views.cli.naming import RUN, reader_of
from ...views.cli.output import say


@as_command
def command(
    *,
    run: Path = RUN,
    output: Path | None = output("RUN/inspect"),
    parts: Parts,
    store: str | None = RECORDED_STORE,
    requests: bool = flag("Fill in the requests of each call, from the store.", default=False),
    score: str = SCORE,
) -> None:
    """Export RUN as Inspect logs: one log per row, one sample per world.

    `inspect view`, `samples_df` and Scout read them. A world without a verdict is a sample with an
    error. The same run gives the same bytes. Needs the extra `inspect`."""
    from .logs import write_logs

    opened = partial(recorded, run, store) if requests else None
    folder = output or run / "inspect"
    files = write_logs(reader_of(run), parts, score, opened, folder)
    say(f"{counted(len(files), 'log')} in {folder}")
    say(f"read them: inspect view --log-dir {folder}")
