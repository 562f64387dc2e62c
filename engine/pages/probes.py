"""What judges believed after each turn, as `oversight probe` noted it beside a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

PROBES = "probes"
"""The folder of a run's probes, with a ledger of its own: they are no part of the run."""
PROBES_FILE = "probes.jsonl"


def read_probes(folder: Path) -> Mapping[int, Sequence[tuple[int, float]]]:
    """By place of the cell: (turns heard, P(a best answer)), in the order of the turns.

    A line that was cut off is passed over.
    """
    found: dict[int, dict[int, float]] = {}
    file = folder / PROBES / PROBES_FILE
    if not file.exists():
        return {}
    for line in file.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            told = orjson.loads(line)
            if told["best"] is not None:
                found.setdefault(told["place"], {})[told["turns"]] = told["best"]
    return {at: sorted(points.items()) for at, points in found.items()}
