"""The face of the room: what others may import from `cache`."""

from oversight import cache

NAMES = {
    *("Call", "Message", "Request", "ToolSpec", "ResponseFormat", "Ask", "nth"),
    *("Reply", "Outcome", "ToolCall", "Token", "Usage"),
    *("value_address", "store_key"),
    *("Reader", "Store", "MemoryStore", "DiskStore", "ReadOnlyStore"),
    *("BundleStore", "export_bundle", "merge", "MergeStatistics"),
    *("Cache", "CacheStatistics", "Mode"),
    *("Record", "read_record", "records", "checked_records", "store_statistics", "StoreStatistics"),
    *("differences", "nearest_recorded"),
    *("CacheError", "AddressError", "StoreError", "DamagedEntry", "StoreFull"),
    *("BundleError", "ReplayMiss"),
}


def test_the_public_names_are_these():
    assert set(cache.__all__) == NAMES


def test_every_public_name_is_there():
    assert all(getattr(cache, name) is not None for name in NAMES)
