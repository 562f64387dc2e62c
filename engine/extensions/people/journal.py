"""The raters of a run, with the secret keys of their links, and their journal.

The journal has each task given and each answer, as events of the run; and each rater's
history, which follows from it.

A rater is told that an answer is saved once its event is durable. A reply that was not yet in
the store when a process was killed is made again from here.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec
import orjson
from msgspec.structs import replace

from ...errors import RunFolderError
from ...providers.catalogue import entry, provider_of
from ...run.events import add_event, change_events, read_events
from ...system.files import read_bounded, replace_file, unwritable
from .task import Moment, short_digest

PANEL = "panel.json"
PERSON = "person/"
"""Prefix of the names of models that are persons."""


@dataclass(frozen=True, slots=True)
class Rater:
    name: str
    """Pseudonym: the panel and a number. Nothing else about a person is stored."""
    panel: str
    """NAME of `person/NAME`, whose calls this rater answers."""
    key: str = field(repr=False)
    """Secret key of this rater's link."""

    def ticket(self, task: str) -> str:
        """What this rater's pages call a task. Only the server can make one: the key is in it."""
        return short_digest(f"{self.key} {task}")


def panels_of(models: Iterable[str]) -> tuple[str, ...]:
    """The names of the panels that a sweep's models are, in their order."""
    return tuple(
        model.removeprefix(PERSON)
        for model in models
        if model.startswith(PERSON) and entry(provider_of(model)).origin == "person"
    )


def seated_raters(folder: Path, panels: Iterable[str], count: int) -> tuple[Rater, ...]:
    """`count` raters a panel, those that the folder knows already first; what is new is kept.

    A rater whom the folder knows stays one: links that were sent go on opening. RunFolderError.
    """
    known = {rater.name: rater for rater in read_raters(folder)}
    for panel in panels:
        for number in range(1, count + 1):
            name = f"{panel}-{number}"
            known.setdefault(name, Rater(name, panel, secrets.token_urlsafe(18)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    raters = tuple(known.values())
    listed = orjson.dumps(raters, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    # Private: a key lets others answer as the rater.
    replace_file(folder / PANEL, [listed], mode=0o600)
    return raters


def read_raters(folder: Path) -> tuple[Rater, ...]:
    """The raters that a `persons` folder knows; none where there is no panel."""
    file = folder / PANEL
    try:
        return tuple(Rater(**fields) for fields in orjson.loads(read_bounded(file)))
    except FileNotFoundError:
        return ()
    except (orjson.JSONDecodeError, TypeError) as exc:
        raise RunFolderError(f"{file}: is no list of raters ({exc}); put a backup there") from exc


PERSONS = "persons"
"""Folder of the raters' keys in a run folder, and the kind of its events."""


class JudgedTranscript(msgspec.Struct, frozen=True):
    """The transcript of a finished run that a task is about. Nothing of it is sent to a rater."""

    row: str
    judge: str
    """The judge of the run."""
    problem: str
    """Id of the problem."""
    side: str
    """Label of the answer that is argued for."""
    probs: tuple[float, ...]
    """What that judge said of it, in the order of the problem's answers."""


class TaskGiven(msgspec.Struct, frozen=True, tag_field="what", tag="given"):
    """A rater was shown a task; whoever had it until then left it unanswered for too long."""

    rater: str
    task: str
    """The address of the call."""
    request: str
    """Address of the call without its draw: what several raters have in common."""
    problem: str
    order: tuple[str, ...]
    """Digests of the answers in the order in which they are shown; empty for other options."""
    moment: Moment
    at: int
    """Seconds since 1970, for the record alone."""
    transcript: JudgedTranscript | None = None
    """None in a sweep with people in its seats."""


class BeliefBefore(msgspec.Struct, frozen=True, tag_field="what", tag="before"):
    """A rater's belief before reading the transcript."""

    rater: str
    task: str
    probs: tuple[float, ...]
    seconds: float


class TaskAnswered(msgspec.Struct, frozen=True, tag_field="what", tag="answered"):
    rater: str
    task: str
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
    seconds: float
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
    TaskGiven | BeliefBefore | TaskAnswered | TaskAbstained | ConsentGiven | Withdrawn
)
_EVENT = msgspec.json.Decoder(RaterEvent)


def note(run: Path, event: RaterEvent) -> None:
    """Returns once the event is durable; RunFolderError if the disk takes no more. One process at
    a time adds to a run: whoever holds the lock of its `persons` folder."""
    add_event(run, PERSONS, event)


def erase(run: Path, rater: str) -> None:
    """Delete all that a rater answered, and leave that they were asked. RunFolderError."""

    def erased(told: bytes) -> bytes:
        event: RaterEvent = _EVENT.decode(told)
        gone = _WORDS.get(type(event), {}) if event.rater == rater else {}
        return msgspec.json.encode(replace(event, **gone))

    change_events(run, PERSONS, erased)


_WORDS: dict[type, dict[str, object]] = {
    TaskAnswered: {"posted": {}, "probs": None},
    BeliefBefore: {"probs": ()},
}
"""What a rater said, by event, and what stands in place of it once it is erased."""


def read_journal(run: Path) -> Iterator[RaterEvent]:
    """Every event of a run's raters, in order; none where nobody was asked.

    RunFolderError, naming the line, for one that is no event.
    """
    return read_events(run, PERSONS, _EVENT)


@dataclass
class RaterHistory:
    """The history of one rater."""

    rater: Rater
    seen: dict[str, list[Moment]] = field(default_factory=dict)
    """By problem."""
    given: dict[str, str] = field(default_factory=dict)
    """Ticket -> task."""
    done: dict[str, Mapping[str, str] | None] = field(default_factory=dict)
    """Task -> form sent; None for an abstention."""
    before: set[str] = field(default_factory=set)
    """Tasks with a belief before the transcript."""
    returned: set[str] = field(default_factory=set)
    """Tasks that lay unanswered for too long, and went to another rater."""
    consented: bool = False
    withdrawn: bool = False


class DeskHistory:
    """The histories of all raters."""

    def __init__(self, raters: Iterable[Rater]) -> None:
        self.of = {rater.name: RaterHistory(rater) for rater in raters}
        self.holder: dict[str, str] = {}
        """Task -> the rater who has it and has not answered yet."""
        self.settled: dict[str, TaskAnswered | TaskAbstained] = {}

    def note(self, event: RaterEvent) -> None:
        """Take an event in, in the order of the journal. Events of raters who are not at this desk
        are passed over."""
        history = self.of.get(event.rater)
        if history is None:
            return
        match event:
            case ConsentGiven():
                history.consented = True
            case TaskGiven():
                history.given[history.rater.ticket(event.task)] = event.task
                history.returned.discard(event.task)
                before = self.holder.get(event.task, event.rater)
                if before != event.rater:
                    self.of[before].returned.add(event.task)
                self.holder[event.task] = event.rater
                history.seen.setdefault(event.problem, []).append(event.moment)
            case BeliefBefore():
                history.before.add(event.task)
            case Withdrawn():
                history.withdrawn = True
                for task in [task for task, who in self.holder.items() if who == event.rater]:
                    del self.holder[task]
                if event.erased:
                    # There is no answer any more, and another rater may give one.
                    theirs = [task for task, e in self.settled.items() if e.rater == event.rater]
                    for task in theirs:
                        del self.settled[task]
            case TaskAnswered() | TaskAbstained():
                history.done[event.task] = event.posted if isinstance(event, TaskAnswered) else None
                self.settled[event.task] = event
                self.holder.pop(event.task, None)
