"""A cell as rows of `cells`, `asked`, `turns` and `judgements`, and back.

A reply is stored once, with its call. The text of a turn or judgement is stored only where it
differs from the call's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, get_type_hints

import msgspec

from ....cache.reply import ToolCall
from ....protocols.doubts import UnreadReply
from ....protocols.question import Answer, Question
from ....protocols.transcript import NOT_RUN as LEFT_OUT
from ....protocols.transcript import Failure, Judgement, Scalar, Transcript, Turn, Verdict
from .schema import FAILED, NOT_RUN, VERDICT, CellRow
from .values import LeftOut, RecordedCall, RecordedCell, RecordedJudgement

Numbers: TypeAlias = Mapping[str, tuple[int, RecordedCall]]
"""By address, the number of a call, and the call."""
Row: TypeAlias = Sequence[Any]
"""The columns of a row but for the checksum, in the order of the table."""

OF_VERDICT = "verdict"
"""`judgements.role` of those that a verdict is made of."""

replied = attrgetter("text", "outcome", "draw", "tool_calls", "reasoning")
"""The answer to a call, without its source."""
_encode = msgspec.json.Encoder().encode
_label_probability = attrgetter("captured")


def outcome_columns(cell: RecordedCell) -> tuple[Any, ...]:
    """The columns of `cells` from `status` to `flags`."""
    end = cell.outcome
    if isinstance(end, Failure) and end.kind != LEFT_OUT:
        words = (end.message, end.raw, end.call, end.seat, end.cause)
        return FAILED, None, end.kind, *[word or None for word in words], *_NONE_OF_VERDICT
    if not isinstance(end, Verdict):
        message = end.reason if isinstance(end, LeftOut) else end.message
        return NOT_RUN, None, None, message, None, None, None, None, *_NONE_OF_VERDICT
    values = (end.redraws, end.bounds, dict(end.measures), cell.counts, cell.unread, end.doubts)
    probs = _encode(end.probs).decode()
    columns = [_encode(value).decode() if value else None for value in values]
    return VERDICT, probs, *_NONE_OF_FAILURE, label_probability(end), *columns


_NONE_OF_FAILURE = (None,) * 6
_NONE_OF_VERDICT = (None,) * 7


def label_probability(end: Verdict) -> float | None:
    """The least probability that the answer labels had together in any reply; None for 1."""
    least = min(map(_label_probability, end.judgements), default=1.0)
    return float(least) if least < 1 else None


def turn_rows(place: int, end: Verdict, answers: Sequence[Answer], numbers: Numbers) -> list[Row]:
    rows: list[Row] = []
    for n, turn in enumerate(end.transcript.turns):
        side, call = turn.side, turn.call
        number, text = _worded(call, turn.text, numbers)
        other = side if side is not None and side not in answers else None
        address = call if number is None else ""
        more = None
        if (
            other
            or address
            or turn != Turn(turn.speaker, turn.text, side, call, drafts=turn.drafts)
        ):
            more = _encode(TurnDetails(*_details_of(turn), other, address)).decode()
        label = side.label if side is not None else None
        rows.append((place, n, turn.speaker, label, number, text, more))
    return rows


def judgement_rows(cell: RecordedCell, numbers: Numbers) -> list[Row]:
    rows: list[Row] = []
    place, end = cell.place, cell.outcome
    for part in end.judgements if isinstance(end, Verdict) else ():
        probs, share = _encode(part.probs).decode(), _share(part.captured)
        number, text = _worded(part.call, part.text, numbers)
        calls = f"[{number}]" if number else _encode([part.call]).decode() if part.call else "[]"
        stop = 1 if part.unknown_stop else None
        columns = (None, None, None, share, text, calls, stop, None)
        rows.append((place, len(rows), OF_VERDICT, "", None, probs, *columns))
    for belief in cell.judgements:
        _, text = _worded(belief.calls[0] if belief.calls else "", belief.text, numbers)
        about = str(numbers[belief.about][0]) if belief.about in numbers else belief.about
        keys = [numbers[call][0] if call in numbers else call for call in belief.calls]
        rows.append(
            (
                *(place, len(rows), belief.role, belief.judge, belief.heard),
                *(_encode(belief.probs).decode(), about or None, belief.side or None),
                *(belief.statement or None, _share(belief.captured), text),
                *(_encode(keys).decode(), None, belief.error or None),
            )
        )
    return rows


def _share(probability: float) -> float | None:
    return None if probability == 1 else float(probability)


def _worded(call: str, text: str, numbers: Numbers) -> tuple[int | None, str | None]:
    """The number of a call, and the text said with it unless it is the call's."""
    entry = numbers.get(call)
    if entry is None:
        return None, text
    return entry[0], None if entry[1].text == text else text


