"""`calls`: 2,000 calls, and 6,000, 200 in flight. What does each cost the client?"""

from collections.abc import Iterator, Mapping

from oversight.engine.display.table import Table
from tools.bench.client import BARE, BARE_SDK, FLOOR, PLAIN, SDK, Client, Found, interleaved
from tools.bench.clients.asked import Job
from tools.bench.measured import Goal, Measured, at_most, cpu_ms, wall
from tools.bench.options import Options
from tools.bench.server import Server

COUNT, MANY = 2000, 6000
WITHOUT_STORE = "with_lm_eval.py"
"""The cheapest peer: it keeps nothing, limits nothing and records nothing."""


def measure(options: Options) -> Measured:
    peers = options.peers_for("calls")
    leanest = [client for client in peers if client.script in (WITHOUT_STORE, FLOOR.script)]
    with Server() as server:

        def asked(clients: list[Client], count: int) -> Found:
            job = Job(server.url, options.sized(count), 200, "")
            return interleaved(clients, "calls", job, options.rounds)

        some = asked([BARE, BARE_SDK, PLAIN, SDK, *peers], COUNT)
        many = asked([BARE, PLAIN, *leanest], MANY)
    title = f"calls: {COUNT:,}, 200 in flight, 50 ms each"
    goals = (*_goals(some, COUNT, 1.2), *_goals(many, MANY, 1.2))
    return Measured("calls", side_by_side(title, {"": some, f"{MANY:,} calls": many}), goals)


def side_by_side(title: str, found: Mapping[str, Found]) -> Table:
    """One row per client: CPU per call, wall, and both against the bare loop of the same run.

    found: by a suffix of the client's name."""
    body = []
    for what, each in found.items():
        bare = each.readings[BARE]
        body += [
            (
                ": ".join(filter(None, (client.name, what))),
                f"{cpu_ms(readings):.3f}",
                f"{cpu_ms(readings) / cpu_ms(bare):.1f}",
                f"{wall(readings):.2f}",
                f"{wall(readings) / wall(bare):.2f}",
                f"{max(reading.peak for reading in readings):.0f} MB",
                f"{readings[0].answered:,}",
            )
            for client, readings in each.readings.items()
        ]
    head = ("client", "CPU ms/call", "× bare", "wall s", "× bare", "peak memory", "calls")
    notes = dict.fromkeys(note for each in found.values() for note in each.notes)
    return Table(title, head, tuple(body), 1, tuple(notes))


def _goals(found: Found, count: int, of_leanest: float) -> Iterator[Goal]:
    cpu = {client: cpu_ms(readings) for client, readings in found.readings.items()}
    plain = f"plain transport, {count:,} calls: CPU for one"
    for client, value in cpu.items():
        if client.script == WITHOUT_STORE:
            yield at_most(plain, cpu[PLAIN] / value, of_leanest, f" × {client.name}'s")
    if SDK in cpu:
        above = cpu[SDK] - cpu[BARE_SDK]
        yield at_most("SDK transport: CPU for a call", above, 0.15, " ms above the bare SDK")
    else:
        yield at_most(plain, cpu[PLAIN] / cpu[BARE], 2.2, " × bare")
