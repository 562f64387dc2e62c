"""Health of a run: whether its verdicts can be trusted at all.

Of the cells that were run: how many came to a verdict, how many could not be read, were cut off,
refused, had failing tools, and how much of the judge's probability its answer labels had. Where
an issue is off, it has one example and one piece of advice. Failed cells are counted by
cause, with one example and a fix."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ....protocols.doubts import MIN_CAPTURED_MASS
from ....protocols.errors import TRUNCATED, TRUNCATED_WHILE_REASONING
from ....protocols.transcript import Failure
from ... import errors
from ...display.text import counted
from ...run.outcome import OutcomeRecord
from ...sweep.grid import Grid, GridRow

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
    "ServerBusy": "without a whole answer from a crowded server",
    "crash": "crashed",
    "unrepeatable": "asked other calls when composed again",
}
"""Kinds of failures in words; `unreadable` and `declined` are plain already."""

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
    """The common message of failures that are counted together, without numbers and quotations."""
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
    """How many failures asking again may remedy: their kind is the name of a transient error."""
    kinds = (getattr(errors, record.failure.kind, None) for record in records if record.failure)
    return sum(isinstance(kind, type) and issubclass(kind, errors.TransientError) for kind in kinds)


def failure_lines(sweep: Grid, records: Iterable[OutcomeRecord]) -> Iterator[str]:
    """Failures by judge, with causes and fixes; nothing without failures."""
    by_judge = {row.judge: JudgeFailures(row) for row in sweep.rows}
    for record in (record for record in records if not record.not_run):
        by_judge.setdefault(record.judge, JudgeFailures(None)).add(record)
    for judge, part in by_judge.items():
        kinds = Counter[str]()
        for (kind, _), cause in part.causes.items():
            kinds[kind] += cause.count
        for kind, count in kinds.most_common():
            share = f"{count:,} of {part.cells:,} cells"
            yield f"{judge}: {share} {called(kind)} ({count / part.cells:.0%})"
            causes = sorted(
                (cause for (of_kind, _), cause in part.causes.items() if of_kind == kind),
                key=lambda cause: -cause.count,
            )
            for cause in causes[:CAUSES]:
                yield from _cause(cause, part)
            if (more := len(causes) - CAUSES) > 0:
                yield f"  and {more:,} other causes, in outcomes.jsonl"
            if kind in HINTS:
                yield f"  {HINTS[kind]}"
        if part.unread >= OFTEN * part.cells and part.row and not part.is_a("DistributionJudge"):
            yield f"  {TRY_ANOTHER}"


def _cause(cause: Cause, judge: JudgeFailures) -> Iterator[str]:
    text = clipped(_uncut(cause.example.message))
    by = "" if cause.of_judge else f"{cause.example.seat}: "
    line = f"  {cause.count:,}: {by}{text}"
    if cause.cut:
        line += _cut_off(cause, judge)
    yield line
    if by and cause.example.kind == "unreadable":
        yield f"     given by {cause.example.seat}, so another judge would not help"
    if cause.example.raw.strip():
        yield f"     for example: «{clipped(cause.example.raw)}»"
    if cause.example.call:
        yield f"     whole: oversight cache show {cause.example.call[:12]}"


def _cut_off(cause: Cause, judge: JudgeFailures) -> str:
    """Whether longer replies would help, and whose."""
    cut = f"; {cause.cut:,} of them cut off at max_tokens"
    form = _FORM.search(cause.example.message)
    if form and form["name"] != "probabilities":
        return f"{cut}: raise it for the seat that fills in the {form['name']} form"
    if judge.is_a("LogprobJudge"):
        # It is to say one word, and has said others.
        return ""
    most = judge.row.judge_settings.get("max_tokens", "") if judge.row else ""
    cut = f"{cut} {most}".rstrip()
    if not cause.thought:
        return f"{cut}: raise judges.max_tokens"
    both = " and judges.max_tokens" if cause.thought < cause.cut else ""
    return f"{cut}, {cause.thought:,} while it reasoned: raise judges.reasoning_tokens{both}"


def _uncut(message: str) -> str:
    """A failure's message, without the mark of a truncated reply."""
    return message.removesuffix(TRUNCATED).removesuffix(TRUNCATED_WHILE_REASONING)


