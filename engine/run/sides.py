"""Which answer each stored speech argues for: the findings of a checker after a run.

The prompt is the prompt of a side check, so that equal checks have one address. Findings are events
of the run: they mark worlds as a side check would have, and change no verdict."""

from collections import Counter
from collections.abc import Mapping, Set
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import orjson
from msgspec.structs import replace

from ...cache.call import Ask, RecordingAsk
from ...protocols import quotes
from ...protocols.errors import gather_deterministic
from ...protocols.quotes import APOSTROPHES, fold, plain_signs
from ...protocols.transcript import SideFinding, Transcript, Turn, Verdict
from ..sweep.grid import Grid
from ..system.files import derived, keep_derived, stamp_of
from .events import read_events
from .outcome import OutcomeRecord
from .record.schema import RUN_DB
from .record.tables import RunTables
from .record.values import RecordedCall, RecordedCell

if TYPE_CHECKING:
    from ...protocols.drafting import SideCheck
    from ..sweep.sweep import Cell

SIDES = "sides"
"""The folder with the ledger of these checks; and the kind of their events."""

SPEECHES = ("speak", "draft", "ask", "answer", "critique")
"""Roles of the calls that are speeches; the other replies with a side are filled-in forms."""

COUNTS = {"off side": "off_side", "candid": "candid", "unclear": "unclear_side"}
"""The name under which a finding is counted."""

REFUSALS = [
    f" {fold(phrase)} "
    for phrase in files(__package__).joinpath("refusals.txt").read_text("utf-8").splitlines()
]
"""Phrases with which models refuse to argue for an answer."""
_OPENINGS = frozenset(tuple(phrase.split()[:2]) for phrase in REFUSALS)
"""The first two words of each phrase."""


class _Words(dict[int, str]):
    """By code of a character, its letters as `fold` compares them, or a space."""

    def __missing__(self, code: int) -> str:
        chars = plain_signs(chr(code)).casefold()
        self[code] = "".join(char if char.isalnum() else " " for char in chars)
        return self[code]


_WORDS = _Words((ord(mark), "'") for mark in APOSTROPHES)

REFUSED_BY = 300
"""Characters from the start of a speech in which a refusal is looked for."""

MAX_GUESSED = 6000
"""Cells that the first guess reads; of a larger run it reads problems at equal steps."""


class SidesRead(msgspec.Struct, frozen=True):
    """The findings on the speeches of one cell, as an event of the run."""

    place: int
    checker: str
    findings: Mapping[int, tuple[str, SideFinding]]
    """By number of the turn, the beginning of its call's address, and the finding."""

    def shown_in(self, cell: RecordedCell) -> RecordedCell:
        """The cell with these findings at its turns."""
        if not isinstance(end := cell.outcome, Verdict):
            return cell
        turns = [*end.transcript.turns]
        for number, (_, finding) in self.findings.items():
            if 0 <= number < len(turns):
                turns[number] = replace(turns[number], check=finding)
        transcript = replace(end.transcript, turns=tuple(turns))
        return replace(cell, outcome=replace(end, transcript=transcript))


_events = msgspec.json.Decoder(SidesRead)


def read_sides(run: Path) -> dict[int, SidesRead]:
    """By place of the cell; where several checkers read it, the last one. RunFolderError."""
    return {event.place: event for event in read_events(run, SIDES, _events)}


def with_sides(record: OutcomeRecord, sides: Mapping[int, SidesRead]) -> OutcomeRecord:
    """An outcome with the findings on its speeches, if a checker read them, among its counts."""
    if (event := sides.get(record.place)) is None:
        return record
    counts = Counter(record.counts)
    counts.update(COUNTS[kind] for _, kind in event.findings.values() if kind in COUNTS)
    return replace(record, counts=counts, sides_read=True)


