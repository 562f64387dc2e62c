"""The raters of a run, the secret keys of their links, and their journal.

The journal holds each task given and each answer, as events of the run. A rater's history follows
from it. A rater reads that an answer is saved once its event is durable. A reply that was not yet
in the store when a process was killed is made again from the journal."""

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
"""Prefix of the names of models that are people."""
PERSONS = "persons"
"""Folder of the raters' keys in a run folder, and the kind of its events."""


@dataclass(frozen=True, slots=True)
class Rater:
    name: str
    """Pseudonym: the panel and a number. Nothing else about a person is stored."""
    panel: str
    """NAME of `person/NAME`, whose calls this rater answers."""
    key: str = field(repr=False)
    """Secret key of this rater's link."""

    def ticket(self, task: str) -> str:
        """The name of a task on this rater's pages. Only the server can make one."""
        return short_digest(f"{self.key} {task}")


def panels_of(models: Iterable[str]) -> tuple[str, ...]:
    """The names of the panels among a sweep's models, in their order."""
    return tuple(
        model.removeprefix(PERSON)
        for model in models
        if model.startswith(PERSON) and entry(provider_of(model)).origin == "person"
    )


def seated_raters(folder: Path, panels: Iterable[str], count: int) -> tuple[Rater, ...]:
    """`count` raters of each panel, and all raters that the folder already has, whose links stay
    valid. New raters are saved. RunFolderError."""
    raters = {rater.name: rater for rater in read_raters(folder)}
    for panel in panels:
        for number in range(1, count + 1):
            name = f"{panel}-{number}"
            raters.setdefault(name, Rater(name, panel, secrets.token_urlsafe(18)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    seated = tuple(raters.values())
    listed = orjson.dumps(seated, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    # Private: with a key, others can answer as the rater.
    replace_file(folder / PANEL, [listed], mode=0o600)
    return seated


def read_raters(folder: Path) -> tuple[Rater, ...]:
    """The raters in a `persons` folder; empty if it has no panel. RunFolderError."""
    file = folder / PANEL
    try:
        return tuple(Rater(**fields) for fields in orjson.loads(read_bounded(file)))
    except FileNotFoundError:
        return ()
    except (orjson.JSONDecodeError, TypeError) as exc:
        raise RunFolderError(f"{file}: not a list of raters ({exc}); restore a backup") from exc


class JudgedTranscript(msgspec.Struct, frozen=True):
    """The transcript of a finished run that a task is about. None of it is sent to a rater."""

    row: str
    judge: str
    """The judge of the run."""
    problem: str
    """Id of the problem."""
    side: str
    """Label of the argued answer."""
    probs: tuple[float, ...]
    """That judge's verdict, in the order of the problem's answers."""


class TaskGiven(msgspec.Struct, frozen=True, tag_field="what", tag="given"):
    """A rater was shown a task. An earlier holder had left it unanswered for too long."""

    rater: str
    task: str
    """The address of the call."""
    request: str
    """Address of the call without its draw, which is the same for several raters."""
    problem: str
    order: tuple[str, ...]
    """Digests of the answers in the order shown; empty if the options are not answers."""
    moment: Moment
    at: int
    """Seconds since 1970."""
    transcript: JudgedTranscript | None = None
    """None in a sweep with people in its roles."""


class BeliefBefore(msgspec.Struct, frozen=True, tag_field="what", tag="before"):
    """A rater's belief before reading the transcript."""

    rater: str
    task: str
    probs: tuple[float, ...]
    seconds: float


class TaskAnswered(msgspec.Struct, frozen=True, tag_field="what", tag="answered"):
    rater: str
    task: str
    posted: dict[str, str] | None
    """The form as it came; None for an abstention."""
    probs: tuple[float, ...] | None
    """One per option, in the order shown; None if the task asks for none."""
    seconds: float
    """From when this process first showed the task to the answer."""
    at: int


class ConsentGiven(msgspec.Struct, frozen=True, tag_field="what", tag="consent"):
    rater: str
    at: int


class Withdrawn(msgspec.Struct, frozen=True, tag_field="what", tag="withdrawn"):
    """A rater withdrew, or was withdrawn, from every figure and export."""

    rater: str
    erased: bool
    """Whether the answers were deleted from this journal."""
    at: int


RaterEvent: TypeAlias = TaskGiven | BeliefBefore | TaskAnswered | ConsentGiven | Withdrawn
_EVENT = msgspec.json.Decoder(RaterEvent)
_ERASED: dict[type, dict[str, object]] = {
    TaskAnswered: {"posted": {}, "probs": None},
    BeliefBefore: {"probs": ()},
}
"""By event, the values that replace a rater's words once they are erased."""


def note(run: Path, event: RaterEvent) -> None:
    """Add an event, which is durable when this returns; RunFolderError if the disk is full. Only
    the process with the lock of the run's `persons` folder may add one."""
    add_event(run, PERSONS, event)


def erase(run: Path, rater: str) -> None:
    """Delete all answers of a rater; that the rater was asked stays. RunFolderError."""

    def erased(line: bytes) -> bytes:
        event: RaterEvent = _EVENT.decode(line)
        says = event.rater == rater and getattr(event, "posted", "") is not None
        return msgspec.json.encode(replace(event, **_ERASED.get(type(event), {}) if says else {}))

    change_events(run, PERSONS, erased)


def read_journal(run: Path) -> Iterator[RaterEvent]:
    """Every event of a run's raters, in order. RunFolderError, naming the line, for any other."""
    return read_events(run, PERSONS, _EVENT)


@dataclass
class RaterHistory:
    """The history of one rater."""

    rater: Rater
    moments: dict[str, list[Moment]] = field(default_factory=dict)
    """By problem."""
    tickets: dict[str, str] = field(default_factory=dict)
    """Ticket -> task."""
    answers: dict[str, Mapping[str, str] | None] = field(default_factory=dict)
    """Task -> form sent; None for an abstention."""
    before: set[str] = field(default_factory=set)
    """Tasks with a belief before the transcript."""
    returned: set[str] = field(default_factory=set)
    """Tasks that were unanswered for too long, and went to another rater."""
    consented: bool = False
    withdrawn: bool = False


class RaterHistories:
    """The histories of all raters."""

    def __init__(self, raters: Iterable[Rater]) -> None:
        self.of = {rater.name: RaterHistory(rater) for rater in raters}
        self.holder: dict[str, str] = {}
        """Task -> the rater who has it and has not answered yet."""
        self.settled: dict[str, TaskAnswered] = {}

    def note(self, event: RaterEvent) -> None:
        """Apply an event, in the order of the journal. Events of unknown raters are ignored."""
        history = self.of.get(event.rater)
        if history is None:
            return
        match event:
            case ConsentGiven():
                history.consented = True
            case TaskGiven():
                history.tickets[history.rater.ticket(event.task)] = event.task
                history.returned.discard(event.task)
                before = self.holder.get(event.task, event.rater)
                if before != event.rater:
                    self.of[before].returned.add(event.task)
                self.holder[event.task] = event.rater
                history.moments.setdefault(event.problem, []).append(event.moment)
            case BeliefBefore():
                history.before.add(event.task)
            case Withdrawn():
                history.withdrawn = True
                self.holder = {t: name for t, name in self.holder.items() if name != event.rater}
                if event.erased:
                    # Another rater may answer these tasks.
                    self.settled = {t: e for t, e in self.settled.items() if e.rater != event.rater}
            case TaskAnswered():
                history.answers[event.task] = event.posted
                self.settled[event.task] = event
                self.holder.pop(event.task, None)
