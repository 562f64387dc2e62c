"""What a store holds, counted: by outcome, by model and by month."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from .errors import DamagedEntry
from .record import IMPORTED, Record
from .reply import Outcome


@dataclass(frozen=True, slots=True)
class ReplyCounts:
    """Replies that have something in common."""

    replies: int
    outcomes: Mapping[Outcome, int]
    """How many of them ended so; those that never did are left out."""
    plain_size: int
    """Bytes of the replies and their calls as JSON, before compression."""


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    total: ReplyCounts
    models: Mapping[str, ReplyCounts]
    months: Mapping[str, ReplyCounts]
    """By the month of storing in UTC, as `2026-11`, the earliest first."""
    damaged: int
    """Entries that are not what was stored; they are counted nowhere else."""
    origins: Mapping[str, int] = field(default_factory=dict)
    """By how they came, as in `live https://HOST/v1` or `imported`; `unknown` for those stored
    before that was kept."""


def store_statistics(found: Iterable[tuple[str, Record | DamagedEntry]]) -> StoreStatistics:
    """found: entries as `oversight.cache.record.records` reads them."""
    counts: Counter[tuple[str, str, Outcome]] = Counter()
    sizes: Counter[tuple[str, str, Outcome]] = Counter()
    origins: Counter[str] = Counter()
    damaged = 0
    for _, record in found:
        if isinstance(record, DamagedEntry):
            damaged += 1
        else:
            month = datetime.fromtimestamp(record.stored_at, UTC).strftime("%Y-%m")
            cell = record.model, month, record.outcome
            counts[cell] += 1
            sizes[cell] += record.reply_size + record.call_size
            try:
                origin = record.reply().origin
                simulated = not origin and record.model.startswith("sim/")
                origins["simulated" if simulated else source(origin)] += 1
            except DamagedEntry:
                origins["unknown"] += 1

    def tally(model: str = "", month: str = "") -> ReplyCounts:
        outcomes: Counter[Outcome] = Counter()
        size = 0
        for cell, count in counts.items():
            if model in ("", cell[0]) and month in ("", cell[1]):
                outcomes[cell[2]] += count
                size += sizes[cell]
        return ReplyCounts(outcomes.total(), dict(sorted(outcomes.items())), size)

    return StoreStatistics(
        tally(),
        {model: tally(model=model) for model in sorted({model for model, _, _ in counts})},
        {month: tally(month=month) for month in sorted({month for _, month, _ in counts})},
        damaged,
        dict(origins.most_common()),
    )


def source(origin: str) -> str:
    """An origin without the run: `live ADDRESS`, `batch ADDRESS`, `imported` or `unknown`."""
    words = origin.split()
    if not words:
        return "unknown"
    return words[0] if words[0] in ("simulated", IMPORTED) else " ".join(words[:2])
