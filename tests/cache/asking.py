"""Some calls, who answers them, and all of them asked at once."""

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from oversight.cache.address import store_key
from oversight.cache.call import Ask, Call, Message, Request
from oversight.cache.record import new_record
from oversight.cache.reply import Reply
from tests.fakes import Scripted

CALL = Call(Request("sim/strong", (Message("user", "How many apples?"),), temperature=0.4))


def home(call: Call) -> str:
    return "here/v1"


def calls(count: int) -> list[Call]:
    return [replace(CALL, draw=(n,)) for n in range(count)]


def answers(text: str = "48") -> Scripted:
    return Scripted(lambda call: text)


async def ask_all(ask: Ask, asked: Iterable[Call]) -> list[Reply]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(call)) for call in asked]
    return [task.result() for task in tasks]


def record_of(call: Call, reply: Reply, place: str = "here/v1") -> tuple[str, bytes]:
    """A key and what a store keeps under it."""
    key = store_key(call.address, place)
    return key, new_record(key, call, reply, place, 1_700_000_000).packed().to_bytes()


def entry(n: int) -> tuple[str, bytes]:
    """The n-th of some entries of different lengths."""
    return record_of(calls(n + 1)[n], Reply(f"reply {n} " * (n % 9 + 1)))
