"""What a store holds, counted."""

from dataclasses import replace

from oversight.cache.errors import DamagedEntry
from oversight.cache.record import new_record
from oversight.cache.stats import ReplyCounts, StoreStatistics, store_statistics
from tests.calls import FULL, REPLY


def entry(model: str, outcome: str, stored_at: int):
    call, reply = FULL.changed(model=model), replace(REPLY, outcome=outcome)
    record = new_record("key", call, reply, "here/v1", stored_at)
    return "key", record


def test_nothing_is_counted_in_an_empty_store():
    assert store_statistics([]) == StoreStatistics(ReplyCounts(0, {}, 0), {}, {}, 0)


def test_every_reply_is_counted_once_in_each_table():
    new_year = 1_767_225_600
    found = [
        entry("b", "ok", new_year),
        entry("a", "ok", new_year),
        entry("a", "refused", new_year - 1),
        ("z", DamagedEntry("z", "altered")),
    ]
    sizes = [record.reply_size + record.call_size for _, record in found[:3]]
    counted = store_statistics(found)
    assert counted.total == ReplyCounts(3, {"ok": 2, "refused": 1}, sum(sizes))
    assert list(counted.models) == ["a", "b"]
    assert counted.models["a"] == ReplyCounts(2, {"ok": 1, "refused": 1}, sizes[1] + sizes[2])
    assert counted.months == {
        "2025-12": ReplyCounts(1, {"refused": 1}, sizes[2]),
        "2026-01": ReplyCounts(2, {"ok": 2}, sizes[0] + sizes[1]),
    }
    assert counted.damaged == 1
