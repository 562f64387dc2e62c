"""Why cells failed: how many, of what, with one example and a remedy."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ....protocols.errors import TRUNCATED, TRUNCATED_WHILE_REASONING
from ....protocols.transcript import Failure
from ...run.outcome import OutcomeRecord
from ...sweep.grid import Grid, GridRow
from .health import OFTEN

WORDS = {
    "InvalidRequest": "refused by the server",
    "NeverAnswered": "refused by the server",
    "ContextLengthExceeded": "too long for the model",
    "ExceedsRateLimit": "larger than a minute's budget",
    "UnknownFault": "refused for an unknown reason",
    "UnrecognizedReply": "answered in an unknown form",
    "RateLimited": "rate-limited by the server",
    "Overloaded": "failed by the server",
    "Unreachable": "not delivered",
    "OutcomeUnknown": "without a whole answer",
    "Malformed": "answered with no reply",
    "Crowded": "without a whole answer from a crowded server",
    "crash": "crashed",
    "unrepeatable": "asked other calls when composed again",
}
"""Kinds of failures in words; `unreadable` and `declined` are plain already."""

TRANSIENT_KINDS = {
    "RateLimited",
    "Overloaded",
    "Unreachable",
    "OutcomeUnknown",
    "Malformed",
    "Crowded",
}
"""Kinds of failures that may pass if the call is asked again; no other kind does."""

HINTS = {
    "InvalidRequest": "it would refuse them again: fix what it names, then --retry-failed",
    "NeverAnswered": "fix what it names; the same command runs them again",
    "ContextLengthExceeded": "take a model with a longer context, shorter problems or fewer turns",
    "ExceedsRateLimit": "raise the model's tokens per minute under 'models', or lower max_tokens",
    "UnknownFault": "read the server's words, fix what they name, then --retry-failed",
    "UnrecognizedReply": "this program does not know such an answer; take another model",
    "crash": "code of a protocol or provider raised it: mend it; the same command runs them again",
    "unrepeatable": "fix the code; the same command runs them again",
}

TRY_ANOTHER = (
    "another kind of judge may read this model better: judges.kind: distribution has the server "
    "hold it to a form"
)

_FORM = re.compile(r"(?:\bof an? |\bthe )(?P<name>\w+) form\b")
"""How the message of a form that could not be read names it."""

JUDGE = "Judge"
"""Title of the judge's seat."""

CAUSES = 3
"""Causes named for each kind at most, the most frequent first."""

MAX_MESSAGE = 160
"""Characters of a message or of a reply that are shown."""


def called(kind: str) -> str:
    """A kind of failure, as people are told of it."""
    return WORDS.get(kind, kind)


def saying(failure: Failure) -> str:
    """What failures that are counted together say: whose, without figures and quotations."""
    alike = re.sub(r"'[^']*'|\"[^\"]*\"|\(\w\)|\d[\d.,]*", "…", _uncut(failure.message))
    return f"{failure.seat} {alike}"


@dataclass(slots=True)
class Cause:
    """Failures of one kind that say the same, but for the figures and quotations in it."""

    example: Failure
    count: int = 0
    cut: int = 0
    """Failures whose reply was cut off at max_tokens."""
    thought: int = 0
    """Of `cut`, replies that were cut off before their first word: hidden reasoning took it all."""

    @property
    def of_judge(self) -> bool:
        """Whether the judge gave the reply at fault, as far as that is known."""
        return self.example.seat in ("", JUDGE)


@dataclass(slots=True)
class JudgeFailures:
    """The cells of one judge, and why some of them failed."""

    row: GridRow | None
    """One with this judge; None for a judge that the sweep does not have."""
    cells: int = 0
    causes: dict[tuple[str, str], Cause] = field(default_factory=dict)

    def add(self, record: OutcomeRecord) -> None:
        self.cells += 1
        if record.failure is not None:
            key = record.failure.kind, saying(record.failure)
            cause = self.causes.setdefault(key, Cause(record.failure))
            cause.count += 1
            cause.cut += _uncut(record.failure.message) != record.failure.message
            cause.thought += record.failure.message.endswith(TRUNCATED_WHILE_REASONING)

    def is_a(self, judge: str) -> bool:
        """Whether the judge is of the class of this name."""
        return self.row is not None and judge in self.row.judge_lineage

    @property
    def unread(self) -> int:
        """Replies of the judge itself that could not be read."""
        return sum(
            cause.count
            for (kind, _), cause in self.causes.items()
            if kind == "unreadable" and cause.of_judge
        )


