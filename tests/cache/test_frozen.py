"""A class with `fast_init` behaves as the frozen dataclass that it is."""

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from oversight.cache.call import Call, Message, Request
from oversight.cache.frozen import fast_init
from oversight.protocols.transcript import Judgement, Transcript, Turn, Verdict


def declared():
    @dataclass(frozen=True)
    class Value:
        first: int
        second: str = "x"
        third: tuple[int, ...] = ()

        def __post_init__(self) -> None:
            if self.first < 0:
                raise ValueError("below 0")
            object.__setattr__(self, "second", self.second.upper())

    return Value


Slow, Fast = declared(), fast_init(declared())


@pytest.mark.parametrize(
    "given", [((1,), {}), ((1, "y"), {"third": (2,)}), ((), {"first": 3}), ((1, "y", (4,)), {})]
)
def test_it_takes_and_holds_what_the_plain_class_does(given):
    args, named = given
    slow, fast = Slow(*args, **named), Fast(*args, **named)
    assert [getattr(fast, each.name) for each in fields(Fast)] == [
        getattr(slow, each.name) for each in fields(Slow)
    ]
    assert fast == Fast(*args, **named) and hash(fast) == hash(slow)
    assert replace(fast, first=9) != fast and replace(fast, first=fast.first) == fast


@pytest.mark.parametrize(
    "given", [((), {}), ((1, 2, 3, 4), {}), ((1,), {"fourth": 4}), ((-1,), {})]
)
def test_it_refuses_what_the_plain_class_refuses(given):
    args, named = given
    faults = []
    for kind in (Slow, Fast):
        with pytest.raises((TypeError, ValueError)) as caught:
            kind(*args, **named)
        faults.append((caught.type, str(caught.value)))
    assert faults[0] == faults[1]


@pytest.mark.parametrize("kind", [Message, Request, Call, Turn, Transcript, Judgement, Verdict])
def test_the_values_of_a_call_stay_frozen_and_keep_their_signatures(kind):
    parameters = inspect.signature(kind).parameters
    made = kind(*["x" for each in parameters.values() if each.default is each.empty])
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(kind)[0].name, None)
    assert pickle.loads(pickle.dumps(made)) == made
    assert [*parameters] == [each.name for each in fields(kind)]
    assert not any(each.annotation is each.empty for each in parameters.values())


def test_a_class_that_it_cannot_serve_is_refused():
    @dataclass(frozen=True, slots=True)
    class Slotted:
        value: int

    @dataclass(frozen=True)
    class Made:
        value: list[int] = field(default_factory=list)

    @dataclass(frozen=True, kw_only=True)
    class Named:
        value: int

    for kind in (Slotted, Made, Named):
        with pytest.raises(TypeError, match=kind.__name__):
            fast_init(kind)
