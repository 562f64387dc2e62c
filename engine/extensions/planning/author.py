"""What `oversight try` is given: an author's code, the sweep in which it is tried, what is wrong
before it runs, and which line is behind a fault."""

import ast
import importlib
import importlib.util
import inspect
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import orjson

from ....protocols.agents.agent import Speaker
from ....protocols.datasets.loader import Loader
from ....protocols.judges.judge import Judge
from ....protocols.protocol import Protocol
from ....protocols.settings import unknown
from ...errors import UsageError
from ...sweep.code import module_at
from ...sweep.document import Document, is_elsewhere, required_of
from ...sweep.sweepfile import SECTIONS, SweepFile, checked_sweep

MUTABLE = re.compile(r"(typing\.)?(list|dict|set|List|Dict|Set)\b")
"""Annotations of mutable types."""

Method = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class Mistake:
    """Something wrong with an author's code, and where."""

    line: int
    """Line number, from 1; 0 where no line of the author's is behind it."""
    check: str
    """Name of the check: `awaited`, `composed`, `leak`, …"""
    message: str


@dataclass
class AuthorCode:
    """One class of an author's, in the file that defines it."""

    found: type[Any]
    path: str

    @cached_property
    def source(self) -> str:
        lines = linecache.getlines(self.path)
        return "".join(lines) or Path(self.path).read_text(encoding="utf-8", errors="replace")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def node(self) -> ast.ClassDef | None:
        """The definition; None if it is not in this file."""
        defined = (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))
        return next((node for node in defined if node.name == self.found.__name__), None)

    @property
    def line(self) -> int:
        """Line number of the class, from 1; 0 if it is not known."""
        return self.node.lineno if self.node else 0

    @cached_property
    def methods(self) -> dict[str, Method]:
        """Those that the class defines itself, by name."""
        body = self.node.body if self.node else ()
        return {node.name: node for node in body if isinstance(node, Method)}

    def line_of_method(self, *names: str) -> int:
        """Line number of the first of these methods that the class defines; else of the class."""
        lines = (self.methods[name].lineno for name in names if name in self.methods)
        return next(lines, self.line)

    def line_of_end(self, *names: str) -> int:
        """Last line of the first of these methods that the class defines; else of the class."""
        last = next((self.methods[name].body[-1] for name in names if name in self.methods), None)
        if last is None:
            return self.line
        returns = [node.lineno for node in ast.walk(last) if isinstance(node, ast.Return)]
        return max(returns, default=last.lineno)

    def line_of_frame(self, frame: FrameType | None) -> int:
        """The line of this file that is being executed beneath a frame, or 0."""
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

    def line_of_template(self, name: str, read: str) -> int:
        """The line of a placeholder's name in the first text of `read` that has it, or 0."""
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Constant) or name not in str(node.value):
                continue
            if all(part in read for part in re.split(r"\{[^{}]*\}", str(node.value))):
                lines = self.source.splitlines()[node.lineno - 1 : node.end_lineno]
                return node.lineno + next((n for n, text in enumerate(lines) if name in text), 0)
        return 0

    def line_that_catches_all(self) -> int:
        """The first `except` that catches every Exception, or 0."""
        broad = ("Exception", "BaseException")
        lines = [
            node.lineno
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ExceptHandler)
            and (node.type is None or any(name in ast.unparse(node.type) for name in broad))
        ]
        return min(lines, default=0)

    def faults_of_class(self, base: type) -> Iterator[Mistake]:
        """Faults of a class that can be seen before it is used, compared with its base class."""
        name, params = self.found.__name__, vars(self.found).get("__dataclass_params__")
        if params is None or not params.frozen:
            why = (
                f"{name} is not a frozen dataclass, so its settings have no identity: write "
                "@dataclass(frozen=True) above the class"
            )
            yield Mistake(self.line, "identity", why)
        for missing in sorted(getattr(self.found, "__abstractmethods__", ())):
            strange = [method for method in self.methods if not hasattr(base, method)]
            near = get_close_matches(missing, strange, 1, 0.6)
            yield Mistake(
                self.line_of_method(*near),
                "complete",
                f"{name} has no {missing}, which every {base.__name__} has"
                + (f"; its {near[0]} may be meant for it" if near else ""),
            )
        yield from self._signatures()
        yield from self._settings()

    def _signatures(self) -> Iterator[Mistake]:
        for name, node in self.methods.items():
            inherited = next(
                (vars(part)[name] for part in self.found.__mro__[1:] if name in vars(part)), None
            )
            function = vars(self.found)[name]
            if name.startswith("__") or not (
                inspect.isfunction(inherited) and inspect.isfunction(function)
            ):
                continue
            if inspect.iscoroutinefunction(inherited) and isinstance(node, ast.FunctionDef):
                why = f"{name} is awaited: write async def {name}, and await what it asks"
                yield Mistake(node.lineno, "awaited", why)
            needed = list(inspect.signature(inherited).parameters.values())
            places = [part for part in needed if part.kind is not part.KEYWORD_ONLY]
            keywords = {part.name: None for part in needed if part.kind is part.KEYWORD_ONLY}
            try:
                inspect.signature(function).bind(*places, **keywords)
            except TypeError as exc:
                parameter_names = ", ".join(part.name for part in needed)
                why = f"{name} is called with {parameter_names}: {exc}"
                yield Mistake(node.lineno, "called", why)

    def _settings(self) -> Iterator[Mistake]:
        inherited = {name for parent in self.found.__mro__[1:] for name in vars(parent)}
        for node in self.node.body if self.node else ():
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id not in inherited:
                        why = (
                            f"{target.id} has no type, so it is not a setting and no part of the "
                            f"row's identity: write {target.id}: … = {ast.unparse(node.value)}"
                        )
                        yield Mistake(node.lineno, "identity", why)
            if isinstance(node, ast.AnnAssign) and MUTABLE.match(ast.unparse(node.annotation)):
                why = (
                    f"{ast.unparse(node.target)} can be changed in place, so it has no identity: "
                    "a tuple has one"
                )
                yield Mistake(node.lineno, "identity", why)


