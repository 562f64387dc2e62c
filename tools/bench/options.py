"""Options of the bench."""

from dataclasses import dataclass
from pathlib import Path

from tools.bench.client import FLOOR, Client


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int = 3
    """Runs of each client, taking turns; figures are their medians."""
    size: float = 1.0
    """Part of each workload that is run: less is quicker, and rougher."""
    gsm8k: Path | None = None
    """Folder with the two files of GSM8K, for `twin`; the bundled problems without it."""
    floor: bool = False
    """Whether the bare promises are measured too, in `calls` and `debates`."""
    peers: tuple[tuple[Client, tuple[str, ...]], ...] = ()
    """Others to measure, each with the workloads that it can do."""

    def sized(self, count: int, least: int = 40) -> int:
        """So many calls, debates or cells, or the part of them that is wanted; even."""
        return max(round(count * self.size / 2) * 2, least)

    def peers_for(self, workload: str) -> list[Client]:
        floor = [FLOOR] if self.floor else []
        return floor + [client for client, workloads in self.peers if workload in workloads]
