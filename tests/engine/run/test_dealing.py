"""Dealing cells out to several workers: whole problems first, a fair end, and lost workers."""

import pickle
import random
from collections import Counter
from pathlib import Path

import pytest

from oversight.engine.errors import UsageError
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.providers.settings import environment
from oversight.engine.run.loaded_sweep import load_sweep, open_sweep
from oversight.engine.run.schedule import PAUSED, InOrder
from oversight.engine.run.settings import RunSettings
from oversight.engine.run.worker import (
    LAST_PROBLEMS,
    LIVES,
    CellWorker,
    Deal,
    Ended,
    Hand,
    Reached,
    Turn,
    code_of,
)
from oversight.engine.sweep.sweep import Cell
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols import NaiveJudge, StatedJudge
from tests.virtual import run, virtually
from tests.world import sweep

GRID = sweep(NaiveJudge(StatedJudge("sim/a")), NaiveJudge(StatedJudge("sim/b")), problems=20)
DONE = PAUSED


def dealt(rooms: list[int], ended: bytearray | None = None) -> tuple[Deal, list[Hand]]:
    ended = ended or bytearray(len(GRID))
    deal = Deal(InOrder(GRID.cells(ended)), GRID, ended, len(rooms))
    hands = [Hand(room) for room in rooms]
    for hand in hands:
        deal.join(hand)
    return deal, hands


def problems(cells: list[Cell]) -> set[int]:
    return {GRID.problem_at(cell.place) for cell in cells}


@virtually
async def test_workers_take_whole_problems_until_the_last_ones():
    deal, hands = dealt([3, 3])
    owner, shared = {}, set[int]()
    while not deal.finished:
        for hand in hands:
            for cell in await deal.take(hand):
                number = GRID.problem_at(cell.place)
                if deal.is_shared(cell):
                    shared.add(number)
                else:
                    assert owner.setdefault(number, hand) is hand, "no other worker asks its calls"
                deal.record_result(hand, cell.place, DONE)
    assert shared == set(range(20 - LAST_PROBLEMS * 2, 20))
    assert owner.keys() == set(range(20)) - shared


@virtually
async def test_last_cells_are_divided_among_workers_by_their_room():
    pending = bytearray(b"\1" * len(GRID))
    pending[-8:] = bytes(8)
    deal, hands = dealt([100, 100, 200], pending)
    assert [len(await deal.take(hand)) for hand in hands] == [2, 2, 4]


@virtually
async def test_every_cell_ends_once_whatever_workers_are_lost():
    for seed in range(40):
        draw = random.Random(seed)
        deal, hands = dealt([draw.randint(1, 9) for _ in range(3)])
        ends, asking = Counter[int](), dict[str, Hand]()
        while not deal.finished:
            hand = draw.choice(hands)
            for cell in await deal.take(hand):
                if deal.is_shared(cell):
                    deal.claim(hand, cell.problem.id)
            for call, _ in hand.granted:
                assert asking.setdefault(call, hand) is hand, "one worker at a time asks a call"
            hand.granted.clear()
            if draw.random() < 0.1 and len(hands) > 1:
                hands.remove(hand)
                guilty = deal.lose(hand, by_itself=draw.random() < 0.5)
                asking = {call: other for call, other in asking.items() if other is not hand}
                if guilty is not None:
                    ends[guilty.place] += 1
                    deal.record_result(hand, guilty.place, DONE)
                hands.append(Hand(draw.randint(1, 9)))
                deal.join(hands[-1])
            elif hand.under_way:
                place = draw.choice([*hand.under_way])
                call = hand.under_way[place].problem.id
                ends[place] += 1
                deal.record_result(hand, place, DONE)
                if asking.get(call) is hand and call not in {
                    cell.problem.id for cell in hand.under_way.values()
                }:
                    del asking[call]
                    while hand in deal._claims.get(call, ()):
                        deal.release(hand, call, paid=True)
        assert ends == Counter(range(len(GRID)))


@virtually
async def test_only_the_cell_that_ends_its_workers_fails():
    deal, hands = dealt([6, 6])
    deadly, failed, finished = 17, list[int](), set[int]()
    while not deal.finished:
        for hand in [*hands]:
            cells = await deal.take(hand)
            if deadly in hand.under_way:
                guilty = deal.lose(hand, by_itself=True)
                if guilty is not None:
                    failed.append(guilty.place)
                    deal.record_result(hand, guilty.place, DONE)
                hands[hands.index(hand)] = new = Hand(6)
                deal.join(new)
                continue
            for cell in cells:
                finished.add(cell.place)
                deal.record_result(hand, cell.place, DONE)
    assert failed == [deadly] and finished == set(range(len(GRID))) - {deadly}


