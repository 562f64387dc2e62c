"""`oversight plan --prompts`: what every seat of a sweep reads, found by walking its rows with
simulated replies."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from ....cache.call import Call
from ....cache.reply import Reply
from ....protocols.prompts.parse import read_instructions
from ...errors import UsageError
from ...run.dry_run import Walker, stand_ins
from ...run.loaded_sweep import LoadedSweep
from ...sweep.sweep import Sweep
from ...views.cli.output import show, show_json

WORDS_OF_A_SEAT = 6
"""Number of leading words of the instructions that identify a seat."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """The first call of one seat in one row."""

    protocol: str
    seat: str
    """Task and side, as marked in the prompt: `speak A`."""
    model: str
    messages: tuple[tuple[str, str], ...]
    """(role, text) of each message."""


async def prompts_read(sweep: Sweep) -> list[Prompted]:
    """The first prompt of each seat, row by row, in both worlds of every problem.

    Seats are distinguished by task, side and instructions; a seat that is asked again, in a later
    round or as another draw, is shown once.
    """
    provider = stand_ins(sweep, {})
    first_prompts: dict[tuple[str, ...], Prompted] = {}

    for row in sweep.rows:

        def see(call: Call, reply: Reply, kind: str = row.kind) -> None:
            users = [message.text for message in call.messages if message.role == "user"]
            todo = read_instructions(users[-1]) if users else None
            if todo is None:
                return
            seat = f"{todo.task} {todo.side}".strip()
            begins = todo.told.split(None, WORDS_OF_A_SEAT)[:WORDS_OF_A_SEAT]
            told = tuple((message.role, message.text) for message in call.messages)
            first = Prompted(kind, seat, call.model, told)
            first_prompts.setdefault((kind, seat, call.model, *begins), first)

        alone = Sweep(sweep.name, sweep.problems, (row,))
        await Walker(provider.reply, see).walk(alone.cells())
    return list(first_prompts.values())


def show_prompts(
    opened: LoadedSweep, sweep: Path, problem: str | None, protocol: str, as_json: bool
) -> None:
    """Print what every seat reads about a problem, the first unless one is named.

    Earlier turns are placeholders, so that later seats have something to read; nothing is sent.
    """
    problems = {each.id: each for each in opened.sweep.problems}
    about = problems.get(problem) if problem else opened.sweep.problems[0]
    if about is None:
        some = ", ".join(list(problems)[:8])
        raise UsageError(f"{problem!r} is no problem of {sweep}; problems: {some}")
    rows = tuple(row for row in opened.sweep.rows if protocol.lower() in row.kind.lower())
    if not rows:
        names = ", ".join(dict.fromkeys(row.kind for row in opened.sweep.rows))
        raise UsageError(f"no protocol of {sweep} fits {protocol!r}; there is: {names}")
    grid = replace(opened.sweep, rows=rows, problems=(about,))
    read = asyncio.run(prompts_read(grid))
    if as_json:
        show_json({"prompts": opened.sweep.prompts, "problem": about.id, "seats": read})
        return
    show(f"prompts {opened.sweep.prompts} · {about.id}\n")
    show("\n\n".join(map(_told, read)))


def _told(read: Prompted) -> str:
    head = f"{read.protocol} · {read.seat} · {read.model}"
    parts = [f"--- {role} ---\n{text}" for role, text in read.messages]
    return "\n".join([f"{head}\n{'=' * len(head)}", *parts])
