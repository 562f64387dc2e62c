"""Does a fault show? Every mutant is tried against the tests of its file, known truths first.

    python -m tests.campaign.mutation              all of them
    python -m tests.campaign.mutation --every 10   one in ten
    python -m tests.campaign.mutation jury limits  those of files with these words in their paths
    python -m tests.campaign.mutation --truths     by known truths alone: whatever else would tell

Tests are collected once; each mutant is broken into a process that is forked from there. Writes one
line a mutant and a table, and fails unless all die; and where all mutants of mechanisms and judges
are tried, unless 85 % of those die by known truths alone.
"""

import argparse
import gc
import inspect
import math
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from hypothesis import Phase, settings

from tests.campaign.engine_mutants import ENGINE_MUTANTS
from tests.campaign.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
LISTS = {"mechanisms and judges": MUTANTS, "engine and cache": ENGINE_MUTANTS}
ENOUGH = 0.85
"""Of the mutants of mechanisms and judges, how many known truths alone must kill."""

OPTIONS = (
    *("-x", "-s", "-n0", "-pno:cacheprovider", "-pno:terminal", "--assert=plain"),
    *("--timeout=60", "--hypothesis-profile=mutants"),
)

PATIENCE = 300.0
"""Seconds for the tests of one mutant; one that hangs is dead."""

_fork = multiprocessing.get_context("fork")


def broken(mutant: Mutant) -> dict[str, CodeType]:
    """The functions that a mutant changes, by qualified name; ValueError if it changes none.

    Of functions within functions the outermost is told: the others are made by it.
    """
    path = ROOT / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.file}: {mutant.old!r} does not stand there once; mend the mutant"
        )
    whole = _compiled(text, path)
    other = _compiled(text.replace(mutant.old, mutant.new), path)
    changed = {name: code for name, code in other.items() if not _same(code, whole.get(name))}
    if not changed:
        raise ValueError(f"{mutant.file}: {mutant.old!r} stands in no function; mend the mutant")
    return changed


@lru_cache(maxsize=4)
def _compiled(text: str, path: Path) -> dict[str, CodeType]:
    return _functions(compile(text, path, "exec"))


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
    changed, path = broken(mutant), str(ROOT / mutant.file)
    left = set(changed)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == path:
            name = each.__code__.co_qualname
            if name in changed:
                each.__code__ = changed[name]
                left.discard(name)
    if left:
        raise ValueError(f"{mutant.file}: no {', '.join(left)} is there; mend the mutant's tests")


