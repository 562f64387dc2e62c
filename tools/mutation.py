"""Faults that a program makes up: which of them do the tests see?

    make mutants                                    a fresh sample, by known truths
    python -m tools.mutation --seed 7               the same sample again
    python -m tools.mutation --unit                 what truths let pass faces the unit ring too
    python -m tools.mutation --in cache             of other files; --sample N: N mutants

The operators come from mutmut (https://mutmut.readthedocs.io), on every function of the files
chosen. Annotations, defaults, docstrings and raised errors, which are text for people, are not
mutated. Tests are collected and run once, to see which of them reach which function; each mutant is
then broken into a process that is forked from there, and faces those that reach it.
"""

import argparse
import gc
import inspect
import math
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Literal

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[1]
CHOSEN = (
    *("protocols/mechanisms", "protocols/judges", "protocols/drafting.py", "protocols/prompts"),
    *("protocols/doubts.py", "protocols/scores.py"),
    *("protocols/protocol.py", "protocols/seat.py", "engine/analysis"),
)
"""Files and folders that are mutated unless others are named."""

TEXT = ("operator_string",)
"""Operators that change words alone: names of rows, keys of forms, tags. Known truths are about
what comes out, so their rate is told without these as well."""

PATIENCE = 120.0
"""Seconds for the tests of one mutant; one that hangs is dead."""

OPTIONS = (
    *("-s", "-n0", "-pno:cacheprovider", "-pno:terminal", "--assert=plain", "--timeout=100"),
    *("--hypothesis-profile=mutants", "--hypothesis-seed=0"),
)

Fate = Literal["truth", "unit", "alive"]
"""Which kind of test failed first, if any."""

_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Mutant:
    """One change of one function."""

    file: str
    """Below the root of the checkout."""
    function: str
    """Qualified name of the outermost function that it changes."""
    operator: str
    line: int
    before: str
    after: str
    whole: str = field(repr=False, compare=False)
    """The file with the change."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.before!r} -> {self.after!r}"


def files(chosen: Sequence[str]) -> list[Path]:
    paths = [ROOT / name for name in chosen]
    return sorted(
        file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])
    )


def sample(paths: Sequence[Path], size: int, seed: int) -> tuple[list[Mutant], int]:
    """`size` random mutants, determined by the seed, and the number of all mutants."""
    places = [place for path in paths for place in _places(path)]
    drawn = random.Random(seed).sample(places, len(places))
    found: list[Mutant] = []
    for path, tree, (old, new, function, operator, line) in drawn:
        if len(found) == size:
            break
        changed = tree.deep_replace(old, new)
        before, after = tree.code_for_node(old), tree.code_for_node(new)
        mutant = Mutant(
            str(path.relative_to(ROOT)), function, operator, line, before, after, changed.code
        )
        with suppress(SyntaxError, ValueError):
            if mutated(mutant):
                found.append(mutant)
    return found, len(places)


def _places(path: Path) -> Iterator[tuple[Path, Any, tuple[Any, Any, str, str, int]]]:
    """Every change of every function of a file."""
    # They are not among the tools that every checkout has: see make mutants.
    cst, operators = import_module("libcst"), import_module("mutmut.mutation.mutators")
    metadata = import_module("libcst.metadata")
    wrapped = metadata.MetadataWrapper(cst.parse_module(path.read_text()), unsafe_skip_copy=True)
    lines = wrapped.resolve(metadata.PositionProvider)
    skipped = (cst.Annotation, cst.Decorator, cst.Raise, cst.Parameters)
    changes: list[tuple[Any, Any, str, str, int]] = []

    def visit(node: Any, scope: tuple[str, ...], inside: str) -> None:
        if isinstance(node, skipped):
            return
        if isinstance(node, cst.ClassDef | cst.FunctionDef):
            scope = (*scope, node.name.value)
            if isinstance(node, cst.FunctionDef):
                inside = inside or ".".join(scope)
        if inside:
            for kind, operator in operators.mutation_operators:
                if isinstance(node, kind):
                    for new in operator(node):
                        line = lines[node].start.line if node in lines else 0
                        changes.append((node, new, inside, operator.__name__, line))
        for child in node.children:
            visit(child, scope, inside)

    visit(wrapped.module, (), "")
    for change in changes:
        yield path, wrapped.module, change


def mutated(mutant: Mutant) -> dict[str, CodeType]:
    """The functions that a mutant changes, by qualified name; empty if it changes nothing."""
    path = ROOT / mutant.file
    whole = _functions(compile(path.read_text(), path, "exec"))
    other = _functions(compile(mutant.whole, path, "exec"))
    return {name: code for name, code in other.items() if not _same(code, whole.get(name))}


def _functions(module: CodeType) -> dict[str, CodeType]:
    """Functions of a module and methods of its classes, by qualified name."""
    found = {}
    for code in _inner(module):
        # The body of a class is code too, but runs once.
        if code.co_flags & inspect.CO_NEWLOCALS:
            found[code.co_qualname] = code
        else:
            found |= _functions(code)
    return found


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _same(one: CodeType, other: CodeType | None) -> bool:
    """Whether two do the same; lines may have moved."""
    if other is None or one.co_code != other.co_code or one.co_names != other.co_names:
        return False
    inner, others = _inner(one), _inner(other)
    plain, plain_other = (
        [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
        for code in (one, other)
    )
    return (
        plain == plain_other
        and one.co_varnames == other.co_varnames
        and len(inner) == len(others)
        and all(map(_same, inner, others))
    )


def break_into(mutant: Mutant) -> None:
    """Put the mutant's code into the functions of this process, whoever holds them."""
    changed, path = mutated(mutant), str(ROOT / mutant.file)
    gc.unfreeze()  # The collector does not list frozen objects.
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in _called(path):
            code = changed.get(each.__code__.co_qualname)
            if code is not None and len(code.co_freevars) == len(each.__code__.co_freevars):
                each.__code__ = code


