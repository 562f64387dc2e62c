"""Seats that fill in forms, ordered results, and the return values of a protocol."""

import asyncio
from collections.abc import Coroutine

import pytest

from oversight.protocols import Agent, RolePrompt, Seat, Transcript, Words, hear
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.doubts import UnreadReply, parse_all
from oversight.protocols.errors import Declined, Unreadable, gather_deterministic
from oversight.protocols.prompts.forms import NUMBER, TEXT, Form, choice_of, whole_number
from oversight.protocols.prompts.render import turn_block
from tests import virtual
from tests.fakes import CRATES, Scripted
from tests.world import plain
from tools.mechanisms import DOCS, TABLES, TRUTHS, written
from tools.seats import PICTURES, blocks_of, columns, diagram
from tools.sharing import LONGER, PAIRS, counts

TRANSCRIPT = Transcript(CRATES)
BRIEF = RolePrompt("Reader", Words("Somebody reads."), Words("Fill in the form."))
SEAT = Seat(Agent("sim/any"), None, BRIEF)
FORM: Form[tuple[float, int, str, str]] = Form(
    "reading",
    {
        "share": NUMBER, "step": whole_number(range(1, 4)), "which": choice_of(["up", "down"]),
        "why": TEXT,
    },
    lambda field: (
        field.number("share", 0, 1), field.whole("step", range(1, 4)),
        field.one_of("which", ["up", "down"]), field.text("why"),
    ),
)  # fmt: skip


async def test_seats_that_speak_at_once_appear_in_their_order():
    seats = [Seat(Agent(f"sim/{name}"), None, BRIEF) for name in ("b", "a")]
    ask = Scripted(lambda call: call.model)
    transcript = await hear(TRANSCRIPT, *seats, ask=ask)
    assert [turn.text for turn in transcript.turns] == ["sim/b", "sim/a"]
    assert len({call.messages for call in ask.calls}) == 1


def _work(*value: object) -> list[Coroutine[object, object, object]]:
    async def one(outcome: object) -> object:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return [one(outcome) for outcome in value]


async def test_readable_replies_keep_their_indices_and_without_any_the_first_fault_is_raised():
    replies = await parse_all(*_work(Unreadable("mud", "", seat="Judge"), 0.0, None))
    assert replies.read == {1: 0.0, 2: None}
    assert replies.doubts == (UnreadReply("Judge", "no statement"),)
    with pytest.raises(Declined, match="first"):
        await parse_all(*_work(Declined("first", ""), Unreadable("second", "")))
    with pytest.raises(KeyError):
        await parse_all(*_work(1, KeyError("gone")))


@pytest.mark.parametrize("reason", ["none", "private", "public"])
async def test_reasoning_before_a_form_is_recorded_and_read_by_others_only_in_public(reason):
    form = Form("note", {"why": TEXT}, lambda value: seat.turn(value, value.text("why")))
    seat = Seat(Agent("sim/any", reason=reason), None, BRIEF)
    ask = Scripted(lambda call: '{"reasoning": "Hm, <tool>4</tool>.", "why": "so"}')
    turn = await seat.fill(form, TRANSCRIPT, ask)
    schema = ask.calls[0].response_format
    assert schema is not None and ("reasoning" in schema.schema) == (reason != "none")
    assert turn.text == "so"
    assert turn.reasoning == "Hm, ‹tool>4‹/tool>." and turn.forged == 2
    assert ("Hm," in turn_block(turn)) == (reason == "public")


async def after(delay: float, value: int, ends: list[float] | None = None) -> int:
    """The value, or an error if it is 0. The time of its end or cancellation is added to `ends`."""
    try:
        await asyncio.sleep(delay)
    finally:
        if ends is not None:
            ends.append(virtual.now())
    if not value:
        raise ValueError(f"after {delay}")
    return value


@virtual.virtually
async def test_results_are_in_the_order_given_or_the_first_fault_is_raised_once_all_have_ended():
    assert await gather_deterministic(after(3, 1), after(1, 2), after(2, 3)) == [1, 2, 3]
    assert virtual.now() == pytest.approx(3, abs=0.1)
    ends: list[float] = []
    with pytest.raises(ValueError, match="after 5"):
        await gather_deterministic(after(1, 1), after(5, 0), after(1, 0), after(9, 2, ends))
    assert ends == pytest.approx([3 + 9], abs=0.1)


@virtual.virtually
async def test_cancellation_cancels_all():
    ends: list[float] = []
    task = asyncio.ensure_future(gather_deterministic(after(100, 1, ends), after(100, 2, ends)))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == pytest.approx([1, 1], abs=0.1)


README = DOCS.parents[1] / "README.md"


@pytest.mark.parametrize("table", TABLES)
def test_document_agrees_with_every_mechanism(table):
    assert written(table) == TABLES[table](), "write it anew with: python -m tools.mechanisms"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_diagram_of_a_mechanism_shows_its_seats(name):
    blocks = blocks_of(name)
    assert (PICTURES / f"{name}.svg").read_text() == diagram(name, blocks), "make docs"
    steps = [step for block, times in blocks for step in block * times]
    assert columns(plain(PROTOCOLS[name])) == steps


@pytest.mark.parametrize("view", [pair for pair in PAIRS if pair.why == LONGER], ids=str)
def test_longer_debates_pay_only_for_new_calls(view):
    value = " ".join(README.read_text().split())
    assert "longer debates and larger grids pay only for new calls" in value
    shorter, longer = counts(view)
    # Two worlds have at most two verdicts, and only those are new calls; with feedback also the
    # scores of two responses per side.
    anew = 2 * 3 if view.one == "debate_feedback" else 2
    assert len(shorter - longer) <= anew and len(shorter & longer) > 2


def test_every_mechanism_has_a_known_truth():
    assert set(PROTOCOLS) <= set(TRUTHS)
