"""`calls`: 2,000 calls, 200 in flight. What does each cost the client?"""

from collections.abc import Iterator

from oversight.engine.display.table import Table
from tests.bench.client import BARE, BARE_SDK, PLAIN, SDK, Found, interleaved
from tests.bench.clients.asked import Job
from tests.bench.measured import Goal, Measured, at_most, cpu_ms, wall
from tests.bench.options import Options
from tests.bench.server import Server


def measure(options: Options) -> Measured:
    clients = [BARE, BARE_SDK, PLAIN, SDK, *options.peers_for("calls")]
    with Server() as server:
        job = Job(server.url, options.sized(2000), 200, "")
        found = interleaved(clients, "calls", job, options.rounds)
    table = side_by_side("calls: 2,000 calls, 200 in flight, 50 ms each", found)
    return Measured("calls", table, tuple(_goals(found)))


def side_by_side(title: str, found: Found) -> Table:
    """One row a client: CPU for a call, wall, and both against the bare loop of the same run."""
    bare = found.readings[BARE]
    body = [
        (
            client.name,
            f"{cpu_ms(readings):.2f}",
            f"{cpu_ms(readings) / cpu_ms(bare):.1f}",
            f"{wall(readings):.2f}",
            f"{wall(readings) / wall(bare):.2f}",
            f"{max(reading.peak for reading in readings):.0f} MB",
        )
        for client, readings in found.readings.items()
    ]
    head = ("client", "CPU ms/call", "× bare", "wall s", "× bare", "peak memory")
    return Table(title, head, tuple(body), 1, found.notes)


def _goals(found: Found) -> Iterator[Goal]:
    cpu = {client: cpu_ms(readings) for client, readings in found.readings.items()}
    yield at_most("plain transport: CPU for a call", cpu[PLAIN] / cpu[BARE], 2, " × bare")
    for client, value in cpu.items():
        if client.script == "with_lm_eval.py":
            yield at_most(
                "plain transport: CPU for a call", cpu[PLAIN] / value, 1.05, " × lm_eval's"
            )
    above = cpu[SDK] - cpu[BARE_SDK]
    yield at_most("SDK transport: CPU for a call", above, 0.15, " ms above the bare SDK")
    for client, value in cpu.items():
        if client.script == "with_openai.py":
            yield at_most(
                "SDK transport: CPU for a call",
                cpu[SDK] / value,
                1 / 3,
                " × the SDK's `create`",
            )
