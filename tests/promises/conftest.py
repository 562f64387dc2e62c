"""The result of a run without faults."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.sittings import Bench, Vendor


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Bench]:
    """Return a finished run of this many problems, made once; its store holds all replies."""

    @cache
    def run(problems: int) -> Bench:
        with Vendor() as vendor:
            bench = Bench(tmp_path_factory.mktemp("calm"), vendor.url, problems=problems)
            bench.complete()
        assert len(bench.stored()) == len(vendor.book)
        return bench

    return run