def _called(path: str) -> tuple[str, str]:
    """A file as it is called by those who import it, through the link of the import name or not."""
    inside = Path(path).relative_to(ROOT)
    return path, str(ROOT / "oversight" / inside)


@dataclass(eq=False)
class Trials:
    """A plugin of pytest: runs the tests for every mutant instead of once."""

    mutants: Sequence[Mutant]
    workers: int
    unit: bool
    """Whether the unit ring is tried where known truths fail to tell."""
    fates: dict[Mutant, Fate] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    """Tests that fail without a mutant, as they do while their calls are watched; no mutant faces
    them."""
    fate: Fate = "alive"
    """In the process of one mutant."""
    reach: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By test: the functions that it calls, as `file:name`."""
    now: str = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        rings = ("known_truth", "unit") if self.unit else ("known_truth",)
        items[:] = [item for item in items if any(each in item.keywords for each in rings)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.fate == "alive":
            self.failing.add(report.nodeid)
            self.fate = "truth" if "known_truth" in report.keywords else "unit"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.now = item.nodeid
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._watched(session)
        for mutant, fate in self._tried(session):
            self.fates[mutant] = fate
            print(f"{fate:6} {mutant}", flush=True)
        return True

    def _watched(self, session: pytest.Session) -> None:
        """Run all tests once, and note which functions each reaches."""
        prefix, shorter = str(ROOT / "oversight") + os.sep, str(ROOT) + os.sep
        wanted = {f"{mutant.file}:{mutant.function}" for mutant in self.mutants}
        known: dict[CodeType, str] = {}

        def watch(frame: FrameType, event: str, arg: object) -> None:
            if event != "call":
                return
            code = frame.f_code
            name = known.get(code)
            if name is None:
                file = code.co_filename.removeprefix(prefix).removeprefix(shorter)
                outermost = code.co_qualname.partition(".<locals>")[0]
                name = known[code] = f"{file}:{outermost}" * (f"{file}:{outermost}" in wanted)
            if name:
                self.reach[self.now].add(name)

        loop = session.config.pluginmanager.get_plugin("main")
        threading.setprofile(watch)
        sys.setprofile(watch)
        try:
            with suppress(session.Failed, session.Interrupted):
                loop.pytest_runtestloop(session)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def facing(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests that reach a mutant, known truths first."""
        name = f"{mutant.file}:{mutant.function}"
        sound = [item for item in items if item.nodeid not in self.failing]
        reaching = [item for item in sound if name in self.reach[item.nodeid]]
        return sorted(reaching, key=lambda item: "known_truth" not in item.keywords)

    def _tried(self, session: pytest.Session) -> Iterator[tuple[Mutant, Fate]]:
        """Each mutant and what became of it, as they end."""
        todo, running = [*reversed(self.mutants)], list[Trial]()
        while todo or running:
            while todo and len(running) < self.workers:
                running.append(self._started(todo.pop(), session))
            wait([t.process.sentinel for t in running], min(PATIENCE, *(t.left for t in running)))
            for trial in [t for t in running if not t.left or not t.process.is_alive()]:
                running.remove(trial)
                yield trial.mutant, trial.end()

    def _started(self, mutant: Mutant, session: pytest.Session) -> "Trial":
        told, tell = _fork.Pipe(duplex=False)
        process = _fork.Process(target=self._run, args=(mutant, session, tell))
        process.start()
        tell.close()
        return Trial(mutant, process, told)

    def _run(self, mutant: Mutant, session: pytest.Session, tell: Connection) -> None:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        session.items = self.facing(mutant, session.items)
        session.config.option.maxfail = 1
        self.fate, session.testsfailed = "alive", 0
        break_into(mutant)
        loop = session.config.pluginmanager.get_plugin("main")
        with suppress(session.Failed, session.Interrupted):
            loop.pytest_runtestloop(session)
        tell.send(self.fate)
        os._exit(0)