@dataclass
class Trial:
    """A mutant and the process that runs its tests."""

    mutant: Mutant | None
    """None: the program as it is."""
    process: ForkProcess
    told: Connection
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until patience is at its end."""
        patience = PATIENCE if self.mutant else math.inf
        return max(0.0, self.started + patience - time.monotonic())

    def end(self) -> str:
        """`truth`, `other` or `alive`: which kind of test, if any, failed first."""
        if self.process.is_alive() and not self.told.poll():
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        try:
            told = self.told.recv()
        except EOFError:
            if self.process.exitcode == 1:
                raise SystemExit("the campaign itself is at fault") from None
            return "other"  # It was killed.
        if isinstance(told, ValueError):
            raise SystemExit(str(told))
        return str(told)


@dataclass(eq=False)
class Campaign:
    """A plugin of pytest: in place of running the tests once, they are run for every mutant."""

    mutants: Sequence[Mutant]
    workers: int
    truths_only: bool
    fates: dict[Mutant, str] = field(default_factory=dict)
    sound: bool = False
    """Whether no test fails without a mutant."""
    fate: str = "alive"
    """In the process of one mutant: the kind of test that failed first."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.truths_only:
            items[:] = [item for item in items if "known_truth" in item.keywords]
        items.sort(key=lambda item: "known_truth" not in item.keywords)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.fate == "alive":
            self.fate = "truth" if "known_truth" in report.keywords else "other"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for mutant, fate in self._tried(session):
            if mutant is None:
                self.sound = fate == "alive"
                continue
            self.fates[mutant] = fate
            print(f"{fate:6}{mutant.file}: {mutant.old!r} -> {mutant.new!r}", flush=True)
        return True

    def _tried(self, session: pytest.Session) -> Iterator[tuple[Mutant | None, str]]:
        """Each mutant and what became of it, as they end."""
        # Nothing may pass for killed that fails as it is.
        todo, running = [*reversed(self.mutants), None], list[Trial]()
        while todo or running:
            while todo and len(running) < self.workers:
                running.append(self._started(todo.pop(), session))
            wait([t.process.sentinel for t in running], min(PATIENCE, *(t.left for t in running)))
            for trial in [t for t in running if not t.left or not t.process.is_alive()]:
                running.remove(trial)
                yield trial.mutant, trial.end()

    def _started(self, mutant: Mutant | None, session: pytest.Session) -> Trial:
        told, tell = _fork.Pipe(duplex=False)
        process = _fork.Process(target=self._run, args=(mutant, session, tell))
        process.start()
        tell.close()
        return Trial(mutant, process, told)

    def _run(self, mutant: Mutant | None, session: pytest.Session, tell: Connection) -> None:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        if mutant:
            paths = {ROOT / "tests" / test for test in mutant.tests}
            session.items = [item for item in session.items if item.path in paths]
            try:
                break_into(mutant)
            except ValueError as error:
                tell.send(error)
                os._exit(1)
        loop = session.config.pluginmanager.get_plugin("main")
        with suppress(session.Failed, session.Interrupted):
            loop.pytest_runtestloop(session)
        tell.send(self.fate)
        os._exit(0)


def tried(mutants: Sequence[Mutant], workers: int, truths_only: bool) -> dict[Mutant, str]:
    """What became of each: `truth`, `other` or `alive`. SystemExit if tests fail by themselves."""
    # A failure is enough; nobody reads the smallest example of it.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", phases=phases, deadline=None, database=None)
    campaign = Campaign(mutants, workers, truths_only)
    files = sorted({f"tests/{name}" for mutant in mutants for name in mutant.tests})
    os.chdir(ROOT)
    pytest.main([*OPTIONS, *files], plugins=[campaign])
    if not campaign.sound or len(campaign.fates) < len(mutants):
        raise SystemExit("the tests fail without any mutant, or cannot be collected")
    return {mutant: campaign.fates[mutant] for mutant in mutants}


def table(fates: dict[Mutant, str]) -> str:
    """How many mutants of each file died, as Markdown."""
    lines = [
        "| file | mutants | by known truths | by others | alive |",
        "|---|---:|---:|---:|---:|",
    ]
    for file in [*dict.fromkeys(mutant.file for mutant in fates), ""]:
        ended = Counter(fate for mutant, fate in fates.items() if file in ("", mutant.file))
        counts = [ended.total(), ended["truth"], ended["other"], ended["alive"]]
        lines.append(f"| {f'`{file}`' if file else 'all'} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("words", nargs="*")
    asked.add_argument("--every", type=int, default=1)
    asked.add_argument("--truths", action="store_true")
    asked.add_argument("--workers", type=int, default=2)
    chosen, started = asked.parse_args(), time.monotonic()
    every = [mutant for those in LISTS.values() for mutant in those]
    some = [m for m in every if not chosen.words or any(word in m.file for word in chosen.words)]
    fates = tried(some[:: chosen.every], chosen.workers, chosen.truths)
    for name, those in LISTS.items():
        print(
            f"\n{name}\n\n{table({mutant: fates[mutant] for mutant in those if mutant in fates})}"
        )
    ended = Counter(fates[mutant] for mutant in MUTANTS if mutant in fates)
    share = ended["truth"] / (ended.total() or 1)
    seconds = time.monotonic() - started
    print(f"\n{len(fates)} mutants in {seconds:.0f} s")
    if ended:
        print(f"known truths alone kill {ended['truth']} of {ended.total()}: {share:.0%}")
    # A share of a few says nothing.
    if "alive" in fates.values() or (ended.total() == len(MUTANTS) and share < ENOUGH):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