def clipped(text: str) -> str:
    """A message or a reply in one line, as far as it is shown."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_MESSAGE else f"{words[: MAX_MESSAGE - 1]}…"


OFF = 0.01
"""Share of cells from which on an issue is reported."""

OFTEN = 0.1
"""Share of cells from which on an issue has separate advice."""

MAX_QUOTE = 100
"""Characters of an example that are shown at most."""

ADVICE: Mapping[str, str] = {
    "unreadable": "raise the judge's max_tokens, or take a judge that keeps to the form",
    "failed otherwise": "the end of the run output says how to fix them",
    "truncated": "raise the speaker's max_tokens",
    "truncated while thinking": "raise the model's reasoning_tokens",
    "refused by the provider": "reword the task or take another model; the bounds show what they "
    "could change",
    "verbal refusals": "a speech refuses in words or argues for another side; the bounds show what "
    "it could change",
    "unclear side": "take another checker: oversight measure sides RUN --checker MODEL",
    "empty": "raise max_tokens: hidden reasoning may use it all up",
    "failed tools": "look at one, and reword the tool or take a model that uses tools",
    "candid": "a speech says itself that its answer is wrong: --where valid leaves its problem out",
    "hidden characters": "read one: hidden text may have been meant for the judge",
    "unknown stop reasons": "read one: the reply counts, and may have been cut or filtered",
    "thoughts aloud": "read one: if these are private thoughts, name their thinking_tags",
    "label mass": "the judge puts its probability elsewhere: take kind: stated or another",
}

QUIET = (
    *("failed otherwise", "truncated while thinking", "empty", "candid", "hidden characters"),
    *("unknown stop reasons", "thoughts aloud", "unclear side"),
)
"""Issues that are left out where their count is 0."""

COUNTED: Mapping[str, str] = {
    "truncated": "truncated",
    "thinking": "truncated while thinking",
    "refused": "refused by the provider",
    "off_side": "verbal refusals",
    "unclear_side": "unclear side",
    "empty": "empty",
    "failed_tools": "failed tools",
    "candid": "candid",
    "hidden": "hidden characters",
    "unknown_stop": "unknown stop reasons",
    "musing": "thoughts aloud",
}
"""Counts of a transcript that are issues, with their names here."""


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """A possible issue of a run, with the cells that have it."""

    name: str
    cells: int
    """Cells in which it happened; of label mass, cells below `MIN_CAPTURED_MASS`."""
    share: float
    """Share of the cells that were run; for label mass, the mean mass."""
    off: bool
    example: str
    """A cell and its text; empty without one."""
    advice: str
    """Empty unless it is off."""
    causes: tuple[tuple[str, int], ...] = ()
    """Why replies could not be read, and in how many cells, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Health:
    cells: int
    """Cells that were run."""
    verdicts: int
    issues: tuple[HealthIssue, ...]
    sides_checked: tuple[int, int] = (0, 0)
    """Rows in which a checker read what speeches argue for, and rows with speeches."""
    guess: str = ""
    """How many unread speeches begin as refusals do, a first guess by words; empty for none."""

    @property
    def failing(self) -> tuple[HealthIssue, ...]:
        return tuple(issue for issue in self.issues if issue.off)

    def lines(self) -> list[str]:
        """One line of figures, and one for each issue that is off."""
        if not self.cells:
            return ["health: nothing has been run yet"]
        share = self.verdicts / self.cells
        parts = [f"{self.verdicts:,} of {self.cells:,} cells with a verdict ({share:.0%})"]
        for issue in self.issues:
            checked, rows = self.sides_checked if issue.name == "verbal refusals" else (1, 1)
            if not checked:
                parts += [f"{issue.name}: not checked"] * bool(rows)
            elif issue.cells or issue.name not in QUIET:
                share_told = f"{issue.share:.0%}" if issue.share >= 0.005 else "<1%"
                has_cells = issue.cells or issue.name == "label mass"
                causes = ", ".join(f"{cause} {cells:,}" for cause, cells in issue.causes)
                about = causes or f"{checked:,} of {rows:,} rows checked" * (checked < rows)
                share_told = share_told if has_cells else "0"
                parts.append(f"{issue.name} {share_told}{f' ({about})' if about else ''}")
        lines = [f"health: {' · '.join(parts)}"]
        for issue in self.failing:
            mass = issue.name == "label mass"
            often = f"mean {issue.share:.0%}" if mass else counted(issue.cells, "cell")
            lines.append(f"  ! {issue.name}: {often}, such as {issue.example}; {issue.advice}")
        return [*lines, *[f"  ! {self.guess}"] * bool(self.guess)]


