"""`python -m oversight.engine.extensions.mock --profile storm`: serve until interrupted.

It prints its base URL."""

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from ...errors import UsageError
from ...system.process import event_loop
from .connection import FastLoop
from .profile import Profile, load_profile
from .server import MockServer, Responder, filler


@click.command()
@click.option("--port", default=0, help="0 takes a free one.")
@click.option(
    "--profile", "name", default="calm", help="calm, busy, storm, 2026, thinking, or a file."
)
@click.option("--speed", type=float, help="Simulated seconds per real second.")
@click.option("--clock", default=1.0, help="Seconds of the server's clock per real second.")
@click.option("--sweep", type=click.Path(path_type=Path), help="Sweep file whose models answer.")
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Set a value of the sweep file."
)
@click.option("--limit", type=int, help="Use only the first N problems.")
@click.option("--attached", is_flag=True, help="Stop when standard input ends.")
def serve(
    port: int,
    name: str,
    speed: float | None,
    clock: float,
    sweep: Path | None,
    overrides: tuple[str, ...],
    limit: int | None,
    attached: bool,
) -> None:
    """A local mock server that speaks the wires of OpenAI and Anthropic."""
    try:
        profile = load_profile(name)
        answer: Responder = filler
        if sweep is not None:
            from ...run.loaded_sweep import open_sweep
            from .process import actors

            answer = actors(open_sweep(sweep, overrides, limit))
    except UsageError as exc:
        raise click.UsageError(str(exc)) from exc
    if speed is not None:
        profile = replace(profile, speed=speed)
    loops: Callable[[], asyncio.AbstractEventLoop] = event_loop()
    if clock != 1.0:
        loops = partial(FastLoop, clock)
    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(_serve(profile, answer, port, attached))


async def _serve(profile: Profile, answer: Responder, port: int, attached: bool) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    if attached:
        # The parent process holds the other end, so standard input ends when the parent does.
        loop.add_reader(sys.stdin.fileno(), stopped.set)
    async with MockServer(profile, answer, port=port) as server:
        print(server.url, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    serve()
