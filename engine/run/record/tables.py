"""A record read back: the rows of its tables as the values that were written."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
import orjson
from msgspec.structs import replace

from ....cache.reply import ToolCall
from ....protocols.doubts import Doubt
from ....protocols.question import Answer, Problem, Question
from ....protocols.quotes import Quote
from ....protocols.transcript import Failure, Judgement, ToolUse, Transcript, Turn, Verdict
from .errors import RecordDamaged
from .schema import (
    ALOUD,
    AT_ONCE,
    CHECK_BIT,
    CHECKS,
    CONCEDED,
    CUT,
    ORIGINS,
    OUTCOME_BIT,
    OUTCOMES,
    faulty,
    open_to_read,
)
from .texts import Unpacker
from .values import (
    CallCost,
    NotRun,
    RecordedCall,
    RecordedCell,
    RecordedJudgement,
)
from .varints import unpack_floats, unpack_ids, unpack_pairs

_problems = msgspec.json.Decoder(Problem)

_CELLS = (
    "SELECT place, id, row, problem, side, draw, status, conversation, probs, captured, measures,"
    " redraws, failure, cause, judgements, readings, calls, rewards, included, why,"
    " unread, doubts FROM cells"
)


class RecordTables:
    """Reads a record by the numbers of its rows. RunFolderError for one that is damaged."""

    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        """file: names the record in errors."""
        self.db = db
        self._file = file

    @classmethod
    def open(cls, file: Path) -> Self:
        """A record to be read; a context manager that closes it. RunFolderError."""
        return cls(open_to_read(file), file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.db.close()

    def setting(self, name: str) -> Any:
        """What is known of the run under a name; None if nothing is."""
        return next(
            (value for (value,) in self.query("SELECT value FROM meta WHERE key=?", name)), None
        )

    @cached_property
    def meta(self) -> dict[str, Any]:
        """What is known of the run, by name."""
        return dict(self.query("SELECT key, value FROM meta"))

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """By number."""
        return tuple(
            self._problem(body, passage)
            for body, passage in self.query("SELECT body, passage FROM problems ORDER BY problem")
        )

    @cached_property
    def questions(self) -> Sequence[Question]:
        """By number; a reader that has the problems already sets its own."""
        return [problem.question for problem in self.problems]

    def text(self, number: int | None) -> str:
        """A text by its number; empty for None."""
        if number is None:
            return ""
        for (body,) in self.fetched("SELECT body FROM texts WHERE text=?", number):
            return self.unpacked(body)
        raise RecordDamaged(self._file, f"text {number} is missing")

    def texts(self, first: int = 1) -> Iterator[tuple[int, str]]:
        """(number, text) of every text from the first on, in the order of the numbers."""
        for number, body in self.query(
            "SELECT text, body FROM texts WHERE text>=? ORDER BY text", first
        ):
            yield number, self.unpacked(body)

    def places(self) -> Iterator[tuple[int, int]]:
        """(place, status as a number of `STATUSES`) of every recorded cell, in order."""
        return self.query("SELECT place, status FROM cells ORDER BY place")

    def cells(self, places: Iterable[int] | None = None) -> Iterator[RecordedCell]:
        """The cells at these places that are recorded, or all, in the order given, or the
        sweep's."""
        if places is None:
            yield from map(self._cell, self.query(f"{_CELLS} ORDER BY place"))
            return
        # Worlds of one problem share calls, and whoever asks for some cells asks for its worlds.
        known: dict[tuple[int, int], RecordedCall] = {}
        for place in places:
            for row in self.fetched(f"{_CELLS} WHERE place=?", place):
                yield self._cell(row, known)

    def turns(self, conversation: int, answers: Sequence[Answer]) -> tuple[Turn, ...]:
        """What was said in a conversation. answers: of its question."""
        return tuple(
            self._turn(row, answers)
            for row in self.query(
                "SELECT value, side, turns.text, address, turns.reasoning, flags, forged,"
                " retries, extra FROM turns JOIN names ON name = speaker"
                " LEFT JOIN calls USING(call) WHERE conversation=? ORDER BY n",
                conversation,
            )
        )

    def call(self, number: int, part: int) -> RecordedCall:
        """A call by its number, in the part that a cell gave it."""
        for (
            address,
            model,
            identity,
            served,
            draw,
            outcome,
            text,
            tools,
            stop,
            *took,
        ) in self.fetched(
            "SELECT address, model, identity, endpoints.served, draw, outcome, text, tools, value,"
            " tokens_in, tokens_out, cache_read, cache_write, dollars, origin, at, "
            "came, elsewhere, reasoning FROM calls JOIN endpoints USING(endpoint)"
            " LEFT JOIN names ON name = stop WHERE call=?",
            number,
        ):
            sent, said, read, written, dollars, origin, at, came, elsewhere, reasoning = took
            tokens = (sent, said, read, written)
            whence = (ORIGINS[origin], at, came, bool(elsewhere))
            return RecordedCall(
                address.hex(),
                model,
                *self._parts[part],
                tuple(map(int, draw.split("."))) if draw else (),
                self.text(text),
                OUTCOMES[outcome or 0],
                tuple(ToolCall(*each) for each in orjson.loads(tools or "[]")),
                CallCost(identity, served, stop or "", *tokens, dollars, *whence),
                self.text(reasoning),
            )
        raise RecordDamaged(self._file, f"call {number} is missing")

    def query(self, sql: str, *values: int | str | bytes) -> Iterator[Any]:
        """Rows of a query, read one at a time. RunFolderError for an error of SQLite's."""
        try:
            yield from self.db.execute(sql, values)
        except sqlite3.Error as exc:
            raise faulty(self._file, exc) from exc

    def fetched(self, sql: str, *values: int | str | bytes) -> list[Any]:
        """All rows of a query in one list: a third of the time of `query` where there are few."""
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as exc:
            raise faulty(self._file, exc) from exc

    @cached_property
    def _unpacker(self) -> Unpacker:
        return Unpacker(dict(self.query("SELECT dictionary, body FROM dictionaries")))

    @cached_property
    def _names(self) -> dict[int, str]:
        return dict(self.query("SELECT name, value FROM names"))

    @cached_property
    def _parts(self) -> dict[int, tuple[str, str, int]]:
        return {n: (*part,) for n, *part in self.query("SELECT part, role, seat, heard FROM parts")}

    def unpacked(self, body: bytes) -> str:
        try:
            if not self._unpacker.knows(body):
                # The writer may train a dictionary while somebody reads, and pack all again.
                del self._unpacker
            return self._unpacker.unpack(body)
        except ValueError as exc:
            raise RecordDamaged(self._file, str(exc)) from exc

    def _problem(self, body: int, passage: int | None) -> Problem:
        try:
            problem = _problems.decode(self.text(body))
        except (msgspec.DecodeError, ValueError) as exc:
            raise RecordDamaged(self._file, f"a problem of it cannot be read: {exc}") from exc
        if passage is None:
            return problem
        question = replace(problem.question, passage=self.text(passage))
        return replace(problem, question=question)

    def _cell(
        self, row: Sequence[Any], known: dict[tuple[int, int], RecordedCall] | None = None
    ) -> RecordedCell:
        """known: calls that were read already, by number and part."""
        calls_read = {} if known is None else known
        place, id, number, problem, side, draw, status, *end, readings, calls = row[:17]
        rewards, included, why, unread, doubts = row[17:]
        question = self.questions[problem]
        asked = list(unpack_pairs(calls))
        for part, call in asked:
            if (call, part) not in calls_read:
                calls_read[call, part] = self.call(call, part)
        outcome: Verdict | Failure | NotRun
        if status == 0:
            outcome = replace(
                self._verdict(end, question),
                bounds=tuple(map(tuple, orjson.loads(unread or "{}").get("bounds", ()))),
                doubts=msgspec.convert(orjson.loads(doubts or "[]"), tuple[Doubt, ...]),
            )
        elif status == 1:
            outcome = Failure(end[5], *orjson.loads(end[6]))
        else:
            outcome = NotRun(end[6])
        return RecordedCell(
            place,
            id.hex(),
            number,
            problem,
            side,
            draw,
            outcome,
            tuple(calls_read[call, part] for part, call in asked),
            tuple(self._reading(each, question.answers) for each in unpack_ids(readings)),
            rewards or "",
            None if included is None else bool(included),
            why or "",
        )

    def _verdict(self, end: Sequence[Any], question: Question) -> Verdict:
        conversation, probs, _, measures, redraws, _, _, judgements = end
        turns = () if conversation is None else self.turns(conversation, question.answers)
        return Verdict(
            unpack_floats(probs),
            Transcript(question, turns),
            tuple(map(self._made_of, unpack_ids(judgements))),
            tuple(orjson.loads(measures or "{}").items()),
            tuple(map(tuple, orjson.loads(redraws or "[]"))),
        )

    def _made_of(self, number: int) -> Judgement:
        _, _, _, _, _, _, probs, captured, text, calls, _ = self._judgement(number)
        # Of a call that the cell did not ask itself, the address stands there.
        call = calls.decode() if len(calls) == ADDRESS else self._address(unpack_ids(calls))
        return Judgement(unpack_floats(probs), call, self.text(text), captured)

    def _reading(self, number: int, answers: Sequence[Answer]) -> RecordedJudgement:
        role, judge, heard, about, side, statement, probs, captured, text, calls, error = (
            self._judgement(number)
        )
        return RecordedJudgement(
            self._names[role],
            self._names.get(judge, ""),
            heard,
            unpack_floats(probs),
            self._address(() if about is None else (about,)),
            "" if side is None else answers[side].label,
            self.text(statement),
            captured,
            self.text(text),
            tuple(self._address((call,)) for call in unpack_ids(calls)),
            error or "",
        )

    def _judgement(self, number: int) -> tuple[Any, ...]:
        for role, judge, heard, about, side, statement, probs, captured, *rest in self.fetched(
            "SELECT role, judge, heard, about, side, statement, probs, captured, text, calls, error"
            " FROM judgements WHERE judgement=?",
            number,
        ):
            text, calls, error = rest
            certain = 1.0 if captured is None else captured
            words = (text, calls or b"", error)
            return (role, judge, heard, about, side, statement, probs or b"", certain, *words)
        raise RecordDamaged(self._file, f"judgement {number} is missing")

    def _address(self, calls: Sequence[int]) -> str:
        """Address of the first of some calls; empty if there is none."""
        for number in calls[:1]:
            for (address,) in self.fetched("SELECT address FROM calls WHERE call=?", number):
                return _hex(address)
        return ""

    def _turn(self, row: Sequence[Any], answers: Sequence[Answer]) -> Turn:
        speaker, side, text, address, reasoning, flags, forged, retries, extra = row
        more = orjson.loads(extra) if extra else {}
        argued = None if side is None else answers[side]
        return Turn(
            speaker,
            self.text(text),
            Answer(*more["side"]) if "side" in more else argued,
            more.get("call", _hex(address)),
            tuple(ToolUse(*use) for use in more.get("tools", ())),
            OUTCOMES[flags >> OUTCOME_BIT],
            forged or 0,
            bool(flags & CUT),
            tuple(Quote(*quote) for quote in more.get("quotes", ())),
            bool(flags & CONCEDED),
            CHECKS[flags >> CHECK_BIT & 3],
            retries or 0,
            self.text(reasoning),
            bool(flags & ALOUD),
            bool(flags & AT_ONCE),
            doubts=msgspec.convert(more.get("doubts", ()), tuple[Doubt, ...]),
            hidden=more.get("hidden", 0),
        )


ADDRESS = 64
"""Hex digits of an address."""


def _hex(digest: bytes | None) -> str:
    return (digest or b"").hex()
