"""What `oversight dataset check` found: a table of the rules, and what the data set holds."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from ....protocols.datasets.columns import own_letters, refers
from ....protocols.datasets.leak import MATERIAL, LeakageCheck, RuleAccuracy, leakage_check, power
from ....protocols.datasets.loader import Notes
from ....protocols.datasets.solution import sense
from ....protocols.errors import DatasetError
from ....protocols.question import Problem
from ...analysis.findings.finding import Finding, Part, number, people, program, word
from ...display.quantity import counted

TELLS = (5, 10, 15)
"""Leaks, in percentage points off chance, for which the power of the gate is printed."""
LISTED = 5
"""Maximum number of duplicates, and of invalid rows, that are named."""

COLUMNS = (
    word("rule", "rule"),
    number("n", "applicable", key="n"),
    number("accuracy", "accuracy", ".1%"),
    people("interval", lambda rule: f"{rule.low:.1%} to {rule.high:.1%}"),
    program("low", "low"),
    program("high", "high"),
    number("chance", "chance", ".1%"),
    people("verdict", lambda rule: "leaks" if rule.leaks else "fine"),
    program("leaks", "leaks"),
    program("remedy", lambda rule: rule.remedy if rule.leaks else ""),
)


@dataclass(frozen=True, slots=True)
class Inventory:
    problems: int
    answers: dict[int, int]
    """Number of answers -> problems with that many, ascending."""
    best: dict[str, int]
    """Label -> problems whose best answer has it, by label; ties count for the first answer."""
    passages: int
    """Number of distinct passages."""
    groups: int
    """Number of distinct groups; a problem without one is a group of its own."""
    duplicates: tuple[tuple[str, ...], ...]
    """Ids of problems that ask the same question about the same passage."""


def check_finding(name: str, problems: Sequence[Problem], reading: Notes) -> Finding:
    """The leakage check rule by rule, the contents, and what to do."""
    held, gate = inventory(problems), leakage_check(problems)
    about = asdict(held) | {
        "leaks": [rule.rule for rule in gate.leaks],
        "power": {points: power(gate.problems, points / 100) for points in TELLS},
        "skipped": [str(fault) for fault in reading.bad],
        "changed": reading.changed,
        "letters": carrying_letters(problems),
        "references": referring(problems),
    }
    idle = [rule.rule for rule in gate.rules if not rule.applicable]
    notes = [f"not applicable: {', '.join(idle)}"] * bool(idle)
    notes += [
        *_held(held),
        *_skipped(reading.bad),
        *reading.changes("merged", "letters", "left out"),
    ]
    notes += _options(problems)
    notes += [_power(gate), *_remedies(gate)]
    title = f"{name}: {'label leakage' if gate.leaks else 'no leak found'}"
    shown = [rule for rule in gate.rules if rule.applicable]
    parts = (
        Part("rules", "", COLUMNS, gate.rules, shown=False),
        Part("", title, COLUMNS, shown, notes),
    )
    return Finding(parts, about)


def _held(held: Inventory) -> Iterator[str]:
    yield "n: problems whose answers the rule distinguishes; all others are scored as chance."
    least = f"{100 * MATERIAL:.0f} points"
    yield f"leaks: significantly off chance (all rules together), by more than {least}."
    answers = ", ".join(
        f"{problems:,} of {count} answers" for count, problems in held.answers.items()
    )
    yield f"problems: {held.problems:,} ({answers})"
    yield "best answer: " + ", ".join(f"{label} {count:,}" for label, count in held.best.items())
    if held.passages:
        yield f"passages: {held.passages:,}"
    if held.groups < held.problems:
        yield f"groups that a bootstrap keeps together: {held.groups:,}"
    if not held.duplicates:
        yield "duplicates: none"
        return
    stand = "stands" if len(held.duplicates) == 1 else "stand"
    yield f"duplicates: {counted(len(held.duplicates), 'question')} {stand} more than once:"
    yield from _first([", ".join(ids) for ids in held.duplicates])


def _skipped(faults: Sequence[DatasetError]) -> Iterator[str]:
    if faults:
        yield f"skipped: {counted(len(faults), 'invalid row')}:"
    yield from _first([str(fault) for fault in faults])


def carrying_letters(problems: Sequence[Problem]) -> list[str]:
    """Ids of the problems whose answers carry letters of their own."""
    carrying = []
    for problem in problems:
        try:
            if own_letters([answer.text for answer in problem.question.answers]):
                carrying.append(problem.id)
        except ValueError:
            carrying.append(problem.id)
    return carrying


def referring(problems: Sequence[Problem]) -> list[str]:
    """Ids of the problems with an answer that refers to others."""
    return [
        problem.id
        for problem in problems
        if any(refers(answer.text) for answer in problem.question.answers)
    ]


def _options(problems: Sequence[Problem]) -> Iterator[str]:
    if carrying := carrying_letters(problems):
        yield (
            f"letters: {counted(len(carrying), 'problem')} ({_few(carrying)}) with answers that "
            "carry letters of their own, which may tell: take them off"
        )
    if refer := referring(problems):
        yield (
            f"cross-references: {counted(len(refer), 'problem')} ({_few(refer)}) with an answer "
            "that refers to others, so all answers keep their order"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")


def _first(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:LISTED])
    if len(lines) > LISTED:
        yield f"  … and {len(lines) - LISTED:,} more"


def _power(gate: LeakageCheck) -> str:
    found = (f"of {tell} points {power(gate.problems, tell / 100):.0%}" for tell in TELLS)
    return f"power with n = {gate.problems:,}: chance of finding a leak {', '.join(found)}"


def _remedies(gate: LeakageCheck) -> Iterator[str]:
    """One line for each remedy, with the rules that it is for."""
    rules: dict[str, list[RuleAccuracy]] = {}
    for rule in gate.leaks:
        rules.setdefault(rule.remedy, []).append(rule)
    for remedy, leaking in rules.items():
        yield f"what to do about {', '.join(rule.rule for rule in leaking)}: {remedy}"


def inventory(problems: Sequence[Problem]) -> Inventory:
    same: dict[object, list[str]] = {}
    for problem in problems:
        question = problem.question
        same.setdefault((sense(question.text), question.passage), []).append(problem.id)
    return Inventory(
        len(problems),
        dict(sorted(Counter(len(problem.values) for problem in problems).items())),
        dict(sorted(Counter(each.question.answers[each.best].label for each in problems).items())),
        len({problem.question.passage for problem in problems} - {""}),
        len({(problem.group, "" if problem.group else problem.id) for problem in problems}),
        tuple(tuple(ids) for ids in same.values() if len(ids) > 1),
    )
