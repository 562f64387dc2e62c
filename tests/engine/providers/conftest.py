"""Tests of the unit ring run in virtual time, over connections without sockets."""

import asyncio
from collections.abc import Callable

import pytest

from tests.memory import MemoryLoop

loops: list[Callable[[], asyncio.AbstractEventLoop]] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    unit = item.get_closest_marker("unit") is not None
    loops[:] = [MemoryLoop if unit else asyncio.new_event_loop]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"loop": lambda: loops[0]()}
