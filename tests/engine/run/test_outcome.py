"""Outcomes: a line each, read back as it was written, from a file and from the database."""

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.engine.run.outcome import OutcomeRecord, outcome_of
from oversight.engine.run.reader import RunReader
from oversight.engine.run.replay import difference
from oversight.engine.sweep.sweep import Cell, Sweep
from oversight.protocols.agents.agent import Agent
from oversight.protocols.counts import counted, unread_by_seat
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.transcript import Failure, Judgement, Transcript, Turn, Verdict
from tests.run_folders import CELLS as PLAIN
from tests.run_folders import ended, folder
from tests.world import sweep

SWEEP = sweep(Debate(StatedJudge("sim/judge"), Agent("sim/strong")), problems=3, draws=2)
CELLS = list(SWEEP.cells())
TRANSCRIPT = Transcript(CELLS[0].problem.question)


def line(cell: Cell, end: Verdict | Failure) -> bytes:
    return outcome_of(cell, end).line


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
failures = st.builds(Failure, texts, texts, texts, texts)
scalars = (texts | st.integers(-(2**53), 2**53) | st.booleans() | st.floats(
    allow_nan=False, allow_infinity=False,
))  # fmt: skip
measures = st.dictionaries(texts, scalars, max_size=3).map(lambda values: tuple(values.items()))
captured = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
turns = st.builds(
    Turn, st.just("Debater A"), texts,
    outcome=st.sampled_from(["ok", "refused", "truncated", "empty"]), forged=st.integers(0, 3),
    cut=st.booleans(),
)  # fmt: skip


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    p = draw(st.floats(0, 1))
    judgements = draw(st.lists(st.builds(Judgement, st.just((p, 1 - p)), captured=captured)))
    transcript = Transcript(TRANSCRIPT.question, tuple(draw(st.lists(turns, max_size=3))))
    return Verdict((p, 1 - p), transcript, tuple(judgements), draw(measures))


def about(cell: Cell) -> dict[str, object]:
    """Fields that every line has, for any outcome."""
    return {
        "place": cell.place, "cell": cell.id, "protocol": "debate simultaneous 2 rounds",
        "agent": "sim/strong", "judge": "sim/judge stated", "problem": cell.problem.id,
        "side": "AB"[cell.side], "at": cell.side, "draw": cell.draw,
    }  # fmt: skip


@given(st.sampled_from(CELLS), verdicts())
def test_a_line_has_a_verdict_to_the_last_bit(cell, verdict):
    least = min((judgement.captured for judgement in verdict.judgements), default=1)
    more = {
        "measures": dict(verdict.measures), "counts": counted(verdict),
        "captured": least if least < 1 else None, "unread": unread_by_seat(verdict),
    }  # fmt: skip
    by_name = {name: value for name, value in more.items() if value or value == 0}
    assert orjson.loads(line(cell, verdict)) == {
        **about(cell), "probs": [*verdict.probs], **by_name,
    }  # fmt: skip


@given(st.sampled_from(CELLS), failures)
def test_a_line_has_all_of_a_failure(cell, failure):
    parsed = orjson.loads(line(cell, failure))
    assert Failure(**parsed.pop("failure")) == failure and parsed == about(cell)


def test_a_cell_is_known_by_its_contents_and_not_by_its_place():
    half = Sweep("other", SWEEP.problems[1:], SWEEP.rows)
    ids = {cell.id: cell for cell in CELLS}
    assert len(ids) == len(CELLS)
    assert all(cell.id in ids and cell.place != ids[cell.id].place for cell in half.cells())


def test_a_place_tells_the_problem_of_its_cell():
    numbers = [SWEEP.problem_at(cell.place) for cell in CELLS]
    assert [SWEEP.problems[number] for number in numbers] == [cell.problem for cell in CELLS]
    assert all(cell.place in SWEEP.span(n) for n, cell in zip(numbers, CELLS, strict=True))


def other_identity(**other: object) -> bool:
    """Whether a sweep with another setting has another identity."""
    return replace(SWEEP, **other).identity != SWEEP.identity


@pytest.mark.wire
@given(st.lists(
    st.tuples(st.sampled_from(PLAIN), verdicts() | failures), max_size=6,
    unique_by=lambda cell_and_end: cell_and_end[0].place,
))  # fmt: skip
def test_an_outcome_is_the_same_from_the_database(tmp_path_factory, cells):
    path, direct = tmp_path_factory.mktemp("run") / "s", dict[int, OutcomeRecord]()
    with folder(path) as run:
        for cell, end in cells:
            counts = counted(end) if isinstance(end, Verdict) else {}
            unread = unread_by_seat(end) if isinstance(end, Verdict) else {}
            run.add([structs.replace(ended(cell, end), counts=counts, unread=unread)])
            direct[cell.place] = outcome_of(cell, end)
        by_place = {record.place: record for record in RunReader(path).outcomes()}
    assert by_place == direct
    assert [record.line for record in by_place.values()] == [direct[n].line for n in sorted(direct)]


def between(*ends: tuple[tuple[str, object], ...]) -> str | None:
    """The difference between two outcomes with these measures."""
    verdicts = (Verdict((0.2, 0.8), TRANSCRIPT, (), measures) for measures in ends)
    return difference(*(outcome_of(CELLS[0], end) for end in verdicts))
