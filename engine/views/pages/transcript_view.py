"""Readings: the transcripts of one problem under one row, world by world, from the record."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import ceil
from shlex import quote
from typing import TypeAlias

from markupsafe import Markup

from ....cache.call import Call
from ....cache.reply import Reply, Usage
from ....protocols.question import Answer, Problem
from ....protocols.scores import ALL_SCORES
from ....protocols.transcript import Failure, Judgement, Turn, Verdict
from ...analysis.reports.aggregate import problem_score
from ...analysis.reports.health import called
from ...display.text import counted, dollars
from ...providers.simulated import PREFIX
from ...run.lookup import NOT_YET
from ...run.probing import best_mass
from ...run.reader import Place, RunReader
from ...run.record.values import (
    CellEnd,
    LeftOut,
    RecordedCall,
    RecordedCell,
    RecordedJudgement,
    turns_of,
)
from ...sweep.grid import GridRow, baselines
from .marked_text import differing, quoted, shown
from .rendered import rendered

Beliefs: TypeAlias = Mapping[int, Sequence[tuple[int, float]]]


TURNS_A_PAGE = 100
"""Turns of each world on one page."""

MAX_PAGE_TEXT = 150_000
"""Maximum total bytes of markup of the texts of a page. Longer texts are cut, and are in full on
the page of requests and replies."""


DRAFT = "draft"
"""Role of the calls from which a turn is chosen."""

MIN_TEXT = 300
"""Minimum bytes of markup granted to each text."""

MIN_CHANGE = 0.05
"""Smallest change of P(true) after which a turn is marked."""


@dataclass(frozen=True, slots=True)
class CallView:
    """One call of a world."""

    call: RecordedCall
    dollars: float | None
    """None where no price is known."""
    request: Call | None = None
    """As the store has it; None where no store is at hand."""
    reply: Reply | None = None

    @property
    def address(self) -> str:
        return self.call.address


@dataclass(frozen=True, slots=True)
class DraftView:
    """One candidate for a turn."""

    text: Markup
    address: str
    chosen: bool
    rating: float | None
    """P(the side that it argues for), as the selection judge had it; None where it was not read."""


@dataclass(frozen=True, slots=True)
class BeliefView:
    """The judge's belief after a turn."""

    p: float
    """P(a best answer)."""
    change: float | None
    """Since the turn before; None if the belief before it is unknown."""
    largest: bool
    """Whether no other turn of the world changed the belief more."""


