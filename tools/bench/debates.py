"""`debates`: 200 debates of five calls, each of which waits for the one before it; and 1,200."""

from tools.bench.calls import side_by_side
from tools.bench.client import BARE, PLAIN, SDK, interleaved
from tools.bench.clients.asked import Job
from tools.bench.measured import Measured, at_most, wall
from tools.bench.options import Options
from tools.bench.server import Server

COUNT, MANY = 200, 1200


def measure(options: Options) -> Measured:
    wanted = (
        (COUNT, [BARE, PLAIN, SDK, *options.peers_for("debates")], 1.6),
        (MANY, [BARE, PLAIN], 1.6),
    )
    found, goals = {}, []
    with Server() as server:
        for count, clients, most in wanted:
            job = Job(server.url, options.sized(count), 200, "")
            each = interleaved(clients, "debates", job, options.rounds)
            found["" if count == COUNT else f"{count:,} debates"] = each
            beside = wall(each.readings[PLAIN]) / wall(each.readings[BARE])
            goals.append(
                at_most(f"plain transport, {count:,} debates: wall", beside, most, " × bare")
            )
    title = f"debates: {COUNT} at once, 5 calls deep, 50 ms each"
    return Measured("debates", side_by_side(title, found), tuple(goals))
