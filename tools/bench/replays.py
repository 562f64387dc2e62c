"""`replays`: debates that the store answers whole. What does a distinct call cost without a socket?

Not hits a second: those rise with the sharing of calls, which says nothing of the engine."""

from oversight.engine.display.table import Table
from tools.bench.client import PLAIN, interleaved
from tools.bench.clients.asked import Job
from tools.bench.measured import Measured, at_most, cpu_ms, wall
from tools.bench.options import Options
from tools.bench.server import Server

COUNT = 1200


def measure(options: Options) -> Measured:
    with Server() as server:
        job = Job(server.url, options.sized(COUNT), 200, "")
        found = interleaved([PLAIN], "replays", job, options.rounds)
        asked = server.counts()["requests"]
    readings = found.readings[PLAIN]
    cost = cpu_ms(readings) * 1000
    row = (
        PLAIN.name,
        f"{readings[0].answered:,}",
        f"{cost:.0f}",
        f"{wall(readings):.2f}",
        f"{asked // options.rounds:,}",
    )
    head = ("client", "distinct calls", "CPU µs/call", "wall s", "requests of the run before")
    title = f"replays: {COUNT:,} debates of five calls, all of them stored"
    goal = at_most("a replay: CPU for a distinct call", cost, 165, " µs", 0)
    return Measured("replays", Table(title, head, (row,), 1), (goal,))
