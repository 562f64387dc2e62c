"""`oversight run`: start a sweep, or resume it."""

import os
from dataclasses import dataclass
from pathlib import Path

from ....display.log_lines import log_as_json
from ....providers.trust import ALLOW_ADDRESS, VOUCH
from ....run.listing import is_run
from ....sweep.sweepfile import read_sweep_file
from ....system.flags import flag
from ...api.prepared import prepared
from ...api.settings import RunSettings
from ..flags import as_command
from ..options import FORMAT, LIMIT, SET, SWEEP
from ..output import say, typed
from ..terminal import Presentation, run_in_terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags(RunSettings):
    """Flags of `oversight run`: those that concern the terminal or the environment beside them."""

    allow_address: tuple[str, ...] = flag(
        "Send your key to the address, or through the proxy, that .env beside the sweep names.",
        default=(),
        metavar="PROVIDER",
    )
    vouch: tuple[str, ...] = flag(
        "This provider's address is a gateway to the vendor whose identity the sweep file states.",
        default=(),
        metavar="PROVIDER",
    )
    grace: float | None = flag(
        "How long a stop waits for calls in flight. By default 25 after SIGTERM and SIGUSR1, and "
        "until a second Ctrl-C after the first one.",
        metavar="SECONDS",
        least=0,
        most=86_400,
    )
    log_json: bool = flag(
        "Write every line on stderr as a JSON object, with time and level, for machines that "
        "collect logs. For all commands: OVERSIGHT_LOG=json.",
        default=False,
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

    The same command resumes after a stop, a crash or a kill: what was paid for is in the store,
    and cells that have an outcome are not run again.

    Cells that another run in runs/ has of the same code, on the same store, are taken
    over from it. A run that was made with other code is left alone: what changed is listed row by
    row, and --adopt-code goes on with it.

    With --batch, calls are submitted to the batch endpoints of OpenAI and Anthropic, round after
    round. A stop leaves them there, and the same command collects their replies.

    Exit codes: 0 complete, 1 some cells failed, 2 the sweep file or a flag is wrong, 3
    stopped and resumable, 4 the budget is reached, 5 a replay met a call that was never recorded,
    7 another process is running the folder, 130, 138 and 143 stopped by a signal.
    """
    if settings.log_json:
        log_as_json()
    for variable, given in ((ALLOW_ADDRESS, settings.allow_address), (VOUCH, settings.vouch)):
        if given:
            os.environ[variable] = ",".join((*given, os.environ.get(variable, "")))
    file = read_sweep_file(sweep, overrides, limit)
    loaded, options = prepared(file, settings, overrides)
    for note in loaded.file.notes:
        say(note)
    if is_run(sweep.parent):
        say(f"{sweep} belongs to a run: replies that your store lacks are paid for again")
        say(f"where they are stored: oversight export replies {sweep.parent}")
        say("then here: oversight cache import")
    shown = Presentation(typed(), format, settings.score, settings.grace)
    raise SystemExit(run_in_terminal(loaded, options, shown))