@virtually
async def test_cells_of_a_lost_machine_are_never_blamed():
    deal, hands = dealt([1, 1])
    for _ in range(3 * LIVES):
        assert await deal.take(hands[0]) and deal.lose(hands[0], by_itself=False) is None
        deal.join(hands[0])


@pytest.mark.parametrize("lost", [0, 1])
@virtually
async def test_claims_of_a_lost_worker_go_to_the_next_one(lost):
    deal, hands = dealt([1, 1, 1])
    for hand in hands:
        deal.claim(hand, "call")
    deal.lose(hands.pop(lost), by_itself=False)
    assert hands[0].granted == [("call", False)]
    deal.release(hands[0], "call", paid=True)
    assert hands[1].granted == [("call", True)]


SWEEP = """\
name: s
problems: {bundled: arithmetic}
judges: {kind: stated, model: compatible/lab/judge}
protocols: [naive_judge]
"""
LAB, KEY = "COMPATIBLE_LAB_BASE_URL", "COMPATIBLE_LAB_API_KEY"
HERE, ELSEWHERE = "http://127.0.0.1:8001/v1", "http://127.0.0.1:8002/v1"


def reached(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str = SWEEP) -> Reached:
    monkeypatch.chdir(folder)
    (folder / "sweep.yaml").write_text(text)
    loaded = open_sweep(folder / "sweep.yaml")
    return pickle.loads(pickle.dumps(Reached.here(loaded.models, loaded.sweep.models)))


def checked(reached: Reached, text: str = SWEEP) -> str:
    """The address at which a worker with this environment asks the first model."""
    variables = reached.environment()
    Path("worker.yaml").write_text(text)
    models = load_sweep(read_sweep_file(Path("worker.yaml")), variables).models
    reached.check(models, variables)
    models.require_allowed(reached.endpoints)
    return models.settings_of(next(iter(reached.endpoints))).base_url


def test_addresses_travel_to_workers_and_others_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(LAB, HERE)
    monkeypatch.setenv(KEY, "sk-never-travels")
    settings = reached(tmp_path, monkeypatch)
    assert b"sk-never-travels" not in pickle.dumps(settings)
    monkeypatch.setenv(LAB, "")
    assert checked(settings) == HERE
    monkeypatch.setenv(LAB, ELSEWHERE)
    with pytest.raises(UsageError) as refusal:
        checked(settings)
    assert all(part in str(refusal.value) for part in (LAB, HERE, ELSEWHERE))


def test_missing_key_is_named_before_any_call(tmp_path, monkeypatch):
    text = SWEEP.replace("compatible/lab/judge", "openai/gpt-4o")
    settings = reached(tmp_path, monkeypatch, text)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="has no OPENAI_API_KEY: set it in the environment"):
        checked(settings, text)


def test_key_of_a_worker_is_not_sent_to_an_address_from_a_file(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    text = SWEEP.replace("compatible/lab/judge", "openai/gpt-4o")
    (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={ELSEWHERE}\nOPENAI_API_KEY=theirs\n")
    settings = reached(tmp_path, monkeypatch, text)
    (tmp_path / ".env").unlink()
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    assert environment(Path()).get("OPENAI_BASE_URL") is None
    with pytest.raises(UsageError, match="it is not sent there"):
        checked(settings, text)


def turn(number: int, received: int, places: tuple[int, ...], last: bool = False) -> Turn:
    cells = tuple((place, True) for place in places)
    return Turn(number, received, cells, (), False, None, None, last)


def test_repeated_turn_changes_nothing_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(SWEEP.replace("compatible/lab/judge", "sim/judge"))
    loaded = open_sweep(Path("sweep.yaml"))
    settings = RunSettings(store=str(tmp_path / "store"))
    reach = Reached.here(loaded.models, loaded.sweep.models)
    setup = loaded.file, code_of(loaded.sweep), reach, settings, "id", Accounting(listed())

    async def turns() -> list[Ended]:
        worker, events = CellWorker((), pickle.dumps((*setup, None, 2))), list[Ended]()
        await worker.open("node 2")
        for number, places in ((1, (0, 1, 2, 3)), (2, (4, 5))):
            for _ in range(3):  # two answers are lost
                answer = await worker.turn(turn(number, len(events), places))
            events += answer.events
        answer = await worker.turn(turn(3, len(events), (), last=True))
        assert answer.standing is not None and answer.standing.calls.new == 3
        return [*events, *answer.events]

    ended = run(turns())
    assert sorted(event.place for event in ended) == [0, 1, 2, 3, 4, 5]
    assert all(event.result is not None for event in ended)
