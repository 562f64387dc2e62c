"""Questions, which any participant may see, and problems, which add the true values."""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

MAX_LABEL = 40
"""Maximum characters of a label. Labels appear among instructions, where long texts are unsafe."""

LARGEST = 1e9
"""Maximum absolute value of an answer: sums and squares of larger values could overflow."""

PLAIN = r"[^<>{}\"\x00-\x1f\x7f-\x9f\u2028\u2029]"
"""A character allowed in our tags and among instructions: no line end of any kind."""
_PLAIN = re.compile(f"{PLAIN}*")


def is_label(text: str) -> bool:
    """Whether a text is short and plain enough to be a name among instructions."""
    return bool(text.strip()) and len(text) <= MAX_LABEL and bool(_PLAIN.fullmatch(text))


class Answer(Struct, frozen=True, cache_hash=True, gc=False):
    """An answer that may be argued for."""

    label: str
    """The name of the answer in prompts: a capital letter or a short word."""
    text: str
    work: str = ""
    """A worked solution or other support that everybody may read. Empty if absent."""

    @property
    def whole(self) -> str:
        """The text, followed by the work on a new line."""
        return f"{self.text}\n{self.work}" if self.work else self.text


class Question(Struct, frozen=True, cache_hash=True):
    """A question and its answers."""

    text: str
    answers: tuple[Answer, ...]
    passage: str = ""
    """Source text that agents read; judges usually do not. Empty if absent."""
    graded: bool = False
    """Whether answers differ in degree, so that participants look for the best answer, not the true
    one. It is stated here, since the values must not influence calls."""
    environment: str = ""
    """Data for tools that nobody reads, such as the SQL of a database. Empty if absent."""

    def __post_init__(self) -> None:
        labels = [answer.label for answer in self.answers]
        if len(labels) < 2 or len(set(labels)) != len(labels):
            raise ValueError(f"a question needs two or more distinct answers, got {labels}")
        for label in labels:
            if not is_label(label):
                raise ValueError(
                    f"label: {label[:MAX_LABEL]!r} is not a capital letter or a short word; labels "
                    f"stand in prompts, and have at most {MAX_LABEL} characters, no tags and no "
                    "line ends"
                )

    def without_passage(self) -> "Question":
        return replace(self, passage="") if self.passage else self

    def place(self, side: Answer) -> int:
        """Index of `side` among the answers, from 0. ValueError if absent."""
        return self.answers.index(side)

    def others(self, side: Answer) -> tuple[Answer, ...]:
        """The answers opposed to `side`, in their order. ValueError if `side` is absent."""
        index = self.place(side)
        return self.answers[:index] + self.answers[index + 1 :]

    def other(self, side: Answer) -> Answer:
        """The answer opposed to `side`. ValueError unless there are exactly two."""
        if len(self.answers) != 2:
            raise ValueError(f"{len(self.answers)} answers: which one opposes ({side.label})?")
        return self.answers[1 - self.place(side)]


class Problem(Struct, frozen=True):
    """A question and the value of each answer. Agents and judges never receive it."""

    id: str
    question: Question
    values: tuple[float, ...]
    """One for each of question.answers, in their order: +1 true, -1 false, or any grade."""
    group: str = ""
    """Questions of one group are resampled together, for example those about one passage."""
    flaws: tuple[str, ...] = ()
    """The planted error in the work of each answer, empty for an intact one. (): none planted.
    Agents and judges never see them."""

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
        """Index of the most valuable answer, from 0; of the first if several tie."""
        return self.values.index(max(self.values))


def is_graded(values: Sequence[float]) -> bool:
    """Whether answers with these values differ in degree. They do not if exactly one is above 0 and
    all others share one value of 0 or less."""
    *wrong, second, best = sorted(values)
    return best <= 0 or second > 0 or any(value != second for value in wrong)


class Unordered(Problem, frozen=True):
    """A problem whose answers are in source order. `balanced` gives them a random order."""


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
    """A problem with its answers in a seeded order, labelled A, B, C …

    answers: (text, work, value) of each. flaws: as in `Problem`, in the same order. The order
    depends only on (seed, id), so that no label reveals the truth. With seed None, `balanced`
    chooses the order, for many problems together."""
    labelled_answers = tuple(
        Answer(label, text, work) for label, (text, work, _) in zip(LABELS, answers, strict=False)
    )
    values = tuple(value for _, _, value in answers)
    question = Question(text, labelled_answers, passage, graded, environment)
    problem = Unordered(id, question, values, group, tuple(flaws))
    if seed is None:
        return problem
    order = list(range(len(answers)))
    randomness(seed, id, "labels").shuffle(order)
    return _ordered(problem, order)


def balanced(problems: Iterable[Problem], seed: int = 0) -> Iterator[Problem]:
    """Give each `Unordered` problem a seeded order of answers; pass on other problems unchanged.

    Among k successive problems with k answers, the best answer takes each position once, so that
    no label is right more often. The order of the other answers depends on (seed, id). Later
    problems do not change earlier ones."""
    counts = Counter[int]()
    for problem in problems:
        if not isinstance(problem, Unordered):
            yield problem
            continue
        answers = len(problem.values)
        block, index = divmod(counts[answers], answers)
        counts[answers] += 1
        positions = list(range(answers))
        randomness(seed, f"{block} of {answers}", "places").shuffle(positions)
        order = [n for n in range(answers) if n != problem.best]
        randomness(seed, problem.id, "labels").shuffle(order)
        order.insert(positions[index], problem.best)
        yield _ordered(problem, order)


def lettered(problems: Iterable[Problem], seed: int = 0) -> Iterator[Problem]:
    """Give each `Unordered` problem a seeded order of answers, as `balanced` does, but from the
    texts of the question and its answers alone: other problems and ids change no letter."""
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
    """The problem with its answers in this order of indices, labelled A, B, C …"""
    question = problem.question
    answers = tuple(
        replace(question.answers[index], label=label)
        for label, index in zip(LABELS, order, strict=False)
    )
    values = tuple(problem.values[index] for index in order)
    flaws = tuple(problem.flaws[index] for index in order) if problem.flaws else ()
    return Problem(problem.id, replace(question, answers=answers), values, problem.group, flaws)


def randomness(seed: int, id: str, purpose: str) -> random.Random:
    """A random generator for one purpose and id, equal on every machine."""
    digest = hashlib.sha256(f"{seed}\0{id}\0{purpose}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))
