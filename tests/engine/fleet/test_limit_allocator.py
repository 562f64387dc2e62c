"""P9 and P11 over several workers: no interleaving lets them use more than the whole."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oversight.cache.cache import CacheStatistics
from oversight.engine.fleet.limit_allocator import LimitAllocator
from oversight.engine.fleet.messages import Acknowledgement, WorkerReport
from oversight.engine.limits.limits import Limits
from oversight.engine.throughput import LimitStatistics
from tests.conftest import examples

MODEL, CONCURRENCY, CAP = "openai/gpt-4o", 20, 1.0
NOTHING_ASKED = CacheStatistics(0, 0, 0, 0)
HAIR = 1e-9


def use(waiting=0, in_flight=0, per_second=0.0):
    return {MODEL: LimitStatistics(per_second, in_flight, waiting, 8.0, 8.0, None)}


def report(waiting=0, in_flight=0, per_second=0.0, spent=0.0, reserved=0.0, wants=0.0):
    return WorkerReport(
        *((), (), 0, 0, False, use(waiting, in_flight, per_second), 0, {}, NOTHING_ASKED),
        *(spent, reserved, wants, (), None),
    )


class FarWorker:
    """A worker at the end of a slow line: what it has taken, and what is on its way."""

    def __init__(self):
        self.share, self.width, self.lease = 0.0, 0, 0.0
        self.in_flight, self.spent, self.reserved, self.wants = [], 0.0, 0.0, 0.0
        self.sent = self.told = self.acknowledgement = None

    def send(self, worst):
        fits = self.spent + self.reserved + worst <= self.lease
        self.wants = 0.0 if fits else worst
        if fits and len(self.in_flight) < self.width:
            self.in_flight.append(worst)
            self.reserved = sum(self.in_flight)

    def land(self, part):
        if self.in_flight:
            self.spent += part * self.in_flight.pop()
            self.reserved = sum(self.in_flight)

    def take(self):
        (grants, dollars), self.sent = self.sent, None
        self.share, self.width, self.lease = grants[MODEL].share, grants[MODEL].width, dollars
        used = self.spent + self.reserved
        self.acknowledgement = grants, dollars, Acknowledgement(used, {MODEL: len(self.in_flight)})


class Team(RuleBasedStateMachine):
    """Orders, reports, acknowledgements, deaths and changes of the whole, in any order."""

    @initialize(workers=st.integers(1, 5))
    def begin(self, workers):
        self.allocator = LimitAllocator(
            {MODEL: Limits(requests=6000, concurrency=CONCURRENCY)}, CAP
        )
        self.workers, self.number, self.gone = {}, 0, 0.0
        for _ in range(workers):
            self.spawn()

    def any_worker(self, pick):
        return sorted(self.workers)[pick % len(self.workers)]

    @rule()
    def spawn(self):
        if len(self.workers) < 8:
            self.workers[self.number] = FarWorker()
            self.allocator.joined(self.number)
            self.number += 1

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 7), waiting=st.integers(0, 500), speed=st.floats(0, 100))
    def report(self, pick, waiting, speed):
        worker = self.workers[self.any_worker(pick)]
        if worker.sent is None and worker.acknowledgement is None and worker.told is None:
            worker.told = report(
                *(waiting, len(worker.in_flight), speed),
                *(worker.spent, worker.reserved, worker.wants),
            )

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 7))
    def order(self, pick):
        worker = self.workers[n := self.any_worker(pick)]
        if worker.told is not None:
            self.allocator.reported(n, worker.told)
            worker.told = None
            worker.sent = self.allocator.grants(n), self.allocator.dollars(n)

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 7))
    def arrive(self, pick):
        worker = self.workers[self.any_worker(pick)]
        if worker.sent is not None:
            worker.take()

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 7))
    def acknowledge(self, pick):
        worker = self.workers[n := self.any_worker(pick)]
        if worker.acknowledgement is not None:
            self.allocator.acknowledged(n, *worker.acknowledgement)
            worker.acknowledgement = None

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 7), worst=st.floats(0.001, 0.3), calls=st.integers(1, 20))
    def send(self, pick, worst, calls):
        for _ in range(calls):
            self.workers[self.any_worker(pick)].send(worst)

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 7), part=st.floats(0, 1), calls=st.integers(1, 20))
    def land(self, pick, part, calls):
        for _ in range(calls):
            self.workers[self.any_worker(pick)].land(part)

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 7))
    def die(self, pick):
        worker = self.workers.pop(n := self.any_worker(pick))
        self.allocator.lost(n)
        self.gone += worker.spent + worker.reserved

    @rule(whole=st.floats(0, 1))
    def share_with_others(self, whole):
        """Less counts for others only once it is held no more; see `held`."""
        self.allocator.whole[MODEL] = max(whole, self.allocator.held(MODEL))

    @invariant()
    def shares_and_width_stay_within_the_whole(self):
        sides = getattr(self, "workers", {}).values()
        if sides:
            assert sum(w.share for w in sides) <= self.allocator.held(MODEL) + HAIR
            assert self.allocator.held(MODEL) <= self.allocator.whole[MODEL] + HAIR
            assert sum(len(w.in_flight) for w in sides) <= CONCURRENCY

    @invariant()
    def dollars_stay_within_the_cap(self):
        if workers := getattr(self, "workers", {}):
            used = sum(w.spent + w.reserved for w in workers.values())
            assert self.gone + used <= CAP + HAIR
            assert self.allocator.free >= -HAIR


Team.TestCase.settings = settings(examples(3), stateful_step_count=60)
test_no_interleaving_lets_workers_use_more_than_the_whole = pytest.mark.campaign(Team.TestCase)


def beat(allocator, worker, told, in_flight=0):
    """One round of a worker that takes its orders at once; what it was granted."""
    allocator.reported(worker, told)
    grants, dollars = allocator.grants(worker), allocator.dollars(worker)
    used = told.spent + told.reserved
    allocator.acknowledged(worker, grants, dollars, Acknowledgement(used, {MODEL: in_flight}))
    return grants.get(MODEL), dollars


def team(workers, cap=None, **limits):
    allocator = LimitAllocator({MODEL: Limits(**limits)}, cap)
    for n in range(workers):
        allocator.joined(n)
    return allocator


def test_shares_follow_those_who_wait_and_leave_nothing_over():
    allocator = team(2, requests=6000)
    for _ in range(3):
        busy, _ = beat(allocator, 0, report(waiting=300, per_second=60))
        idle, _ = beat(allocator, 1, report())
    assert busy.share == 0.99
    assert idle.share == 0.01
    for _ in range(3):
        even = [beat(allocator, n, report(waiting=50, per_second=50))[0].share for n in (0, 1)]
    assert even == [0.5, 0.5]


def test_every_slot_is_given_to_somebody():
    allocator = team(3, concurrency=20)
    for _ in range(4):
        widths = [beat(allocator, n, report(waiting=9, per_second=1))[0].width for n in range(3)]
    assert sorted(widths) == [6, 7, 7]


def test_slots_given_back_are_free_only_once_their_calls_have_landed():
    allocator = team(2, concurrency=10)
    alone, _ = beat(allocator, 0, report(waiting=99, per_second=5))
    beat(allocator, 0, report(waiting=99, per_second=5), in_flight=alone.width)
    for _ in range(3):
        beat(allocator, 1, report(waiting=99, per_second=5))
        mine, _ = beat(allocator, 0, report(waiting=99, in_flight=alone.width, per_second=5), 10)
    assert mine.width == 5
    other, _ = beat(allocator, 1, report(waiting=99, per_second=5))
    assert alone.width + other.width <= 10
    allocator.reported(0, report(waiting=99, in_flight=8, per_second=5))
    other, _ = beat(allocator, 1, report(waiting=99, per_second=5))
    assert other.width == 2
    beat(allocator, 0, report(waiting=99, in_flight=5, per_second=5), 5)
    other, _ = beat(allocator, 1, report(waiting=99, per_second=5))
    assert other.width == 5


def test_dollars_that_one_does_not_use_pay_the_call_of_another():
    allocator = team(2, cap=1.0)
    assert beat(allocator, 0, report(wants=0.05))[1] >= 0.05
    allocator.reported(1, report(wants=0.98))
    assert allocator.short is None
    beat(allocator, 1, report(wants=0.98))
    beat(allocator, 0, report())
    _, dollars = beat(allocator, 1, report(wants=0.98))
    assert dollars == 0.98


def test_dollars_that_went_out_before_they_could_be_given_back_are_not_free():
    allocator = team(2, cap=1.0)
    beat(allocator, 0, report(wants=0.5))
    allocator.reported(0, report())
    allocator.reported(1, report(wants=0.9))
    allocator.acknowledged(0, {}, allocator.dollars(0), Acknowledgement(0.3))
    assert allocator.free == 0.7


def test_the_budget_is_over_when_what_is_left_never_pays_the_next_call():
    allocator = team(2, cap=1.0)
    allocator.reported(0, report(spent=0.6, wants=0.5))
    allocator.reported(1, report(spent=0.1, reserved=0.2))
    assert allocator.short is None
    allocator.reported(1, report(spent=0.1))
    assert allocator.short == 0.5


def test_all_dollars_of_a_lost_worker_count_as_spent_and_those_of_one_that_left_do_not():
    allocator = team(2, cap=1.0)
    beat(allocator, 0, report(wants=0.1))
    allocator.reported(0, report(spent=0.04, reserved=0.02))
    lease = 1.0 - allocator.free
    assert abs(allocator.lost(0) - (lease - 0.06)) < HAIR
    assert abs(allocator.free - (1.0 - lease)) < HAIR
    beat(allocator, 1, report(wants=0.1))
    allocator.reported(1, report(spent=0.03))
    allocator.left(1)
    assert abs(allocator.free - (1.0 - lease - 0.03)) < HAIR
