"""Whether the verdicts of a run can be trusted at all: what stands above every report.

Of the cells that were run: how many came to a verdict, how many could not be read, were cut off,
refused, had failing tools, and how much of the judge's probability its answer labels had. Where
something is off there is one example and one advice.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ....protocols.doubts import MIN_CAPTURED_MASS
from ....protocols.errors import TRUNCATED_WHILE_REASONING
from ...display.quantity import counted
from ...run.outcome import OutcomeRecord

OFF = 0.01
"""Share of cells from which on a trouble is worth a word."""

OFTEN = 0.1
"""Share of cells from which on a trouble has an advice of its own."""

MAX_QUOTE = 100
"""Characters of an example that are shown at most."""

ADVICE: Mapping[str, str] = {
    "unreadable": "raise the judge's max_tokens, or take a judge that keeps to the form",
    "failed otherwise": "the end of the run output says how to fix them",
    "truncated": "raise max_tokens of who speaks",
    "truncated while thinking": "raise reasoning_tokens of who thinks",
    "refused by the provider": "reword the task or take another model; the bounds show what they "
    "could change",
    "verbal refusals": "a speech refuses in words or argues for another side; the bounds show what "
    "it could change",
    "unclear side": "take another checker: oversight measure sides RUN --checker MODEL",
    "empty": "raise max_tokens: hidden reasoning may use it all up",
    "failed tools": "look at one, and reword the tool or take a model that uses tools",
    "candid": "a speech says itself that its answer is wrong: --where valid leaves its problem out",
    "hidden characters": "read one: what nobody sees may have been meant for the judge",
    "unknown stop reasons": "read one: the reply counts, and may have been cut or filtered",
    "thoughts aloud": "read one: if these are private thoughts, name their thinking_tags",
    "label mass": "the judge puts its probability elsewhere: take kind: stated or another",
}

QUIET = (
    *("failed otherwise", "truncated while thinking", "empty", "candid", "hidden characters"),
    *("unknown stop reasons", "thoughts aloud", "unclear side"),
)
"""Signs that are left out where their count is 0."""

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
"""Counts of a transcript that are troubles, by what they are called here."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign of trouble, which may or may not be there."""

    name: str
    cells: int
    """Cells in which it happened; for label mass, cells with less of it than
    `MIN_CAPTURED_MASS`."""
    share: float
    """Share of the cells that were run; for label mass, the mean mass."""
    off: bool
    example: str
    """A cell, and what was said; empty where there is none."""
    advice: str
    """Empty unless it is off."""
    causes: tuple[tuple[str, int], ...] = ()
    """Why replies could not be read, and in how many cells, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a run as it stands."""

    cells: int
    """Cells that were run."""
    verdicts: int
    signs: tuple[Sign, ...]
    sides_checked: tuple[int, int] = (0, 0)
    """Rows in which a checker read what speeches argue for, and rows with speeches."""
    guess: str = ""
    """How many unread speeches begin as refusals do, a first guess by words; empty for none."""

    @property
    def off(self) -> tuple[Sign, ...]:
        return tuple(sign for sign in self.signs if sign.off)

    def lines(self) -> list[str]:
        """One line of figures, and one for each sign that is off."""
        if not self.cells:
            return ["health: nothing has been run yet"]
        share = self.verdicts / self.cells
        parts = [f"{self.verdicts:,} of {self.cells:,} cells with a verdict ({share:.0%})"]
        for sign in self.signs:
            checked, rows = self.sides_checked if sign.name == "verbal refusals" else (1, 1)
            if not checked:
                parts += [f"{sign.name}: not checked"] * bool(rows)
            elif sign.cells or sign.name not in QUIET:
                share_told = f"{sign.share:.0%}" if sign.share >= 0.005 else "<1%"
                there = sign.cells or sign.name == "label mass"
                causes = ", ".join(f"{cause} {cells:,}" for cause, cells in sign.causes)
                about = causes or f"{checked:,} of {rows:,} rows checked" * (checked < rows)
                share_told = share_told if there else "0"
                parts.append(f"{sign.name} {share_told}{f' ({about})' if about else ''}")
        lines = [f"health: {' · '.join(parts)}"]
        for sign in self.off:
            mass = sign.name == "label mass"
            often = f"mean {sign.share:.0%}" if mass else counted(sign.cells, "cell")
            lines.append(f"  ! {sign.name}: {often}, such as {sign.example}; {sign.advice}")
        return [*lines, *[f"  ! {self.guess}"] * bool(self.guess)]


class HealthCheck:
    """Counts the signs of trouble in outcomes, one after the other."""

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
            its = record.failure
            said = its.raw if its.unread and its.raw else its.message
            unread = COUNTED["refused"] if its.kind == "declined" else "unreadable"
            self._note(unread if its.unread else "failed otherwise", record, said)
            if its.cause and its.kind == "unreadable":
                self._causes[its.cause] += 1
            if its.message.endswith(TRUNCATED_WHILE_REASONING):
                self._note("truncated while thinking", record, said)
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
        signs = []
        for name, cells in self._cells.items():
            share = cells / self._run if self._run else 0.0
            signs.append(self._sign(name, cells, share, cells > 0 and share >= OFF))
        if self._lost:
            judged = sum(self._verdicts[judge] for judge in self._lost)
            mean = 1 - sum(self._lost.values()) / judged
            signs.append(self._sign("label mass", self._low, mean, mean < MIN_CAPTURED_MASS))
        return Health(self._run, self._verdicts.total(), tuple(signs), sides_checked)

    def _sign(self, name: str, cells: int, share: float, off: bool) -> Sign:
        causes = tuple(self._causes.most_common()) if name == "unreadable" else ()
        example, advice = self._examples.get(name, ""), ADVICE[name] * off
        return Sign(name, cells, share, off, example, advice, causes)

    def _note(self, name: str, record: OutcomeRecord, said: str) -> None:
        self._cells[name] += 1
        self._examples.setdefault(name, _cell(record, " ".join(said.split())))


def _cell(record: OutcomeRecord, said: str) -> str:
    text = said if len(said) <= MAX_QUOTE else said[: MAX_QUOTE - 1] + "…"
    return f"{record.protocol}, {record.problem}" + (f": {text!r}" if text else "")