def beliefs_by_turn(path: Sequence[tuple[int, float]]) -> dict[int, BeliefView]:
    """The beliefs by number of turns heard. path: (turns heard, P(a best answer)), in order."""
    changes = {n: p - before for (m, before), (n, p) in pairwise(path) if n == m + 1}
    largest = max(changes, key=lambda n: abs(changes[n]), default=None)
    if largest is not None and abs(changes[largest]) < MIN_CHANGE:
        largest = None
    return {n: BeliefView(p, changes.get(n), n == largest) for n, p in path}


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn, ready to be shown."""

    number: int
    """From 1."""
    turn: Turn
    text: Markup
    rendered: Markup
    """With its Markdown; empty if it has none."""
    tools: tuple[tuple[str, Markup, Markup, bool], ...]
    """(tool, arguments, result, failed)."""
    marks: tuple[tuple[str, str], ...]
    """(kind, words) of each remark on the turn."""
    call_view: CallView | None
    shared: bool
    """Whether the other world has the same call."""
    good: bool | None
    """Whether it argues for a best answer; None where it takes no side."""
    drafts: tuple[DraftView, ...] = ()
    """The candidates that it was chosen from, itself included; () for a single one."""


End: TypeAlias = tuple[CellEnd, dict[str, CallView], tuple[RecordedJudgement, ...]]
"""The end of a cell, its calls by address, and the judgements before its verdict."""


@dataclass(frozen=True, slots=True)
class JudgementView:
    """A judgement, ready to be shown."""

    judgement: Judgement
    text: Markup
    call_view: CallView | None


@dataclass(frozen=True, slots=True)
class World:
    """One world of a problem."""

    answer: Answer
    best: bool
    outcome: CellEnd
    failure_text: Markup
    """Message of the failure, if any."""
    turns: tuple[TurnView, ...]
    """Turns on this page."""
    count: int
    """Turns on all pages."""
    judged: tuple[JudgementView, ...]
    score: float | None
    calls: tuple[CallView, ...]
    read: str
    """Address of the call that the verdict was read from; empty where no judge was asked."""
    beliefs: Mapping[int, BeliefView]
    """By number of turns heard, from 0 to all of them; empty without a verdict."""

    @property
    def verdict(self) -> Verdict | None:
        return self.outcome if isinstance(self.outcome, Verdict) else None

    @property
    def failure(self) -> Failure | None:
        return self.outcome if isinstance(self.outcome, Failure) else None

    @property
    def missing(self) -> str:
        """Why the world has no transcript."""
        return self.outcome.reason if isinstance(self.outcome, LeftOut) else ""

    @property
    def kind(self) -> str:
        return called(self.outcome.kind) if isinstance(self.outcome, Failure) else ""

    @property
    def usage(self) -> Usage:
        return Usage(
            sum(call.call.cost.input_tokens for call in self.calls),
            sum(call.call.cost.output_tokens for call in self.calls),
        )

    @property
    def dollars(self) -> float | None:
        prices = [call.dollars for call in self.calls if call.dollars is not None]
        return sum(prices) if prices else None


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """All worlds of one problem under one row, in one draw."""

    place: Place
    row: GridRow
    problem: Problem
    worlds: tuple[World, ...]
    score: str
    asd: float | None
    state: str
    """`imputed`, `failed`, `not run`, or empty for a measurement of all worlds."""
    page: int
    pages: int
    probed: bool
    """Whether the judge was asked after each turn."""
    shared: int
    """Number of leading turns on this page that are the same in all worlds."""
    alike: bool
    """Whether all turns are the same in all worlds."""
    single: bool
    """Whether one column shows them."""
    prefixes: int
    """Number of distinct beginnings of its transcripts, which a probe asks the judge about."""

    @property
    def one_verdict(self) -> bool:
        """Whether all worlds have the same verdict from the same calls."""
        first, *others = (world.verdict for world in self.worlds)
        return all(
            o and first and (o.judgements, o.probs) == (first.judgements, first.probs)
            for o in others
        )

    @property
    def at_once(self) -> bool:
        return any(spoken.turn.at_once for world in self.worlds for spoken in world.turns)

    @property
    def lines(self) -> list[tuple[TurnView | None, ...]]:
        """The turns of all worlds, side by side. A failed world has one line more."""
        longest = max(len(world.turns) + (world.failure is not None) for world in self.worlds)
        return [
            tuple(world.turns[n] if n < len(world.turns) else None for world in self.worlds)
            for n in range(longest)
        ]

    @property
    def calls(self) -> tuple[CallView, ...]:
        """Every distinct call of all worlds."""
        return tuple({call.address: call for w in self.worlds for call in w.calls}.values())

    @property
    def titles(self) -> dict[str, str]:
        """Each call in words, by address: its worlds, seat, turn, and which draft it is."""
        worlds: dict[str, list[str]] = {}
        for world in self.worlds:
            for call in world.calls:
                worlds.setdefault(call.address, []).append(world.answer.label)
        return {call.address: _title(call.call, worlds[call.address]) for call in self.calls}

    @property
    def controls(self) -> bool:
        return any('class="ctl"' in spoken.text for w in self.worlds for spoken in w.turns)


def probe_advice(run: RunReader, one: TranscriptView) -> tuple[str, str] | None:
    """The command that probes a reading, with calls and price; None if probed or without turns."""
    judged = next((world.judged for world in one.worlds if world.verdict), ())
    if one.probed or not judged or not one.prefixes:
        return None
    row, limit = one.row, one.place.problem + 1
    parts = (("protocol", row.shown), ("agent", row.shown_agent), ("judge", row.shown_judge))
    words = ["oversight measure probe", quote(run.name)]
    words += [f"--{name} {quote(text)}" for name, text in parts if text]
    calls = [judgement.call_view for judgement in judged if judgement.call_view]
    count = limit * one.prefixes * max(len(calls), 1)
    prices = [call.dollars for call in calls if call.dollars is not None]
    if calls and all(call.call.model.startswith(PREFIX) for call in calls):
        price = "simulated"
    else:
        price = f"at most {dollars(limit * one.prefixes * sum(prices))}" if prices else "no price"
    about = f"{'about ' if limit > 1 else ''}{counted(count, 'call')}"
    return " ".join([*words, f"--limit {limit}"]), f"{about}, {price}"


def _title(call: RecordedCall, worlds: Sequence[str]) -> str:
    parts = [f"world{'s' * (len(worlds) > 1)} {' and '.join(worlds)}", call.seat or call.role]
    parts += [f"turn {call.heard + 1}" if call.role != "judgement" else f"after {call.heard}"]
    parts += [call.role] if call.role and call.role != call.seat else []
    # The first number is the sweep's draw, which all calls of a reading share.
    if drawn := ".".join(str(n + 1) for n in call.draw[1:]):
        parts.append(f"{'candidate' if call.role == DRAFT else 'draw'} {drawn}")
    return " · ".join(parts)


def ends_of(run: RunReader, place: Place, requests: bool = False) -> list[End]:
    """The end of each world with its calls, or why it has none.

    requests: also read requests and replies from the store."""
    cells = run.cells(run.worlds(place))
    prices = run.prices
    # Worlds share calls.
    distinct = {call.address: call for cell in cells.values() for call in cell.calls}
    stored = {at: run.stored(call) if requests else None for at, call in distinct.items()}

    def view_of(call: RecordedCall) -> CallView:
        price = prices.find(call.model)
        cost = None if price is None else price.cost(call.cost.usage)
        return CallView(call, cost, *(stored[call.address] or (None, None)))

    def end(cell: RecordedCell) -> End:
        return cell.outcome, {call.address: view_of(call) for call in cell.calls}, cell.judgements

    return [end(cells[at]) if at in cells else (NOT_YET, {}, ()) for at in run.worlds(place)]


def read(
    run: RunReader,
    place: Place,
    score: str = "brier",
    page: int = 0,
    probes: Beliefs | None = None,
    ends: Sequence[End] = (),
    *,
    requests: bool = False,
    apart: bool = False,
) -> TranscriptView:
    """One page of a reading, from the record of the run. RunFolderError where it has none.

    page: of the turns, from 0. probes: P(a best answer) by turns heard, by place of the cell. ends:
    the result of `ends_of`, if it is at hand; it depends on `requests`. apart: show each world in a
    column, although all share their turns."""
    ends = ends or ends_of(run, place, requests)
    row, problem = run.sweep.rows[place.row], run.sweep.problems[place.problem]
    cells, beliefs = run.worlds(place), probes or {}
    recorded = run.records(cells)
    prior = _prior(run, place)
    transcripts = [
        turns_of(outcome, (view.call for view in calls.values()), problem.question)
        for outcome, calls, _ in ends
    ]
    pages = max(1, ceil(max(map(len, transcripts)) / TURNS_A_PAGE))
    first = page * TURNS_A_PAGE
    same = zip(*transcripts, strict=False)
    shared = sum(1 for _ in takewhile(lambda turns: len(set(turns)) == 1, same))
    alike = len(ends) > 1 and all(len(turns) == shared for turns in transcripts)
    windows = [turns[first : first + TURNS_A_PAGE] for turns in transcripts]
    judgements = [o.judgements if isinstance(o, Verdict) else () for o, *_ in ends]
    texts = sum(map(len, windows)) + sum(map(len, judgements))
    room = max(MIN_TEXT, MAX_PAGE_TEXT // max(texts, 1))
    one, *others_calls = [set(calls) for _, calls, _ in ends]
    common = one.intersection(*others_calls) if others_calls else set[str]()
    worlds = []
    for side, (at, (outcome, calls, believed_of)) in enumerate(zip(cells, ends, strict=True)):
        others = matching(windows[side], windows[1 - side]) if len(ends) == 2 else {}
        rated = {j.about: j for j in believed_of if j.role in ("rate", "rating")}
        spoken = tuple(
            shown_turn(first + n, turn, others.get(n), calls, common, rated, room, problem)
            for n, turn in enumerate(windows[side])
        )
        judged = tuple(
            JudgementView(j, shown(j.text.strip(), most=room), calls.get(j.call))
            for j in judgements[side]
        )
        verdict = outcome if isinstance(outcome, Verdict) else None
        failure = recorded[at].failure if at in recorded else None
        failure = failure or (outcome if isinstance(outcome, Failure) else None)
        believed = list(beliefs.get(at, ())) or prior
        if verdict:
            end = (len(transcripts[side]), best_mass(verdict.probs, problem))
            believed = [*(point for point in believed if point[0] < end[0]), end]
        worlds.append(
            World(
                problem.question.answers[side],
                problem.values[side] == max(problem.values),
                failure or outcome,
                shown("\n".join(filter(None, (failure.message, failure.raw))), most=room)
                if failure
                else Markup(""),
                spoken,
                len(transcripts[side]),
                judged,
                ALL_SCORES[score](verdict.probs, side) if verdict else None,
                tuple(calls.values()),
                next((j.call for j in reversed(judgements[side]) if j.call in calls), ""),
                beliefs_by_turn(believed) if verdict else {},
            )
        )
    asd, state = problem_score(problem, [world.outcome for world in worlds], score)
    probed = any(at in beliefs for at in cells)
    lengths = [len(turns) for turns in transcripts]
    prefixes = min(max(lengths), shared + 1) + sum(max(n - 1 - shared, 0) for n in lengths)
    shared = 0 if apart else min(max(shared - first, 0), TURNS_A_PAGE)
    return TranscriptView(
        place,
        row,
        problem,
        tuple(worlds),
        score,
        asd,
        state,
        page,
        pages,
        probed,
        shared,
        alike,
        alike and not apart,
        prefixes,
    )


def _prior(run: RunReader, place: Place) -> list[tuple[int, float]]:
    """The same judge's belief before the first turn; empty without a naive judge."""
    alone = baselines(run.sweep.rows).get(place.row)
    if alone is None:
        return []
    at = run.worlds(Place(alone, place.problem, place.draw))[0]
    prior = run.records([at]).get(at)
    if prior is None or not prior.probs:
        return []
    return [(0, best_mass(prior.probs, run.sweep.problems[place.problem]))]