class StoredCell(msgspec.Struct, frozen=True, gc=False):
    """A row of `cells` with the rows of the other tables that were asked for."""

    cell: CellRow
    asked: list[Row] = []
    turns: list[Row] = []
    judgements: list[Row] = []

    @property
    def calls(self) -> set[int]:
        """Numbers of its calls: its turns and judgements name no other ones."""
        return {row[2] for row in self.asked}


def numbers_of(judgement: Row) -> list[int]:
    """Numbers of the calls behind a judgement, without those that the cell did not ask."""
    return [call for call in _calls(judgement[11]) if isinstance(call, int)]


def read_cell(
    stored: StoredCell, question: Question, calls: Mapping[int, RecordedCall]
) -> RecordedCell:
    """calls: by number."""
    row, figures = stored.cell, read_figures(stored.cell)
    judged: list[Judgement] = []
    beliefs: list[RecordedJudgement] = []
    for judgement in stored.judgements:
        if judgement[2] == OF_VERDICT:
            judged.append(_judgement(judgement, calls))
        else:
            beliefs.append(_belief(judgement, calls))
    calls_asked = [
        msgspec.structs.replace(calls[number], role=role, seat=seat, heard=turns_before)
        for _, _, number, role, seat, turns_before in stored.asked
    ]
    end: Verdict | Failure | LeftOut
    if row.status == VERDICT:
        answers = {answer.label: answer for answer in question.answers}
        turns = tuple([read_turn(turn, answers, calls) for turn in stored.turns])
        end = Verdict(
            read_probs(row.probs or ""),
            Transcript(question, turns),
            tuple(judged),
            tuple(figures.measures.items()),
            figures.redraws,
            figures.bounds,
            _doubts(row.flags) if row.flags else (),
        )
    else:
        end = read_failure(row) or LeftOut(row.message or "")
    return RecordedCell(
        *(row.place, row.id, row.row, row.problem, row.side, row.repeat, end, tuple(calls_asked)),
        *(tuple(beliefs), figures.counts, figures.unparsed),
    )


def read_failure(row: CellRow) -> Failure | None:
    """None for a cell that has not failed."""
    if row.status != FAILED:
        return None
    words = (row.message, row.raw, row.call, row.seat, row.cause)
    return Failure(str(row.failure), *[word or "" for word in words])


class CellFigures(msgspec.Struct, frozen=True, gc=False):
    """The figures of a verdict except its probabilities, in the order of `OutcomeRecord`."""

    measures: dict[str, Scalar]
    counts: dict[str, int]
    label_probability: float | None
    redraws: tuple[tuple[float, ...], ...]
    bounds: tuple[tuple[float, float], ...]
    unparsed: dict[str, int]


def read_figures(row: CellRow) -> CellFigures:
    return CellFigures(
        _measures(row.measures) if row.measures else {},
        _counts(row.counts) if row.counts else {},
        row.label_probability,
        _redraws(row.redraws) if row.redraws else (),
        _bounds(row.bounds) if row.bounds else (),
        _counts(row.unparsed) if row.unparsed else {},
    )


def read_turn(row: Row, answers: Mapping[str, Answer], calls: Mapping[int, RecordedCall]) -> Turn:
    _, _, speaker, label, number, text, more = row
    words = calls[number].text if text is None else text
    address = "" if number is None else calls[number].address
    if more is None:
        return Turn(speaker, words, answers[label] if label is not None else None, address)
    details: Any = _details(more)
    side = details.answer or (answers[label] if label is not None else None)
    details_by_name = dict(zip(_DETAILS, _details_of(details), strict=True))
    return Turn(speaker, words, side, address or details.address, **details_by_name)


def _judgement(row: Row, calls: Mapping[int, RecordedCall]) -> Judgement:
    probs, share, stop = read_probs(row[5]), row[9], bool(row[12])
    addresses, words = _named(row, calls)
    return Judgement(probs, "".join(addresses), words, 1.0 if share is None else share, stop)


