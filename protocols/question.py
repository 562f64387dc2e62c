"""What is asked (`Question`, all that any participant may see) and what is true (`Problem`)."""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

MAX_LABEL = 40
"""Characters of a label, which stands among instructions, where nobody may write at length."""

LARGEST = 1e9
"""The largest value of an answer, either way: sums and squares of larger ones could overflow."""

PLAIN = r"[^<>{}\"\x00-\x1f\x7f-\x9f\u2028\u2029]"
"""A character of what stands in a tag of ours or among instructions: no line end, of any kind."""
_PLAIN = re.compile(f"{PLAIN}*")


class Answer(Struct, frozen=True, cache_hash=True, gc=False):
    """One of the answers that may be argued for."""

    label: str
    """A capital letter or a short word; what judges and debaters call the answer."""
    text: str
    work: str = ""
    """A worked solution or other support that everybody may read; empty if there is none."""

    @property
    def whole(self) -> str:
        """Its text, and its work below."""
        return f"{self.text}\n{self.work}" if self.work else self.text


class Question(Struct, frozen=True, cache_hash=True):
    """What is asked, and the answers that there are."""

    text: str
    answers: tuple[Answer, ...]
    passage: str = ""
    """Source text that agents read and judges, as a rule, do not; empty if there is none."""
    graded: bool = False
    """Whether its answers differ in degree, so that the best of them is sought, not the truth. It
    is stated, not read off the values, since those influence no call."""
    environment: str = ""
    """What tools work on and nobody reads, such as the SQL of a database; empty for nothing."""

    def __post_init__(self) -> None:
        labels = [answer.label for answer in self.answers]
        if len(labels) < 2 or len(set(labels)) != len(labels):
            raise ValueError(f"a question needs two or more distinct answers, got {labels}")
        for label in labels:
            if not label.strip() or len(label) > MAX_LABEL or not _PLAIN.fullmatch(label):
                raise ValueError(
                    f"label: {label[:MAX_LABEL]!r} is not a capital letter or a short word; labels "
                    f"stand in prompts, and have at most {MAX_LABEL} characters, no tags and no "
                    "line ends"
                )

    def without_passage(self) -> "Question":
        return replace(self, passage="") if self.passage else self

    def place(self, side: Answer) -> int:
        """Place of `side` among the answers, from 0. ValueError if it is none of them."""
        return self.answers.index(side)

    def others(self, side: Answer) -> tuple[Answer, ...]:
        """The answers opposed to `side`, in their order. ValueError if it is none of them."""
        place = self.place(side)
        return self.answers[:place] + self.answers[place + 1 :]

    def other(self, side: Answer) -> Answer:
        """The answer opposed to `side`. ValueError unless there are exactly two."""
        if len(self.answers) != 2:
            raise ValueError(f"{len(self.answers)} answers: which one opposes ({side.label})?")
        return self.answers[1 - self.place(side)]


class Problem(Struct, frozen=True):
    """A question and the value of each answer. Agents and judges are never handed one."""

    id: str
    question: Question
    values: tuple[float, ...]
    """One for each of question.answers, in their order: +1 true, -1 false, or any grade."""
    group: str = ""
    """What a bootstrap must keep together, such as the passage that questions share; else empty."""
    flaws: tuple[str, ...] = ()
    """What was made wrong in the work of each answer, empty for a sound one; (): nothing was. Like
    the values, agents and judges never see it."""

    def __post_init__(self) -> None:
        if self.flaws and len(self.flaws) != len(self.values):
            raise ValueError(
                f"{self.id}: {len(self.flaws)} flaws for {len(self.values)} answers; an empty one "
                "for each that is sound"
            )
        if len(self.values) != len(self.question.answers):
            raise ValueError(
                f"{self.id}: {len(self.values)} values for {len(self.question.answers)} answers"
            )
        if not all(abs(value) <= LARGEST for value in self.values):
            raise ValueError(
                f"{self.id}: values {self.values} are not all between -{LARGEST:g} and {LARGEST:g}"
            )
        if max(self.values) == min(self.values):
            raise ValueError(
                f"{self.id}: all answers have the value {self.values[0]:g}; none is better"
            )

    @property
    def best(self) -> int:
        """Place of the most valuable answer, from 0; of the first, if several tie."""
        return self.values.index(max(self.values))