def shown_turn(
    at: int,
    turn: Turn,
    other: Turn | None,
    calls: Mapping[str, CallView],
    common: set[str],
    rated: Mapping[str, RecordedJudgement],
    room: int,
    problem: Problem,
) -> TurnView:
    """A turn as a page has it. at: its number from 0. other: the turn of the other world that it is
    compared with. common: addresses of calls that both worlds make. rated: ratings of drafts
    by the selection judge. room: bytes of markup for each text."""
    good = None
    if turn.side is not None:
        good = problem.values[problem.question.place(turn.side)] == max(problem.values)
    text, marks = quoted(turn.text, turn.quotes)
    if other is not None and other.text != turn.text:
        marks += differing(text, quoted(other.text, other.quotes)[0])
    tools = tuple(
        (use.tool, shown(use.arguments, most=room), shown(use.result, most=room), use.failed)
        for use in turn.tools
    )
    marks = [mark for mark in marks if mark.end > mark.start]
    raw = shown(text, marks, room)
    return TurnView(
        at + 1,
        turn,
        raw,
        rendered(text, marks) if len(raw) <= room else Markup(""),
        tools,
        tuple(_marks(turn)),
        calls.get(turn.call),
        turn.call in common,
        good,
        tuple(_drafts(turn, calls, rated, room, problem)),
    )


