"""A cell as a row of `cells`, and back: figures in columns, all that was said as one packed value.

A reply is packed once, with its call; a turn or a judgement whose words are those of its call's
reply names the call alone.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, get_type_hints

import msgspec
import orjson
import zstandard
from msgspec.structs import asdict, replace

from ....cache.record import zstd
from ....cache.reply import Outcome, ToolCall
from ....protocols.doubts import Doubt
from ....protocols.question import Answer, Question
from ....protocols.transcript import NOT_RUN, Failure, Judgement, Scalar, Transcript, Turn, Verdict
from .values import NotRun, RecordedCall, RecordedCell, RecordedJudgement

LARGEST = 64 << 20
"""Bytes; a value that claims to be larger is refused, not unpacked."""
Numbers: TypeAlias = Mapping[str, tuple[int, RecordedCall]]
"""By address, the number of a call, and what was answered."""
CallKey: TypeAlias = int | str
"""The number of a call; of one that the cell did not ask itself, its address, or nothing."""


class Figures(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the column `more` says of a cell with a verdict."""

    measures: Mapping[str, Scalar] = {}
    counts: Mapping[str, int] = {}
    captured: float | None = None
    redraws: tuple[tuple[float, ...], ...] = ()
    bounds: tuple[tuple[float, float], ...] = ()
    unread: Mapping[str, int] = {}