def is_graded(values: Sequence[float]) -> bool:
    """Whether answers of these values differ in degree: not one that is right, worth more than 0,
    and others that are all as wrong, worth 0 or less."""
    *wrong, second, best = sorted(values)
    return best <= 0 or second > 0 or any(value != second for value in wrong)


class Unordered(Problem, frozen=True):
    """A problem whose answers stand in the order in which they were found: `balanced` draws one."""


def labelled(
    id: str,
    text: str,
    answers: Sequence[tuple[str, str, float]],
    *,
    seed: int | None = 0,
    passage: str = "",
    group: str = "",
    graded: bool = False,
    flaws: Sequence[str] = (),
    environment: str = "",
) -> Problem:
    """A problem whose answers are put in a seeded order and called A, B, C …

    answers: (text, work, value) of each; flaws: as in `Problem`, in their order. The seeded order
    depends on (seed, id) alone, so that no label tells the truth. With None it is left to
    `balanced`, which draws those of many problems together.
    """
    named = tuple(
        Answer(label, text, work) for label, (text, work, _) in zip(LABELS, answers, strict=False)
    )
    values = tuple(value for _, _, value in answers)
    question = Question(text, named, passage, graded, environment)
    problem = Unordered(id, question, values, group, tuple(flaws))
    if seed is None:
        return problem
    order = list(range(len(answers)))
    randomness(seed, id, "labels").shuffle(order)
    return _ordered(problem, order)


def balanced(problems: Iterable[Problem], seed: int = 0) -> Iterator[Problem]:
    """The problems, those that are `Unordered` in an order drawn by the seed: of each k in turn
    that have k answers, the best stands in each place once, so that no label is right more often.

    The order of the others is drawn from (seed, id). Later problems change no earlier one.
    """
    seen = Counter[int]()
    for problem in problems:
        if not isinstance(problem, Unordered):
            yield problem
            continue
        answers = len(problem.values)
        turn, place = divmod(seen[answers], answers)
        seen[answers] += 1
        places = list(range(answers))
        randomness(seed, f"{turn} of {answers}", "places").shuffle(places)
        order = [n for n in range(answers) if n != problem.best]
        randomness(seed, problem.id, "labels").shuffle(order)
        order.insert(places[place], problem.best)
        yield _ordered(problem, order)


def lettered(problems: Iterable[Problem], seed: int = 0) -> Iterator[Problem]:
    """The problems, those that are `Unordered` in an order that each answer's text, its question
    and the seed decide: other problems, and the place in a file, change no letter."""
    for problem in problems:
        if not isinstance(problem, Unordered):
            yield problem
            continue
        question = problem.question
        about = f"{question.text}\0{question.passage}"
        ranks = [
            randomness(seed, f"{about}\0{answer.whole}", "letters").random()
            for answer in question.answers
        ]
        yield _ordered(problem, sorted(range(len(ranks)), key=ranks.__getitem__))


def _ordered(problem: Problem, order: Sequence[int]) -> Problem:
    """The problem with its answers in this order of their places, called A, B, C …"""
    question = problem.question
    named = tuple(
        replace(question.answers[place], label=label)
        for label, place in zip(LABELS, order, strict=False)
    )
    values = tuple(problem.values[place] for place in order)
    planted = tuple(problem.flaws[place] for place in order) if problem.flaws else ()
    return Problem(problem.id, replace(question, answers=named), values, problem.group, planted)


def randomness(seed: int, id: str, purpose: str) -> random.Random:
    """The generator for one purpose on one id: the same in every process and on every machine."""
    digest = hashlib.sha256(f"{seed}\0{id}\0{purpose}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))