def _belief(row: Row, calls: Mapping[int, RecordedCall]) -> RecordedJudgement:
    _, _, role, judge, turns, probs, about, side, statement, share, _, _, _, error = row
    addresses, words = _named(row, calls)
    # An address has 64 digits.
    heard_last = calls[int(about)].address if about and len(about) < 64 else about or ""
    return RecordedJudgement(
        *(role, judge, turns, read_probs(probs), heard_last, side or "", statement or ""),
        *(1.0 if share is None else share, words, addresses, error or ""),
    )


def _named(row: Row, calls: Mapping[int, RecordedCall]) -> tuple[tuple[str, ...], str]:
    """Addresses of the calls behind a judgement, and the judge's words."""
    text, keys = row[10], _calls(row[11])
    addresses = tuple([calls[key].address if isinstance(key, int) else key for key in keys])
    return addresses, calls[keys[0]].text if text is None else text


def call_columns(call: RecordedCall) -> tuple[Any, ...]:
    """The columns of `calls` from `outcome` on."""
    cost = call.cost
    return (
        *(call.outcome, cost.stop_reason, call.text, call.reasoning or None),
        _encode(call.tool_calls).decode() if call.tool_calls else None,
        _encode(call.draw).decode() if call.draw else None,
        *(cost.origin, cost.input_tokens, cost.output_tokens, cost.cache_read_tokens),
        *(cost.cache_write_tokens, cost.dollars, cost.at),
    )


def read_tool_calls(text: str | None) -> tuple[ToolCall, ...]:
    return _tool_calls(text) if text else ()


def read_draw(text: str | None) -> tuple[int, ...]:
    return _draw(text) if text else ()


def withdrawn(stored: StoredCell, calls: set[int], placeholder: str) -> StoredCell:
    """A cell in which nothing is left of the replies to these calls."""
    turns = [
        (*row[:5], placeholder, _side_alone(row[6])) if row[4] in calls else row
        for row in stored.turns
    ]
    judgements = [
        _withdrawn_judgement(row, placeholder) if calls.intersection(numbers_of(row)) else row
        for row in stored.judgements
    ]
    return StoredCell(stored.cell._replace(flags=None), stored.asked, turns, judgements)


def _withdrawn_judgement(row: Row, placeholder: str) -> Row:
    error = None if row[2] == OF_VERDICT else "withdrawn"
    return (*row[:5], "[]", *row[6:8], None, None, placeholder, row[11], None, error)


def _side_alone(more: str | None) -> str | None:
    details: Any = _details(more) if more else None
    if details is None or details.answer is None:
        return None
    return _encode(TurnDetails(answer=details.answer)).decode()


def _turn_fields() -> Iterable[tuple[str, Any, Any]]:
    """The fields of a turn without a column in `turns`."""
    default = Turn("", "")
    for name, kind in get_type_hints(Turn).items():
        # Of drafts that nobody heard, the calls are recorded.
        if name not in ("speaker", "text", "side", "call", "drafts"):
            yield name, kind, getattr(default, name)


_FIELDS = tuple(_turn_fields())
_DETAILS = tuple(name for name, _, _ in _FIELDS)
_details_of = attrgetter(*_DETAILS)
TurnDetails = msgspec.defstruct(
    "TurnDetails",
    [*_FIELDS, ("answer", Answer | None, None), ("address", str, "")],
    rename={"forged": "spoofed", "doubts": "flags"},
    omit_defaults=True,
    gc=False,
)
"""The column `more` of `turns`: fields of a turn that differ from their defaults, an answer that is
not one of the question's, and the address of a call that the cell did not ask."""


def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind).decode


read_probs = _decoder(tuple[float, ...])
_redraws = _decoder(tuple[tuple[float, ...], ...])
_bounds = _decoder(tuple[tuple[float, float], ...])
_measures = _decoder(dict[str, Scalar])
_counts = _decoder(dict[str, int])
_doubts = _decoder(tuple[UnreadReply, ...])
_details = _decoder(TurnDetails)
_calls: Callable[[str], list[Any]] = _decoder(list[int | str])
_tool_calls = _decoder(tuple[ToolCall, ...])
_draw = _decoder(tuple[int, ...])
