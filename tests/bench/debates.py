"""`debates`: 200 debates of five calls, each of which waits for the one before it."""

from tests.bench.calls import side_by_side
from tests.bench.client import BARE, PLAIN, SDK, interleaved
from tests.bench.clients.asked import Job
from tests.bench.measured import Measured, at_most, wall
from tests.bench.options import Options
from tests.bench.server import Server


def measure(options: Options) -> Measured:
    clients = [BARE, PLAIN, SDK, *options.peers_for("debates")]
    with Server() as server:
        job = Job(server.url, options.sized(200), 200, "")
        found = interleaved(clients, "debates", job, options.rounds)
    table = side_by_side("debates: 200 at once, 5 calls deep, 50 ms each", found)
    bare, ours = found.readings[BARE], found.readings[PLAIN]
    goal = at_most("plain transport: wall", wall(ours) / wall(bare), 1.3, " × bare")
    return Measured("debates", table, (goal,))