def _drafts(
    turn: Turn,
    calls: Mapping[str, CallView],
    rated: Mapping[str, RecordedJudgement],
    room: int,
    problem: Problem,
) -> Iterator[DraftView]:
    """The candidates for a turn: drafts of the same seat after the same turns."""
    spoken = calls.get(turn.call)
    if spoken is None or spoken.call.role != DRAFT:
        return
    moment = spoken.call.seat, spoken.call.heard
    drafts = [
        call
        for call in calls.values()
        if call.call.role == DRAFT and (call.call.seat, call.call.heard) == moment
    ]
    if len(drafts) < 2:
        return
    labels = [answer.label for answer in problem.question.answers]
    for draft in drafts:
        judged, rating = rated.get(draft.address), None
        side = turn.side.label if turn.side else judged.side if judged else ""
        if judged and judged.probs and side in labels:
            at = labels.index(side) if len(judged.probs) == len(labels) else 0
            rating = judged.probs[at]
        text = shown(draft.call.text, most=max(room // len(drafts), MIN_TEXT))
        yield DraftView(text, draft.address, draft is spoken, rating)


def matching(turns: Sequence[Turn], others: Sequence[Turn]) -> dict[int, Turn]:
    """By number, the turn of the other world in which the same speaker speaks as often before."""
    spoken = {(turn.speaker, time): turn for turn, time in _times(others)}
    return {
        n: spoken[turn.speaker, time]
        for n, (turn, time) in enumerate(_times(turns))
        if (turn.speaker, time) in spoken
    }


def _times(turns: Sequence[Turn]) -> Iterator[tuple[Turn, int]]:
    times: Counter[str] = Counter()
    for turn in turns:
        yield turn, times[turn.speaker]
        times[turn.speaker] += 1


def _marks(turn: Turn) -> Iterator[tuple[str, str]]:
    true, quotes = sum(quote.verified is True for quote in turn.quotes), len(turn.quotes)
    marks = (
        (turn.outcome != "ok", "bad", turn.outcome),
        (turn.forged, "bad", f"{turn.forged} spoofed tags"),
        (turn.malformed, "bad", f"{turn.malformed} malformed marks"),
        (turn.hidden, "bad", f"{turn.hidden} hidden"),
        (turn.cut, "warn", "cut at the word limit"),
        (turn.conceded, "bad", "conceded"),
        (turn.check not in ("unchecked", "on side"), "bad", f"side check: {turn.check}"),
        (turn.retries, "warn", f"draft {turn.retries + 1}"),
        (quotes, "good" if true == quotes else "bad", f"quotes {true}/{quotes}"),
    )
    return ((kind, words) for present, kind, words in marks if present)
