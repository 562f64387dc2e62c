"""The garbage collector is left as it was found."""

import gc

import pytest

from oversight.engine.system.garbage import YOUNG, gc_relaxed


def test_the_collector_rests_while_the_body_runs_and_is_as_it_was_afterwards():
    gc.unfreeze()  # what was frozen when the tests had been collected
    before = gc.get_threshold()
    with gc_relaxed():
        assert gc.get_threshold()[0] == YOUNG > before[0]
        assert gc.get_freeze_count()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_the_collector_is_as_it_was_after_a_fault():
    before = gc.get_threshold()
    with pytest.raises(RuntimeError), gc_relaxed():
        raise RuntimeError
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
