"""Results that a frozen value keeps."""

import pickle
from dataclasses import dataclass

import pytest

from oversight.cache.memo import MAX_RESULTS, computed_once, memoized

COMPUTED: list[object] = []


@dataclass(frozen=True)
class Word:
    text: str

    @computed_once
    def length(self) -> int:
        COMPUTED.append(self.text)
        return len(self.text)

    @memoized
    def times(self, count: int, *, after: str = "") -> str:
        COMPUTED.append((count, after))
        if count < 0:
            raise ValueError(count)
        return self.text * count + after


@pytest.fixture(autouse=True)
def nothing_computed() -> None:
    COMPUTED.clear()


def test_an_attribute_is_computed_once():
    word = Word("yes")
    assert (word.length, word.length) == (3, 3)
    assert COMPUTED == ["yes"]


def test_a_method_computes_once_for_each_set_of_arguments():
    word = Word("yes")
    for _ in range(2):
        assert (word.times(1), word.times(2), word.times(2, after="!")) == (
            "yes",
            "yesyes",
            "yesyes!",
        )
    assert COMPUTED == [(1, ""), (2, ""), (2, "!")]


def test_an_equal_value_keeps_results_of_its_own_and_they_are_no_part_of_it():
    word, same = Word("yes"), Word("yes")
    assert word.times(1) == same.times(1)
    assert COMPUTED == [(1, ""), (1, "")]
    assert (word, hash(word), repr(word)) == (Word("yes"), hash(Word("yes")), "Word(text='yes')")
    assert pickle.loads(pickle.dumps(word)) == word


def test_what_raises_is_computed_again():
    for _ in range(2):
        with pytest.raises(ValueError, match="-1") as raised:
            Word("yes").times(-1)
        assert raised.value.__context__ is None
    assert len(COMPUTED) == 2


def test_no_more_than_so_many_results_are_kept():
    word = Word("yes")
    for count in range(MAX_RESULTS + 1):
        word.times(count)
    word.times(MAX_RESULTS)
    assert len(COMPUTED) == MAX_RESULTS + 1
    word.times(0)
    assert len(COMPUTED) == MAX_RESULTS + 2
