"""`faults`: of all requests, three in ten meet trouble. What is lost, and what is asked in vain?"""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from oversight.engine.mock import FaultKind, FaultWindow, Profile
from oversight.engine.runs.run_folder import outcomes
from tests.bench.clients.asked import TURNS
from tests.bench.command import Running
from tests.bench.measured import Measured, exactly
from tests.bench.options import Options
from tests.bench.server import LATENCY, Server
from tests.bench.sweep import write_debates

SHARES: dict[FaultKind, float] = {
    "rate_limit": 0.20,
    "server_error": 0.02,
    "reset": 0.02,
    "half_json": 0.02,
    "html": 0.02,
    "error_in_200": 0.02,
}
STORM = Profile(
    tuple(FaultWindow(fault, share) for fault, share in SHARES.items()), latency=LATENCY, delay=0.1
)


def measure(options: Options) -> Measured:
    debates = options.sized(100, 4)
    with TemporaryDirectory(prefix="bench-") as place, Server(STORM) as server:
        folder = Path(place)
        sweep = write_debates(folder, range(debates // 2), lanes=200)
        again = ("run", sweep, "--run-folder", "run")
        wall = Running(again, folder, server.url).end().wall
        failed = _failed(folder / "run")
        if failed:
            Running((*again, "--retry-failed"), folder, server.url).end()
        counts, lost = Counter(server.counts()), _failed(folder / "run")
    need, drawn = debates * (TURNS + 1), {fault: counts[fault] for fault in SHARES}
    beyond = counts["requests"] - need - sum(drawn.values())
    body = (
        ("calls needed", f"{need:,}"),
        *((f"met {fault.replace('_', ' ')}", f"{count:,}") for fault, count in drawn.items()),
        ("requests", f"{counts['requests']:,}"),
        ("cells that failed", f"{failed:,} of {debates:,}"),
        ("of them after --retry-failed", f"{lost:,}"),
        ("wall s", f"{wall:.1f}"),
    )
    goals = (
        exactly("cells lost", failed, 0),
        exactly("requests beyond need and faults", beyond, 0),
    )
    title = f"faults: {debates:,} debates, five calls deep; three requests in ten meet trouble"
    return Measured("faults", Table(title, ("what", "count"), body, 1), goals)


def _failed(run: Path) -> int:
    return sum(record.failure is not None for record in outcomes(run))
