"""`oversight run`: start a sweep, or resume it."""

from dataclasses import dataclass
from pathlib import Path

from annotated_types import Interval

from ....display.progress import log_as_json
from ....run.folders import is_run
from ....run.settings import RunSettings
from ....sweep.sweepfile import read_sweep_file
from ....system.settings import flag
from ...api.prepared import prepared
from ..flags import FORMAT, LIMIT, SET, SWEEP, as_command
from ..output import say, typed
from ..terminal import Presentation, run_in_terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags(RunSettings):
    """Flags of `oversight run`, and flags of the terminal."""

    grace: float | None = flag(
        "How long a stop waits for calls in flight. Default: 25 after SIGTERM and SIGUSR1; after "
        "Ctrl-C, until the second one.",
        metavar="SECONDS",
        within=Interval(ge=0, le=86_400),
        under="Execution",
        rare=True,
    )
    log_json: bool = flag(
        "Write every line on stderr as a JSON object, with time and level. For all commands: "
        "OVERSIGHT_LOG=json.",
        default=False,
        under="Report",
        rare=True,
    )


@as_command
def command(
    *,
    sweep: Path = SWEEP,
    overrides: tuple[str, ...] = SET,
    limit: int | None = LIMIT,
    settings: RunFlags,
    format: str = FORMAT,
) -> None:
    """Start SWEEP, or resume it, and print its report.

    The same command resumes after a stop, a crash or a kill: replies are in the store, and
    finished cells do not run again.

    A new run folder sends only the calls whose replies are not in the store. A run whose
    code has changed is not resumed without --allow-changed-code; the changes are listed by row.

    With --batch, calls go to the batch endpoints of OpenAI and Anthropic, pass after pass. A stop
    leaves them there, and the same command collects their replies.

    Exit codes: 0 complete, 1 some cells failed, 2 the sweep file or a flag is wrong, 3
    stopped and resumable, 4 the budget is reached, 5 a replay met a call that was never recorded,
    7 another process is running the folder, 130, 138 and 143 stopped by a signal."""
    if settings.log_json:
        log_as_json()
    file = read_sweep_file(sweep, overrides, limit)
    loaded, options = prepared(file, settings)
    for note in loaded.file.notes:
        say(note)
    if is_run(sweep.parent):
        say(f"{sweep} belongs to a run: replies that your store lacks are paid for again")
        say(f"to export them where they are stored: oversight cache export {sweep.parent}")
        say("to add them to your store: oversight cache import FILE")
    presentation = Presentation(typed(), format, settings.score, settings.grace)
    raise SystemExit(run_in_terminal(loaded, options, presentation))
