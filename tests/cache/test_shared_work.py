"""Work that cells have in common is done once, and looks to each of them as if it had done it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oversight.cache.call import Ask, Message, RecordingAsk, once
from oversight.cache.shared_work import MAX_NOTES, SharedWork
from tests.cache.asking import CALL
from tests.fakes import Scripted


class Told:
    """Some cells of a run, and what they were spared."""

    def __init__(self, delay: float = 0.0) -> None:
        self.model = Scripted(lambda asked: asked.messages[-1].text.upper(), delay)
        self.spared: list[tuple[int, bool]] = []
        self.shared = SharedWork(lambda calls, joined: self.spared.append((calls, joined)))

    def cell(self) -> RecordingAsk:
        return RecordingAsk(self.model, shared=self.shared)


def speech(*texts: str, fault: Exception | None = None) -> Callable[[Ask], Awaitable[str]]:
    async def said(ask: Ask) -> str:
        replies = [await ask(CALL.changed(messages=(Message("user", text),))) for text in texts]
        if fault is not None:
            raise fault
        return " ".join(reply.text for reply in replies)

    return said


async def test_what_was_done_before_is_noted_by_everybody_and_counted() -> None:
    told = Told()
    first, second = told.cell(), told.cell()
    for cell in (first, second):
        assert await once(cell, speech("a", "b"), (("settings",),), "transcript") == "A B"
    assert len(told.model.calls) == 2
    assert first.notes == second.notes
    assert len(first.notes) == 2
    assert told.spared == [(2, False)]


@pytest.mark.parametrize("other", ["settings", "transcript", "draw", "role", "seat"])
async def test_work_of_other_settings_transcripts_draws_and_seats_is_other_work(other: str) -> None:
    told = Told()
    asks = [told.cell(), told.cell()]
    about = [("settings", "transcript"), ("settings", "transcript")]
    match other:
        case "settings":
            about[1] = ("others", "transcript")
        case "transcript":
            about[1] = ("settings", "another")
        case "draw":
            asks[1] = asks[1].nth(1)
        case "role":
            asks[1] = asks[1].used_as("draft")
        case "seat":
            asks[1] = asks[1].seated("speak", "Debater A", 0)
    for ask, (settings, transcript) in zip(asks, about, strict=True):
        await once(ask, speech("a"), (settings,), transcript)
    assert len(told.model.calls) == 2
    assert not told.spared


async def test_what_is_under_way_is_joined_and_its_fault_shared_but_not_remembered() -> None:
    told, fault = Told(delay=0.01), ValueError("cut")
    cells = [told.cell(), told.cell()]
    ends = await asyncio.gather(
        *(once(cell, speech("a", fault=fault), (), "t") for cell in cells), return_exceptions=True
    )
    assert ends == [fault, fault]
    assert [len(cell.notes) for cell in cells] == [1, 1]
    assert told.spared == [(1, True)]
    assert await once(told.cell(), speech("a"), (), "t") == "A"
    assert len(told.model.calls) == 2


async def test_whoever_joined_does_it_where_the_first_was_cancelled() -> None:
    told = Told(delay=0.01)
    first, second = (asyncio.create_task(once(told.cell(), speech("a"), (), "t")) for _ in "12")
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "A"
    assert first.cancelled()
    assert not told.spared


async def test_an_agent_that_has_no_hash_shares_nothing() -> None:
    told = Told()
    for _ in range(2):
        assert await once(told.cell(), speech("a"), ([],), "t") == "A"
        assert await once(told.cell(), speech("a"), (), ["t"]) == "A"
    assert len(told.model.calls) == 4


async def test_what_was_done_long_ago_is_forgotten() -> None:
    told = Told()
    for n in range(MAX_NOTES + 2):
        await once(told.cell(), speech("a"), (), n)
    await once(told.cell(), speech("a"), (), MAX_NOTES + 1)
    assert len(told.spared) == 1
    await once(told.cell(), speech("a"), (), 0)
    assert len(told.spared) == 1


async def test_work_that_asked_nobody_is_forgotten_too() -> None:
    told = Told()
    for n in range(MAX_NOTES + 1):
        await once(told.cell(), speech(), (), n)
    await once(told.cell(), speech(), (), 0)
    assert not told.spared
    await once(told.cell(), speech(), (), MAX_NOTES)
    assert told.spared == [(0, False)]
