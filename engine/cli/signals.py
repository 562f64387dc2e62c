"""What Ctrl-C does to a command that asks models."""

import asyncio
import signal

from engine.cli.screen import say
from engine.errors import Interrupted
from engine.models import Models


def obey_signals(models: Models) -> None:
    """The first signal stops admission and lets flights land; the second abandons them.

    To be called in the task that is to be cancelled then.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def heard(number: int) -> None:
        if models.latch.halt is not None and task is not None:
            task.cancel()
            return
        models.latch.pull(Interrupted(number))
        risk = sum(account.at_risk for account in models.accounts().values())
        most = f", at most ${risk:.2f}" if risk else ""
        flights = f"{models.in_flight:,} calls in flight{most}"
        say(f"stopping: {flights}; Ctrl-C again to abandon them")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard, number)
