"""`python -m oversight.engine` and the command `oversight`."""

import gc
import io
import os
import signal
import sys
from types import FrameType

from .system.process import LOADING
from .views.cli.exit_codes import ExitCode


def main() -> None:
    """Run the command line. Ctrl-C is quiet while the program loads and once it has ended."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _gone)
    # Read when numpy is imported. The matrices here are small: further threads compete with the
    # event loop, and the last digit of a sum would depend on the number of cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(LOADING)
    # A terminal may lack a character: a replaced one is better than no output. A service may close
    # the streams: their numbers must not go to files of a run.
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    from .views.cli.group import main

    try:
        if signal.getsignal(signal.SIGINT) is _gone:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    finally:
        # All is done and said; while Python winds up, one more would only change the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _gone(number: int, frame: FrameType | None) -> None:
    """Exit before anything has begun: nothing needs to be stopped or saved."""
    os._exit(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    main()
