"""What `oversight try` is given: a class of an author's, and the sweep in which it is tried."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from ....protocols.agents.agent import Speaker
from ....protocols.agents.tool import Tool
from ....protocols.datasets.loader import Loader
from ....protocols.judges.judge import Judge
from ....protocols.protocol import Protocol
from ....protocols.spelling import meant
from ...errors import UsageError
from ...sweep.document import Document, is_elsewhere
from ...sweep.node import required_of
from ...sweep.own_code import module_from_file
from ...sweep.sweepfile import SECTIONS, SweepFile, checked_sweep
from .author import AuthorCode, Mistake, line_in

AGENT, JUDGE = "sim/strong", "sim/judge"
"""The models of a trial: a call's model tells who is asked."""

Seat: TypeAlias = dict[str, Any]
"""The settings of an agent or a judge in a sweep file."""

PROBLEMS = {"bundled": {"name": "passages", "limit": 1}}
"""The problems of a trial: one with a passage, which most judges may not read."""


@dataclass(frozen=True)
class Kind:
    """What an author may write, and where it stands in a sweep."""

    name: str
    base: type
    methods: tuple[str, ...]
    """Names of the methods that an author writes; a bad result is traced to their last line."""
    sections: Callable[[str, dict[str, Any], Seat, Seat], dict[str, Any]]
    """The sweep that tries it, from its name, its settings, an agent and a judge."""


def _protocol(word: str, its: dict[str, Any], agent: Seat, judge: Seat) -> dict[str, Any]:
    return {"agents": agent, "judges": judge, "protocols": {word: its}}


def _judge(word: str, its: dict[str, Any], agent: Seat, judge: Seat) -> dict[str, Any]:
    protocols = ["propaganda", "naive_judge"]
    return {"agents": agent, "judges": {"kind": word, **its}, "protocols": protocols}


def _agent(word: str, its: dict[str, Any], agent: Seat, judge: Seat) -> dict[str, Any]:
    protocols = ["propaganda", {"consultancy": {"turns": 2}}]
    return {"agents": {"kind": word, **its}, "judges": judge, "protocols": protocols}


def _data_set(word: str, its: dict[str, Any], agent: Seat, judge: Seat) -> dict[str, Any]:
    return {**_protocol("propaganda", {}, agent, judge), "problems": {word: its}}


KINDS = (
    Kind("protocol", Protocol, ("converse", "play"), _protocol),
    Kind("judge", Judge, ("decide", "elicit"), _judge),
    Kind("agent", Speaker, ("speak",), _agent),
    Kind("data set", Loader, ("load",), _data_set),
)


@dataclass(frozen=True)
class Subject:
    """A class of an author's, and how a sweep names it."""

    word: str
    code: AuthorCode
    kind: Kind

    def sweep(self, overrides: Sequence[str] = ()) -> SweepFile:
        """The sweep that tries it. overrides: `SETTING=VALUE` of the class, or of the sweep with a
        section's name before it. UsageError for settings that do not fit."""
        seats = {"agent": {"model": AGENT}, "judge": {"model": JUDGE}}
        filled = {"model": JUDGE if self.kind.base is Judge else AGENT, "member": seats["judge"]}
        found: type[Any] = self.code.found
        needed = required_of(found) if is_dataclass(found) else ()
        its = {name: value for name, value in {**filled, **seats}.items() if name in needed}
        if self.kind.base is Protocol:
            its = {name: each for name, each in its.items() if name not in seats}
        sections = self.kind.sections(self.word, its, seats["agent"], seats["judge"])
        named = any(override.lstrip().startswith("problems.") for override in overrides)
        problems = {} if named and self.kind.base is not Loader else PROBLEMS
        text = orjson.dumps({"name": "trial", "problems": problems, **sections}).decode()
        document = Document.parse(text, f"oversight try {self.word}")
        document.folder = Path()
        for override in overrides:
            document.set(override if _is_whole(override) else f"{self._place}.{override}")
        return checked_sweep(document, Path("trial.yaml"))

    @property
    def _place(self) -> str:
        if self.kind.base in (Judge, Speaker):
            return f"{self.kind.name}s"
        return f"{'problems' if self.kind.base is Loader else 'protocols'}.{self.word}"


def _is_whole(override: str) -> bool:
    return override.partition("=")[0].partition(".")[0].strip() in (*SECTIONS, "seed", "draws")


def subject_named(word: str) -> tuple[Subject | Tool | None, list[Mistake]]:
    """The class or the tool of this name, `FILE:NAME` or `MODULE:NAME`; or what is wrong with its
    code. UsageError if there is no such file or module."""
    place, _, name = word.rpartition(":")
    if not is_elsewhere(word):
        raise UsageError(f"{word!r} names no class; write it as my_file.py:MyClass")
    file = Path(place)
    by_file = place.endswith(".py")
    if by_file and not file.is_file():
        raise UsageError(f"{place}: no such file")
    try:
        spec = None if by_file else importlib.util.find_spec(place)
    except ModuleNotFoundError:
        spec = None  # of the package that it would be in
    if not by_file and (spec is None or spec.origin is None):
        raise UsageError(f"{place}: no such module; install its package in {sys.prefix}")
    path = str(spec.origin if spec else file.resolve())
    try:
        module = module_from_file(Path(path)) if by_file else importlib.import_module(place)
    except Exception as exc:
        said = exc.msg if isinstance(exc, SyntaxError) else exc
        return None, [Mistake(line_in(path, exc), "imported", f"{type(exc).__name__}: {said}")]
    found = getattr(module, name, None)
    classes = [
        each
        for each, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    if found is None:
        hint = meant(name, classes) or f"; classes in it: {', '.join(classes) or 'none'}"
        raise UsageError(f"{place} has no {name!r}{hint}")
    if isinstance(found, Tool):
        return found, []
    if not isinstance(found, type):
        raise UsageError(f"{word} is {found!r:.60}, and no class")
    code = AuthorCode(found, inspect.getsourcefile(found) or path)
    kind = next((kind for kind in KINDS if issubclass(found, kind.base)), None)
    if kind is None:
        roles = ", ".join(f"{kind.base.__name__} ({kind.name})" for kind in KINDS)
        why = f"{name} inherits from none of {roles}; a protocol is a Conversation as a rule"
        return None, [Mistake(code.line, "complete", why)]
    return Subject(word, code, kind), list(code.faults_of_class(kind.base))
