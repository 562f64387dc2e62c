"""The finding of `oversight dataset check`: all contents of a data set (`checking.md`)."""

from pathlib import Path

from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.extensions.datasets.checking import SizeLeak
from oversight.protocols import Answer, Problem, Question
from tests.sessions import sessions
from tests.tables import expressions

LETTERED, PARTLY = ("A. one", "B. two"), ("A. one", "B. two", "so? an")
REFERS = ("All of the above", "Ill of the abode")


def asked(k: int) -> Problem:
    """One of twelve problems whose first answer is right, and whose answers look alike otherwise.
    The questions stand twice, on two passages of one group and without a passage."""
    texts = LETTERED if k < 6 else PARTLY if k == 6 else REFERS if k == 11 else ("one", "two")
    answers = tuple(Answer("ABC"[n], text) for n, text in enumerate(texts))
    passage, group = ("One.", "g") if k % 6 == 0 else ("Two.", "g") if k % 6 == 1 else ("", "")
    question = Question(f"Which of {k % 6}?", answers, passage)
    return Problem(f"p{k}", question, (1.0, -1.0, -1.0)[: len(texts)], group)


def leaks(value: float, *ends: float) -> bool:
    """Whether a size with this area and interval leaks."""
    low, high = ends or (None, None)
    stated = None if low is None or high is None else (low, high)
    return SizeLeak("steps", Estimate(value, 9, error=0.1 if ends else None, stated=stated)).leaks


@sessions(Path(__file__).with_name("checking.md"))
def test_all_contents_of_a_data_set_are_told(session, request):
    session.check(request, expressions(names := dict(globals())), names)