async def check_cell(
    cell: "Cell", recorded: RecordedCell, check: "SideCheck", ask: Ask
) -> SidesRead:
    """Have each speech read that no side check has; equal speeches are one call."""
    # Here, and not above: reports read findings without the prompts.
    from ...protocols.agents.agent import ADVOCATE

    end, calls = recorded.outcome, {call.address: call for call in recorded.calls}
    turns = end.transcript.turns if isinstance(end, Verdict) else ()
    prompt = replace(ADVOCATE, prompts=cell.row.protocol.prompts)

    async def finding(turn: Turn) -> SideFinding:
        call, side = calls.get(turn.call), turn.side
        if side is None or call is None or call.role not in SPEECHES or turn.check != "unchecked":
            return "unchecked"
        drawn = RecordingAsk(ask, [], _draw(call, recorded))
        # The check of a run reads a speech before its turn is known to be one of several.
        speech, question = replace(turn, at_once=False), cell.problem.question
        read, _ = await check.checked(speech, side, Transcript(question), drawn, prompt)
        return read.check

    findings = {
        number: (turn.call[:16], read)
        for number, (turn, read) in enumerate(
            zip(turns, await gather_deterministic(*map(finding, turns)), strict=True)
        )
        if read != "unchecked"
    }
    return SidesRead(cell.place, check.checker.model, findings)


def _draw(call: RecordedCall, cell: RecordedCell) -> tuple[int, ...]:
    """The draw of a speech. Its first draft has the same, and each other one adds its number."""
    first = "draft", call.seat, call.heard, call.draw[:-1]
    drafts = ((other.role, other.seat, other.heard, other.draw) for other in cell.calls)
    later = call.role == "draft" and call.draw[-1:] > (0,) and first in drafts
    return call.draw[:-1] if later else call.draw


def reads_as_refusal(speech: str) -> bool:
    """Whether a speech begins as refusals do: a first guess by words, for counting alone."""
    start = speech[:REFUSED_BY]
    # A lone apostrophe joins a word. `fold` takes longer, and finds no phrase that this misses.
    joined = start.translate(_WORDS).replace("''", " ").replace("'", "")
    words = joined.split()
    return (
        not _OPENINGS.isdisjoint(pairwise(words))
        and any(map(f" {' '.join(words)} ".__contains__, REFUSALS))
        and any(map(f" {fold(start)} ".__contains__, REFUSALS))
    )


def first_guess(tables: RunTables, sweep: Grid, unchecked: Set[int]) -> tuple[int, int]:
    """(different speeches, those that read as refusals), kept in the user's cache until the run or
    this code changes. unchecked: places of the cells."""
    file = tables.file.resolve()
    sources = [file, file.with_name(f"{RUN_DB}-wal"), *map(Path, (__file__, quotes.__file__))]
    name, stamp = f"refusals {file}", stamp_of(sources, REFUSALS, sorted(unchecked))
    if kept := derived(name, stamp):
        return msgspec.json.decode(kept, type=tuple[int, int])
    counts = _guessed(tables, sweep, unchecked)
    keep_derived(name, stamp, msgspec.json.encode(counts))
    return counts


def _guessed(tables: RunTables, sweep: Grid, unchecked: Set[int]) -> tuple[int, int]:
    turns: dict[int, tuple[int, str | None]] = {}
    step = -(-len(sweep) // MAX_GUESSED)
    starts = range(0, len(sweep.problems), step)
    spans = map(sweep.span, starts) if step > 1 else (range(len(sweep)),)
    for span in spans:
        for stored in tables.ended(span, "turns"):
            if (place := stored.cell.place) not in unchecked:
                continue
            for _, _, _, side, number, text, more in stored.turns:
                if side is None or number is None or number in turns:
                    continue
                details = orjson.loads(more or "{}")
                silent = text == "" or details.get("outcome") == "refused"
                if not (silent or details.get("conceded")):
                    turns[number] = place, text
    # Cells share calls, and few of these are speeches: one cell tells the role of a call.
    calls = tables.asked_rows([(place, number) for number, (place, _) in turns.items()])
    spoken = {number for _, _, number, role, *_ in calls if role in SPEECHES}
    speeches = {number: text for number, (_, text) in turns.items() if number in spoken}
    replies = [number for number, text in speeches.items() if not text]
    speeches |= {row[0]: row[5] for row in tables.stored_calls(replies)}
    return len(speeches), sum(map(reads_as_refusal, filter(None, speeches.values())))