def line_in(path: str, fault: BaseException | None) -> int:
    """The deepest line of a file in a traceback, or 0."""
    if isinstance(fault, SyntaxError) and fault.filename == path:
        return fault.lineno or 0
    line_number, trace = 0, fault.__traceback__ if fault is not None else None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line_number = trace.tb_lineno
        trace = trace.tb_next
    return line_number


AGENT, JUDGE = "sim/strong", "sim/judge"
"""The models of a trial: a call's model tells who is asked."""


@dataclass(frozen=True)
class Kind:
    """A kind of class that authors may write, and its place in a sweep."""

    name: str
    base: type
    methods: tuple[str, ...]
    """Names of the methods that an author writes; a bad result is traced to their last line."""
    place: str
    """Where its settings stand in a sweep file, given its name."""


KINDS = (
    Kind("protocol", Protocol, ("converse", "play"), "protocols.{}"),
    Kind("judge", Judge, ("decide", "elicit"), "judges"),
    Kind("agent", Speaker, ("speak",), "agents"),
    Kind("data set", Loader, ("load",), "problems.{}"),
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
        agent, judge = {"model": AGENT}, {"model": JUDGE}
        filled = {"model": JUDGE if self.kind.base is Judge else AGENT, "member": judge}
        if self.kind.base is not Protocol:
            filled |= {"agent": agent, "judge": judge}
        user_class: type[Any] = self.code.found
        needed = required_of(user_class) if is_dataclass(user_class) else ()
        class_settings = {name: value for name, value in filled.items() if name in needed}
        names_problems = any(override.lstrip().startswith("problems.") for override in overrides)
        # One with a passage, which most judges may not read.
        problems: Any = {} if names_problems else {"bundled": {"name": "passages", "limit": 1}}
        sections: dict[str, Any] = {"agents": agent, "judges": judge, "problems": problems}
        section_value = {"kind": self.word, **class_settings}
        match self.kind.name:
            case "protocol":
                sections |= {"protocols": {self.word: class_settings}}
            case "judge":
                sections |= {"judges": section_value, "protocols": ["propaganda", "naive_judge"]}
            case "agent":
                protocols = ["propaganda", {"consultancy": {"turns": 2}}]
                sections |= {"agents": section_value, "protocols": protocols}
            case _:
                sections |= {"problems": {self.word: class_settings}, "protocols": ["propaganda"]}
        text = orjson.dumps({"name": "trial", **sections}).decode()
        document = Document.parse(text, f"oversight try {self.word}")
        document.folder, place = Path(), self.kind.place.format(self.word)
        for override in overrides:
            section = override.partition("=")[0].partition(".")[0].strip()
            replaced = section in (*SECTIONS, "seed", "draws")
            document.set(override if replaced else f"{place}.{override}")
        return checked_sweep(document, Path("trial.yaml"))


def subject_named(word: str) -> tuple[Subject | None, list[Mistake]]:
    """The class of this name, `FILE:NAME` or `MODULE:NAME`; or what is wrong with its code.
    UsageError if the file or module is not found."""
    place, _, name = word.rpartition(":")
    if not is_elsewhere(word):
        raise UsageError(f"{word!r} names no class; write it as my_file.py:MyClass")
    file = Path(place)
    by_file = place.endswith(".py")
    if by_file and not file.is_file():
        raise UsageError(f"file not found: {place}")
    try:
        spec = None if by_file else importlib.util.find_spec(place)
    except ModuleNotFoundError:
        spec = None  # of the package that it would be in
    if not by_file and (spec is None or spec.origin is None):
        if Path(f"{place}.py").is_file():
            raise UsageError(f"unknown module {place}; a file is written as {place}.py:{name}")
        raise UsageError(f"unknown module {place}; install its package in {sys.prefix}")
    path = str(spec.origin if spec else file.resolve())
    try:
        module = module_at(path if by_file else place)
    except Exception as exc:
        reason = exc.msg if isinstance(exc, SyntaxError) else exc
        return None, [Mistake(line_in(path, exc), "imported", f"{type(exc).__name__}: {reason}")]
    user_class = getattr(module, name, None)
    classes = [
        class_name
        for class_name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    if user_class is None:
        raise UsageError(f"{place}: {unknown('class', name, classes or ['(none)'])}")
    if not isinstance(user_class, type):
        raise UsageError(f"{word} must be a class, got {user_class!r:.60}")
    code = AuthorCode(user_class, inspect.getsourcefile(user_class) or path)
    kind = next((kind for kind in KINDS if issubclass(user_class, kind.base)), None)
    if kind is None:
        roles = ", ".join(f"{kind.base.__name__} ({kind.name})" for kind in KINDS)
        why = f"{name} inherits from none of {roles}; a protocol is a Conversation as a rule"
        return None, [Mistake(code.line, "complete", why)]
    return Subject(word, code, kind), list(code.faults_of_class(kind.base))
