"""Checks of a study folder: its checksums, its quotes, leaks."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....protocols.datasets.leak import leakage_check
from ....protocols.datasets.study import StudyData
from ...system.files import read_bounded
from .draft import INFO
from .scoring import about_study, opened_study

MAX_STUDY_FILE = 2**31


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check: what was looked at, how many, and what is wrong with it."""

    what: str
    n: int
    wrong: tuple[str, ...] = ()
    note: str = ""


def check_study(folder: Path) -> list[CheckLine]:
    """Every check of a study. UsageError for one that cannot be read at all."""
    about, data = about_study(folder), opened_study(folder)
    gate = leakage_check(list(data.problems.values()))
    leaks = tuple(f"{rule.rule}: {rule.remedy}" for rule in gate.leaks)
    return [
        _files(folder, about["files"]),
        _quotes(data),
        _twice(data),
        CheckLine("problems that leak", len(data.problems), leaks),
        *_counts(data),
    ]


def _files(folder: Path, named: dict[str, str]) -> CheckLine:
    wrong = []
    for name, digest in named.items():
        try:
            content = read_bounded(folder / name, MAX_STUDY_FILE)
        except FileNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if hashlib.sha256(content).hexdigest() != digest:
            wrong.append(f"{name} is not what {INFO} says: it was changed")
    return CheckLine("files as they were imported", len(named), tuple(wrong))


def _quotes(data: StudyData) -> CheckLine:
    count, wrong, unchecked = 0, [], 0
    for row in data.conversations.values():
        for turn in row.turns:
            for quote in data.quotes(row, turn):
                count += 1
                unchecked += quote.verified is None
                if quote.verified is False:
                    wrong.append(f"{row.id}, {turn.speaker}: {quote.text[:60]!r} is not there")
    note = f"{unchecked} too long to be looked up" if unchecked else ""
    return CheckLine("quotes that stand in their source", count, tuple(wrong), note)


def _twice(data: StudyData) -> CheckLine:
    """Judges who judged one source text more than once: they are dependent."""
    seen: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for each in data.judgements:
        row = data.conversations[each.conversation]
        if each.included:
            text = data.problems[row.problem].group or row.problem
            seen[each.judge, each.mode, text].add(row.id)
    again = [key for key, ids in seen.items() if len(ids) > 1]
    note = f"{len(again)} judged one text more than once" if again else "none judged a text twice"
    return CheckLine("judges by text", len(seen), (), note)


def _counts(data: StudyData) -> Iterator[CheckLine]:
    kept = [row for row in data.conversations.values() if row.included]
    yield CheckLine("conversations", len(data.conversations), (), f"{len(kept)} included")
    for mode in sorted({each.mode for each in data.judgements}):
        its = [each for each in data.judgements if each.mode == mode]
        included = sum(each.included for each in its)
        yield CheckLine(f"judgements, {mode}", len(its), (), f"{included} included")
    counted = [each for each in data.judgements if each.included]
    held = [data.conversations[each.conversation] for each in counted]
    yield CheckLine("judges, included", len({each.judge for each in counted}))
    yield CheckLine("questions, included", len({row.problem for row in held}))
    groups = {data.problems[row.problem].group or row.problem for row in held}
    yield CheckLine("texts, included", len(groups))