def passing(records: Iterable[OutcomeRecord]) -> int:
    """How many failures asking again may remedy."""
    return sum(
        record.failure is not None and record.failure.kind in TRANSIENT_KINDS for record in records
    )


def failure_lines(sweep: Grid, records: Iterable[OutcomeRecord]) -> Iterator[str]:
    """What failed, judge by judge, with its causes and remedy; nothing where nothing failed."""
    shown = {row.judge: row.shown_judge for row in sweep.rows}
    by_judge = {row.judge: JudgeFailures(row) for row in sweep.rows}
    for record in (each for each in records if not each.not_run):
        by_judge.setdefault(record.judge, JudgeFailures(None)).add(record)
    for judge, its in by_judge.items():
        kinds = Counter[str]()
        for (kind, _), cause in its.causes.items():
            kinds[kind] += cause.count
        for kind, count in kinds.most_common():
            share = f"{count:,} of {its.cells:,} cells"
            yield f"{shown.get(judge, judge)}: {share} {called(kind)} ({count / its.cells:.0%})"
            causes = sorted(
                (cause for (of, _), cause in its.causes.items() if of == kind),
                key=lambda cause: -cause.count,
            )
            for cause in causes[:CAUSES]:
                yield from _cause(cause, its)
            if (more := len(causes) - CAUSES) > 0:
                yield f"  and {more:,} other causes, in outcomes.jsonl"
            if kind in HINTS:
                yield f"  {HINTS[kind]}"
        if its.unread >= OFTEN * its.cells and its.row and not its.is_a("DistributionJudge"):
            yield f"  {TRY_ANOTHER}"


def _cause(cause: Cause, its: JudgeFailures) -> Iterator[str]:
    said = clipped(_uncut(cause.example.message))
    by = "" if cause.of_judge else f"{cause.example.seat}: "
    line = f"  {cause.count:,}: {by}{said}"
    if cause.cut:
        line += _cut_off(cause, its)
    yield line
    if by and cause.example.kind == "unreadable":
        yield f"     given by {cause.example.seat}, so another judge would not help"
    if cause.example.raw.strip():
        yield f"     for example: «{clipped(cause.example.raw)}»"
    if cause.example.call:
        yield f"     whole: oversight cache show {cause.example.call[:12]}"


def _cut_off(cause: Cause, its: JudgeFailures) -> str:
    """Whether longer replies would help, and whose."""
    cut = f"; {cause.cut:,} of them cut off at max_tokens"
    form = _FORM.search(cause.example.message)
    if form and form["name"] != "probabilities":
        return f"{cut}: raise it for the seat that fills in the {form['name']} form"
    if its.is_a("LogprobJudge"):
        # It is to say one word, and has said others.
        return ""
    most = its.row.judge_settings.get("max_tokens", "") if its.row else ""
    cut = f"{cut} {most}".rstrip()
    if not cause.thought:
        return f"{cut}: raise judges.max_tokens"
    both = " and judges.max_tokens" if cause.thought < cause.cut else ""
    return f"{cut}, {cause.thought:,} while it reasoned: raise judges.reasoning_tokens{both}"


def _uncut(message: str) -> str:
    """What a failure says, but for whether its reply was cut."""
    return message.removesuffix(TRUNCATED).removesuffix(TRUNCATED_WHILE_REASONING)


def clipped(text: str) -> str:
    """A message or a reply in one line, as far as it is shown."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_MESSAGE else f"{words[: MAX_MESSAGE - 1]}…"