@dataclass
class Trial:
    """A mutant and the process that runs its tests."""

    mutant: Mutant
    process: ForkProcess
    told: Connection
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until patience is at its end."""
        return max(0.0, self.started + PATIENCE - time.monotonic())

    def end(self) -> Fate:
        if self.process.is_alive() and not self.told.poll():
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        try:
            fate: Fate = self.told.recv()
        except EOFError:
            return "truth"  # It hung or died of the mutant.
        return fate


def tried(
    mutants: Sequence[Mutant], workers: int, unit: bool, tests: Sequence[str]
) -> dict[Mutant, Fate]:
    """The fate of each mutant. SystemExit if the tests cannot be collected."""
    # A failure is enough; nobody reads the smallest example of it.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", phases=phases, deadline=None, database=None)
    trials = Trials(mutants, workers, unit)
    os.chdir(ROOT)
    pytest.main([*OPTIONS, *tests], plugins=[trials])
    if trials.failing:
        print(f"left out, since they fail without a mutant: {', '.join(sorted(trials.failing))}")
    if len(trials.fates) < len(mutants):
        raise SystemExit(f"the tests cannot be run: {trials.now}")
    return trials.fates


def rate(dead: int, of: int) -> str:
    """A share with the half width of its 95 % interval (Wilson)."""
    if not of:
        return "none"
    z, p = 1.96, dead / of
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return f"{dead} of {of}, {p:.0%} [{middle - half:.0%}, {middle + half:.0%}]"


def table(fates: dict[Mutant, Fate], seed: int, generated: int) -> str:
    """The rates and the survivors, as Markdown."""
    ended = Counter(fates.values())
    acting = {mutant: fate for mutant, fate in fates.items() if mutant.operator not in TEXT}
    lines = [
        f"Sample {seed}: {len(fates)} of {generated:,} mutants.",
        "",
        "| | dead |",
        "|---|---|",
        f"| by known truths, words left out | "
        f"{rate(Counter(acting.values())['truth'], len(acting))} |",
        f"| by known truths | {rate(ended['truth'], len(fates))} |",
        f"| by any test tried | {rate(ended['truth'] + ended['unit'], len(fates))} |",
        "",
        *(f"- `{mutant}`" for mutant, fate in fates.items() if fate == "alive"),
    ]
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--in", nargs="*", dest="chosen", default=CHOSEN)
    asked.add_argument("--sample", type=int, default=60)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    asked.add_argument("--unit", action="store_true")
    asked.add_argument("--tests", nargs="*", default=["tests"])
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--publish", type=Path, help="a file that the table is written to")
    chosen, started = asked.parse_args(), time.monotonic()
    mutants, generated = sample(files(chosen.chosen), chosen.sample, chosen.seed)
    fates = tried(mutants, chosen.workers, chosen.unit, chosen.tests)
    told = table(fates, chosen.seed, generated)
    print(f"\n{told}\n\n{time.monotonic() - started:.0f} s")
    if chosen.publish:
        chosen.publish.write_text(f"{told}\n")


if __name__ == "__main__":
    main()