class Replied(msgspec.Struct, array_like=True, omit_defaults=True, frozen=True, gc=False):
    """What a model answered; equal for equal answers."""

    text: str
    outcome: Outcome = "ok"
    draw: tuple[int, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""


class _Said(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """A turn."""

    speaker: str
    text: str | None
    """None: as the call's reply."""
    side: int | tuple[str, str, str] | None = None
    """Place of the answer; or an answer that is none of the question's."""
    call: CallKey = ""
    rest: dict[str, Any] = {}
    """By field of a turn, what is not as it is by default."""


class _Judged(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """A judgement that a verdict is made of."""

    probs: tuple[float, ...]
    call: CallKey = ""
    text: str | None = None
    captured: float = 1.0
    unknown_stop: bool = False


class _Believed(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """A `RecordedJudgement`, field by field."""

    role: str
    judge: str
    heard: int
    probs: tuple[float, ...] = ()
    about: CallKey = ""
    side: str = ""
    statement: str = ""
    captured: float = 1.0
    text: str | None = None
    calls: tuple[CallKey, ...] = ()
    error: str = ""


class Body(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    calls: tuple[int, ...]
    """(part, call) of each call, one pair after the other."""
    turns: tuple[_Said, ...] = ()
    judgements: tuple[_Judged, ...] = ()
    beliefs: tuple[_Believed, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def pack(raw: bytes) -> bytes:
    packed = zstd.pack(raw)
    return b"\1" + packed if len(packed) < len(raw) else b"\0" + raw


def unpack(packed: bytes) -> bytes:
    """ValueError for what is no packed value."""
    way, frame = packed[:1], packed[1:]
    if way == b"\0":
        return frame
    if way != b"\1":
        raise ValueError(f"a value packed in a way, {way!r}, that is not known")
    try:
        # Checked before unpacking: a small value may expand to a huge one.
        if (size := zstandard.frame_content_size(frame)) > LARGEST:
            raise ValueError(f"a value that claims to have {size:,} bytes")
        return zstd.unpack(frame)
    except zstandard.ZstdError as exc:
        raise ValueError(f"a value that cannot be unpacked: {exc}") from exc


def replied(call: RecordedCall) -> Replied:
    """The answer to a call, apart from who gave it."""
    return Replied(call.text, call.outcome, call.draw, call.tool_calls, call.reasoning)


def packed_floats(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def unpacked_floats(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def figures(end: Verdict, counts: Mapping[str, int], unread: Mapping[str, int]) -> Figures:
    """What is said of a verdict beside its probabilities."""
    captured = min(map(_captured, end.judgements), default=1.0)
    less = captured if captured < 1 else None
    return Figures(dict(end.measures), counts, less, end.redraws, end.bounds, unread)


def figures_of(cell: RecordedCell) -> tuple[int, bytes | None, str | None, str | None]:
    """The columns status, probs, failure and more of a cell."""
    end = cell.outcome
    if isinstance(end, Verdict):
        told = figures(end, cell.counts, cell.unread)
        more = None if told == NO_FIGURES else msgspec.json.encode(told).decode()
        return 0, packed_floats(end.probs), None, more
    if isinstance(end, Failure) and end.kind != NOT_RUN:
        why = (end.message, end.raw, end.call, end.seat, end.cause)
        return 1, None, end.kind, orjson.dumps(why).decode()
    return 2, None, None, end.reason if isinstance(end, NotRun) else end.message


def body_of(
    cell: RecordedCell,
    question: Question,
    asked: Sequence[int],
    numbers: Numbers,
) -> bytes:
    """What was said in a cell, not packed yet. asked: `Body.calls`."""
    end = cell.outcome
    turns: list[_Said] = []
    judged: list[_Judged] = []
    doubts: tuple[Doubt, ...] = ()
    if isinstance(end, Verdict):
        for turn in end.transcript.turns:
            turns.append(_said(turn, question.answers, numbers))
        for each in end.judgements:
            words = _worded(each.call, each.text, numbers)
            judged.append(_Judged(each.probs, *words, each.captured, each.unknown_stop))
        doubts = end.doubts
    beliefs = tuple([_believed(each, numbers) for each in cell.judgements])
    return _encode(Body(tuple(asked), tuple(turns), tuple(judged), beliefs, doubts))


def read_body(packed: bytes) -> Body:
    return _body.decode(packed)


def read_figures(more: str | None) -> Figures:
    return NO_FIGURES if more is None else _figures.decode(more)


def cell_end(
    status: int,
    probs: bytes | None,
    failure: str | None,
    more: str | None,
    body: Body,
    question: Question,
    calls: Mapping[int, RecordedCall],
) -> Verdict | Failure | NotRun:
    """What became of a cell. calls: by number."""
    if status == 1:
        return Failure(str(failure), *orjson.loads(more or "[]"))
    if status:
        return NotRun(more or "")
    told = read_figures(more)
    return Verdict(
        unpacked_floats(probs or b""),
        Transcript(question, tuple([_turn(each, question.answers, calls) for each in body.turns])),
        tuple([_judgement(each, calls) for each in body.judgements]),
        tuple(told.measures.items()),
        told.redraws,
        told.bounds,
        body.doubts,
    )


def beliefs_of(body: Body, calls: Mapping[int, RecordedCall]) -> tuple[RecordedJudgement, ...]:
    found = []
    for each in body.beliefs:
        told = asdict(each)
        told["about"] = _address(each.about, calls)
        told["text"] = _words(each.text, next(iter(each.calls), ""), calls)
        told["calls"] = tuple([_address(call, calls) for call in each.calls])
        found.append(RecordedJudgement(**told))
    return tuple(found)


def spoken(body: Body) -> list[tuple[int | None, CallKey, str | None, str]]:
    """All that others read: (number of the turn, or None for a judgement; call; text, or None where
    it is the reply's; reasoning beside it)."""
    said: list[tuple[int | None, CallKey, str | None, str]] = [
        (n, each.call, each.text, each.rest.get("reasoning", ""))
        for n, each in enumerate(body.turns)
    ]
    said += [(None, each.call, each.text, "") for each in body.judgements]
    said += [(None, next(iter(each.calls), ""), each.text, "") for each in body.beliefs]
    return said


def without(body: Body, calls: set[int], placeholder: str) -> bytes:
    """A body in which nothing is left of the replies to these calls."""
    turns = tuple(
        _Said(each.speaker, placeholder, each.side, each.call) if each.call in calls else each
        for each in body.turns
    )
    judged = tuple(
        _Judged((), each.call, placeholder) if each.call in calls else each
        for each in body.judgements
    )
    beliefs = tuple(
        replace(each, probs=(), statement="", captured=1.0, text=placeholder, error="withdrawn")
        if calls.intersection(each.calls)
        else each
        for each in body.beliefs
    )
    return _encode(Body(body.calls, turns, judged, beliefs))


def _said(turn: Turn, answers: Sequence[Answer], numbers: Numbers) -> _Said:
    side: int | tuple[str, str, str] | None = None
    if turn.side is not None:
        argued = turn.side
        own = argued in answers
        side = answers.index(argued) if own else (argued.label, argued.text, argued.work)
    call, text = _worded(turn.call, turn.text, numbers)
    plain = Turn(turn.speaker, turn.text, turn.side, turn.call, drafts=turn.drafts)
    if turn == plain:
        return _Said(turn.speaker, text, side, call)
    rest = {
        name: value
        for name, default in _DEFAULTS.items()
        if (value := getattr(turn, name)) != default
    }
    return _Said(turn.speaker, text, side, call, rest)


def _believed(each: RecordedJudgement, numbers: Numbers) -> _Believed:
    told = asdict(each)
    told["about"] = _key(each.about, numbers)
    _, told["text"] = _worded(next(iter(each.calls), ""), each.text, numbers)
    told["calls"] = tuple([_key(call, numbers) for call in each.calls])
    return _Believed(**told)


def _key(call: str, numbers: Numbers) -> CallKey:
    return numbers[call][0] if call in numbers else call


def _worded(call: str, text: str, numbers: Numbers) -> tuple[CallKey, str | None]:
    """A call and the words said with it, as they are kept."""
    known = numbers.get(call)
    if known is None:
        return call, text
    return known[0], None if known[1].text == text else text


def _turn(said: _Said, answers: Sequence[Answer], calls: Mapping[int, RecordedCall]) -> Turn:
    side = said.side
    argued = None
    if side is not None:
        argued = answers[side] if isinstance(side, int) else Answer(*side)
    rest = said.rest
    if rest:
        rest = {name: msgspec.convert(value, _KINDS[name]) for name, value in rest.items()}
    text = _words(said.text, said.call, calls)
    return Turn(said.speaker, text, argued, _address(said.call, calls), **rest)


def _judgement(each: _Judged, calls: Mapping[int, RecordedCall]) -> Judgement:
    text = _words(each.text, each.call, calls)
    address = _address(each.call, calls)
    return Judgement(each.probs, address, text, each.captured, each.unknown_stop)


def _words(text: str | None, call: CallKey, calls: Mapping[int, RecordedCall]) -> str:
    return text if text is not None else calls[call].text if isinstance(call, int) else ""


def _address(call: CallKey, calls: Mapping[int, RecordedCall]) -> str:
    return calls[call].address if isinstance(call, int) else call


NO_FIGURES = Figures()
_captured = attrgetter("captured")
_DEFAULTS = {
    name: getattr(Turn("", ""), name)
    for name in get_type_hints(Turn)
    # Of drafts that nobody heard, the calls are recorded.
    if name not in ("speaker", "text", "side", "call", "drafts")
}
_KINDS: dict[str, Any] = get_type_hints(Turn)
_encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
_body = msgspec.msgpack.Decoder(Body)
_figures = msgspec.json.Decoder(Figures)
encoded_reply = _encode
read_reply: Callable[[bytes], Replied] = msgspec.msgpack.Decoder(Replied).decode
