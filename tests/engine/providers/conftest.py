"""A test that is not marked `wire` runs in virtual time, over connections without sockets."""

import asyncio
from collections.abc import Callable

import pytest

from tests.memory import MemoryLoop

loops: list[Callable[[], asyncio.AbstractEventLoop]] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    wired = item.get_closest_marker("wire") is not None
    loops[:] = [asyncio.new_event_loop if wired else MemoryLoop]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"loop": lambda: loops[0]()}