class HealthCheck:
    """Counts health issues in outcomes, one after the other."""

    def __init__(self) -> None:
        names = ("unreadable", "failed otherwise", *COUNTED.values())
        self._cells = dict.fromkeys(names, 0)
        self._causes = Counter[str]()
        self._examples: dict[str, str] = {}
        self._run = self._low = 0
        self._verdicts, self._lost = Counter[str](), defaultdict[str, float](float)
        """By judge: verdicts, and the label mass that those lack which have less than all of it."""

    def add(self, record: OutcomeRecord) -> None:
        if record.not_run:
            return
        self._run += 1
        if record.failure is not None:
            failure = record.failure
            text = failure.raw if failure.unread and failure.raw else failure.message
            unread = COUNTED["refused"] if failure.kind == "declined" else "unreadable"
            self._note(unread if failure.unread else "failed otherwise", record, text)
            if failure.cause and failure.kind == "unreadable":
                self._causes[failure.cause] += 1
            if failure.message.endswith(TRUNCATED_WHILE_REASONING):
                self._note("truncated while thinking", record, text)
            return
        self._verdicts[record.judge] += 1
        if record.captured is not None:
            self._lost[record.judge] += 1 - record.captured
            if record.captured < MIN_CAPTURED_MASS:
                self._low += 1
                self._examples.setdefault("label mass", _cell(record, f"{record.captured:.0%}"))
        for name, count in record.counts.items():
            if count and name in COUNTED:
                self._note(COUNTED[name], record, "")

    def health(self, sides_checked: tuple[int, int] = (0, 0)) -> Health:
        """The health according to the outcomes added so far."""
        issues = []
        for name, cells in self._cells.items():
            share = cells / self._run if self._run else 0.0
            issues.append(self._issue(name, cells, share, cells > 0 and share >= OFF))
        if self._lost:
            judged = sum(self._verdicts[judge] for judge in self._lost)
            mean = 1 - sum(self._lost.values()) / judged
            issues.append(self._issue("label mass", self._low, mean, mean < MIN_CAPTURED_MASS))
        return Health(self._run, self._verdicts.total(), tuple(issues), sides_checked)

    def _issue(self, name: str, cells: int, share: float, off: bool) -> HealthIssue:
        causes = tuple(self._causes.most_common()) if name == "unreadable" else ()
        example, advice = self._examples.get(name, ""), ADVICE[name] * off
        return HealthIssue(name, cells, share, off, example, advice, causes)

    def _note(self, name: str, record: OutcomeRecord, text: str) -> None:
        self._cells[name] += 1
        self._examples.setdefault(name, _cell(record, " ".join(text.split())))


def _cell(record: OutcomeRecord, quote: str) -> str:
    text = quote if len(quote) <= MAX_QUOTE else quote[: MAX_QUOTE - 1] + "…"
    return f"{record.protocol}, {record.problem}" + (f": {text!r}" if text else "")
