"""Attention items and repeats between a rater's tasks; their answers reach no store.

The transcript of an attention item says which answer to give: an instructed response (Meade and
Craig 2012, Psychological Methods 17). Who reads it knows what to answer; who does not can only
guess.
"""

from collections import defaultdict, deque

from ...cache.call import Call
from ...protocols.judges import DistributionJudge
from ...protocols.judges.case import Case
from ...protocols.question import Answer, Question, randomness
from ...protocols.transcript import Transcript, Turn
from .history import RaterHistory
from .journal import CheckAnswered, RepeatAnswered
from .panel import PERSON
from .task import PersonAnswer, PersonTask

MIN_BETWEEN = 10
"""Number of answers to other tasks between a judgement and its repeat."""

REPEAT = 1_000_000
"""Last index of the draw of a repeat: no study asks so many raters about one transcript."""

PASSED = 0.8
"""Least probability of the label asked for with which a rater passes; 0.9 is what is asked."""

_QUESTION = Question(
    "Which answer does the speaker below ask for?",
    (Answer("A", "The first of the two."), Answer("B", "The second of the two.")),
)
_OPENINGS = (
    "Before we go on, one thing about this study.",
    "This turn is not about the question that you may expect.",
    "Transcripts can be long, and it is easy to skip one.",
    "Please read on to the end of this turn.",
)


class InsertedItems:
    """Which items come between the tasks of each rater, and what their answers mean."""

    def __init__(self, seed: int, checks_every: int, repeats: float) -> None:
        """checks_every: one attention item in so many answers; 0: none. repeats: share of a rater's
        judgements that are asked for a second time."""
        self._seed = seed
        self._checks_every = checks_every
        self._repeats = repeats
        self._checks: dict[str, tuple[PersonTask, int]] = {}
        """By address; with the place of the label that is asked for."""
        self._again: dict[str, tuple[PersonTask, str]] = {}
        """By address; with the address of the task that is repeated."""
        self._pending: defaultdict[str, deque[tuple[int, str]]] = defaultdict(deque)
        """By rater: after how many answers, and which of `_again`."""

    def due(self, history: RaterHistory, busy: bool) -> PersonTask | None:
        """The item that the rater gets in place of a task. busy: whether any task waits: an
        attention item comes between tasks alone."""
        if busy and (check := self._check_due(history)) is not None:
            return check
        pending = self._pending[history.rater.name]
        if pending and history.answers - pending[0][0] >= MIN_BETWEEN:
            return self._again[pending[0][1]][0]
        return None

    def find(self, history: RaterHistory, address: str) -> PersonTask | None:
        """The item at an address; None for what is none."""
        if address not in self._checks:
            # It may be from before a restart.
            self._check_due(history)
        check, again = self._checks.get(address), self._again.get(address)
        return check[0] if check else again[0] if again else None

    def repeated(self, address: str) -> str:
        """The task that the one at an address repeats; empty for none."""
        return self._again[address][1] if address in self._again else ""

    def answered(
        self,
        rater: str,
        address: str,
        answer: PersonAnswer | None,
        seconds: float,
        now: int,
    ) -> CheckAnswered | RepeatAnswered:
        """The event of an answer; None for an abstention."""
        probs = answer.probs if answer else None
        if address in self._checks:
            wanted = self._checks[address][1]
            passed = probs is not None and probs[wanted] >= PASSED
            return CheckAnswered(rater, address, passed, seconds, now)
        self._pending[rater].popleft()
        return RepeatAnswered(rater, address, self._again[address][1], probs, seconds, now)

    def plan_repeat(self, history: RaterHistory, task: PersonTask) -> None:
        """Have a judgement that was just given asked for again later, if chance will have it.

        What is planned is not kept: a process that is started again repeats what it was told of
        itself.
        """
        rater, address = history.rater.name, task.call.address
        chance = randomness(self._seed, f"{rater} {address}", "repeat").random()
        if task.is_probable and chance < self._repeats:
            again = PersonTask(Call(task.call.request, (*task.call.draw, REPEAT)))
            self._again[again.call.address] = again, address
            self._pending[rater].append((history.answers, again.call.address))

    def _check_due(self, history: RaterHistory) -> PersonTask | None:
        if not self._checks_every:
            return None
        rater, number = history.rater, history.checks
        chance = randomness(self._seed, f"{rater.name} {number}", "attention place")
        due_after = number * self._checks_every + chance.randrange(1, self._checks_every + 1)
        if history.answers < due_after:
            return None
        made = _attention_task(f"{PERSON}{rater.panel}", self._seed, rater.name, number)
        self._checks[made[0].call.address] = made
        return made[0]


def _attention_task(model: str, seed: int, rater: str, number: int) -> tuple[PersonTask, int]:
    """The attention item `number` of a rater, and the place of the label that it asks for."""
    chance = randomness(seed, f"{rater} {number}", "attention")
    place, opening = chance.randrange(2), chance.choice(_OPENINGS)
    label = _QUESTION.answers[place].label
    said = f"{opening} To show that you have read this, give ({label}) 90 % or more."
    judge = DistributionJudge(model)
    floor = Transcript(_QUESTION).then(Turn("Speaker", said))
    call = judge.compose(judge.shown(Case(floor), range(2)))
    return PersonTask(Call(call.request, (number,))), place
