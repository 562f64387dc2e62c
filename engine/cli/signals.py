"""What Ctrl-C, a plain kill and a closed terminal do to a command that asks models."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType

from ..display.progress import Snapshot
from ..display.quantity import counted
from ..errors import Interrupted
from ..stop import StopToken
from .output import say

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def obey_signals(stop_token: StopToken, snapshot: Callable[[], Snapshot]) -> None:
    """The first signal stops admission and lets flights land; a second one abandons them.

    A second hangup does not: a terminal that is closed sends several. What comes once the loop has
    ended is not heard any more: all is saved then, and the process is about to end. A signal that
    was ignored when the program began, as under nohup, stays ignored.
    To be called in the task that is to be cancelled.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]

    def heard(number: int) -> None:
        if stop_token.halt is not None and task is not None:
            if number != signal.SIGHUP:
                task.cancel()
            return
        stop_token.stop(Interrupted(number))
        now = snapshot()
        most = f", at most ${now.at_risk:.2f}" if now.at_risk else ""
        flights = f"{counted(now.in_flight, 'call')} in flight{most}"
        say(f"stopping: {flights}; Ctrl-C again to abandon them")

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(terminals)
        if not loop.is_closed():
            # A loop may close at any moment; then there is nothing left to stop.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(heard, number)
        elif stop_token.halt is None:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    # Not the loop's own handlers: it takes them away when it closes, and a signal that comes
    # between that moment and the end would kill the process.
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _leave(terminals: Iterable[int]) -> None:
    """Write nowhere what was to go to terminals that are gone: writing there would be an error."""
    if gone := [stream for stream in terminals if not os.isatty(stream)]:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in gone:
            os.dup2(nowhere, stream)
        os.close(nowhere)
