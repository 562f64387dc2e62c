"""The raters' journal: each task given and each answer, as events of the run.

A rater is told that an answer is saved once its event is durable. A reply that was not yet in
the store when a process was killed is made again from here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ...run.events import add_event, change_events, read_events, sync_events
from .task import Moment

PERSONS = "persons"
"""Folder of the raters' keys in a run folder, and the kind of its events."""


class TaskGiven(msgspec.Struct, frozen=True, tag_field="what", tag="given"):
    """A rater was shown a task."""

    rater: str
    task: str
    """The address of the call."""
    problem: str
    moment: Moment
    at: int
    """Seconds since 1970, for the record alone."""
    kind: str = ""
    """Kind of task, to be balanced over raters; empty if unknown. Never sent."""


class BeliefBefore(msgspec.Struct, frozen=True, tag_field="what", tag="before"):
    """A rater's belief before reading the transcript."""

    rater: str
    task: str
    probs: tuple[float, ...]
    seconds: float


class TaskAnswered(msgspec.Struct, frozen=True, tag_field="what", tag="answered"):
    rater: str
    task: str
    request: str
    """Address of the call without its draw: what several raters have in common."""
    problem: str
    order: tuple[str, ...]
    """Digests of the answers in the order in which they were shown; empty for other options."""
    posted: dict[str, str]
    """The form as it came."""
    probs: tuple[float, ...] | None
    """One per option, in the order shown; None if the task asks for none."""
    seconds: float
    """From the moment at which the task was shown, by this process, to the answer."""
    at: int


class TaskAbstained(msgspec.Struct, frozen=True, tag_field="what", tag="abstained"):
    rater: str
    task: str
    request: str
    problem: str
    why: Literal["asked", "time"]
    seconds: float
    at: int
    posted: dict[str, str] = {}
    """What the form held when the time was over: kept for the record, and in no score."""


class TaskReturned(msgspec.Struct, frozen=True, tag_field="what", tag="returned"):
    """A rater did not answer a task in time, so that another one may get it."""

    rater: str
    task: str
    at: int


class ConsentGiven(msgspec.Struct, frozen=True, tag_field="what", tag="consent"):
    rater: str
    at: int


class Withdrawn(msgspec.Struct, frozen=True, tag_field="what", tag="withdrawn"):
    """A rater withdrew, or was withdrawn: in no figure and no export from now on."""

    rater: str
    erased: bool
    """Whether what they had answered was deleted from this journal."""
    at: int


RaterEvent: TypeAlias = (
    TaskGiven
    | BeliefBefore
    | TaskAnswered
    | TaskAbstained
    | TaskReturned
    | ConsentGiven
    | Withdrawn
)
_EVENT = msgspec.json.Decoder(RaterEvent)


class RaterJournal:
    """The journal of one run. One process at a time writes it: whoever holds the run's lock."""

    def __init__(self, run: Path) -> None:
        """RunFolderError where the run cannot be written."""
        self.run = run
        sync_events(run)

    def append(self, event: RaterEvent) -> None:
        """Returns once the event is durable; RunFolderError if the disk takes no more."""
        add_event(self.run, PERSONS, event)

    def erase(self, rater: str) -> None:
        """Delete all that a rater answered, and leave that they were asked. RunFolderError."""

        def erased(told: bytes) -> bytes:
            event: RaterEvent = _EVENT.decode(told)
            return msgspec.json.encode(_erased(event) if event.rater == rater else event)

        change_events(self.run, PERSONS, erased)


def _erased(event: RaterEvent) -> RaterEvent:
    match event:
        case TaskAnswered():
            return replace(event, posted={}, probs=None, order=())
        case TaskAbstained():
            return replace(event, posted={})
        case BeliefBefore():
            return replace(event, probs=())
    return event


def read_journal(run: Path) -> Iterator[RaterEvent]:
    """Every event of a run's raters, in order; none where nobody was asked.

    RunFolderError, naming the line, for one that is no event.
    """
    return read_events(run, PERSONS, _EVENT)
