"""What a data set holds, and its report for people: counts, the leakage check, remedies."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .....protocols.datasets.leak import MATERIAL, LeakageCheck, RuleAccuracy, power
from .....protocols.datasets.solution import sense
from .....protocols.errors import DatasetError
from .....protocols.question import Problem
from ....display.quantity import counted
from ....display.table import Table, as_text

Countable = TypeVar("Countable", int, str)

LEAKING = "label leakage"
TELLS = (5, 10, 15)
"""Leaks, in percentage points off chance, for which the power of the gate is printed."""
LISTED = 5
"""Maximum number of duplicates, and of invalid rows, that are named."""


@dataclass(frozen=True, slots=True)
class Inventory:
    problems: int
    answers: tuple[tuple[int, int], ...]
    """(number of answers, problems with that many), ascending."""
    best: tuple[tuple[str, int], ...]
    """(label, problems whose best answer has it), by label; ties count for the first answer."""
    passages: int
    """Number of distinct passages."""
    groups: int
    """Number of distinct groups; a problem without one is a group of its own."""
    duplicates: tuple[tuple[str, ...], ...]
    """Ids of problems that ask the same question about the same passage."""


def inventory(problems: Iterable[Problem]) -> Inventory:
    problems = tuple(problems)
    same: dict[object, list[str]] = {}
    for problem in problems:
        question = problem.question
        same.setdefault((sense(question.text), question.passage), []).append(problem.id)
    return Inventory(
        len(problems),
        _counted(len(problem.values) for problem in problems),
        _counted(problem.question.answers[problem.best].label for problem in problems),
        len({problem.question.passage for problem in problems} - {""}),
        len({(problem.group, "" if problem.group else problem.id) for problem in problems}),
        tuple(tuple(ids) for ids in same.values() if len(ids) > 1),
    )


def _counted(values: Iterable[Countable]) -> tuple[tuple[Countable, int], ...]:
    return tuple(sorted(Counter(values).items()))


def inventory_text(
    name: str,
    held: Inventory,
    gate: LeakageCheck,
    skipped: Sequence[DatasetError] = (),
    width: int | None = None,
) -> str:
    table = Table(
        f"{name}: {LEAKING if gate.leaks else 'no leak found'}",
        ("rule", "n", "accuracy", "interval", "chance", "verdict"),
        tuple(_row(rule) for rule in gate.rules if rule.applicable),
        1,
        (*_idle(gate), *_notes(held), *_skipped(skipped), *_power(gate)),
    )
    return "\n".join([as_text(table, width), *_mends(gate)])


def _row(rule: RuleAccuracy) -> tuple[str, ...]:
    return (
        rule.rule,
        f"{rule.applicable:,}",
        f"{rule.accuracy:.1%}",
        f"{rule.low:.1%} to {rule.high:.1%}",
        f"{rule.chance:.1%}",
        "leaks" if rule.leaks else "fine",
    )


def _idle(gate: LeakageCheck) -> Iterator[str]:
    if idle := [rule.rule for rule in gate.rules if not rule.applicable]:
        yield f"not applicable: {', '.join(idle)}"


def _notes(held: Inventory) -> Iterator[str]:
    yield "n: problems whose answers the rule distinguishes; all others are scored as chance."
    yield f"leaks: significantly off chance (all rules together), by {MATERIAL:.0%} or more."
    answers = ", ".join(f"{problems:,} of {count} answers" for count, problems in held.answers)
    yield f"problems: {held.problems:,} ({answers})"
    yield "best answer: " + ", ".join(f"{label} {count:,}" for label, count in held.best)
    if held.passages:
        yield f"passages: {held.passages:,}"
    if held.groups < held.problems:
        yield f"groups that a bootstrap keeps together: {held.groups:,}"
    if not held.duplicates:
        yield "duplicates: none"
        return
    stand = "stands" if len(held.duplicates) == 1 else "stand"
    yield f"duplicates: {counted(len(held.duplicates), 'question')} {stand} more than once:"
    for ids in held.duplicates[:LISTED]:
        yield f"  {', '.join(ids)}"
    if len(held.duplicates) > LISTED:
        yield f"  … and {len(held.duplicates) - LISTED:,} more"


def _skipped(faults: Sequence[DatasetError]) -> Iterator[str]:
    if faults:
        yield f"skipped: {counted(len(faults), 'invalid row')}:"
    for fault in faults[:LISTED]:
        yield f"  {fault}"
    if len(faults) > LISTED:
        yield f"  … and {len(faults) - LISTED:,} more"


def _power(gate: LeakageCheck) -> Iterator[str]:
    found = (f"of {tell} points {power(gate.problems, tell / 100):.0%}" for tell in TELLS)
    yield f"power with n = {gate.problems:,}: chance of finding a leak {', '.join(found)}"


def _mends(gate: LeakageCheck) -> Iterator[str]:
    """One line for each remedy, with the rules that it is for."""
    rules: dict[str, list[RuleAccuracy]] = {}
    for rule in gate.leaks:
        rules.setdefault(rule.remedy, []).append(rule)
    if rules:
        yield "\nWhat to do:"
    for remedy, leaking in rules.items():
        yield f"  {', '.join(rule.rule for rule in leaking)}: {remedy}"
