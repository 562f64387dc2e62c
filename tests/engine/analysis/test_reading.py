"""Verdicts of any origin: lines are read, or refused with key, value and fix (`reading.md`).
Tables, flags and runs that analyses refuse (`refusals.md`)."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oversight.engine.analysis.reading import checked, parsed
from oversight.engine.errors import UsageError
from tests.engine.analysis import test_compare, test_judged, test_monitoring
from tests.engine.analysis.test_judged import table
from tests.engine.analysis.test_scores import written
from tests.sessions import commands, sessions
from tests.tables import printed

SOUND: dict[str, Any] = {
    "id": "q1",
    "values": {"A": 1, "B": -1},
    "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}},
}


WORLDS: dict[str, Any] = SOUND["worlds"]


def lines(*rows: dict[str, Any] | bytes) -> list[bytes]:
    """Rows as they stand in a file: one that is bytes as it is."""
    return [row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows]


def read(*rows: dict[str, Any] | bytes) -> list[str]:
    """The question, values, worlds and other keys of each row of a file."""
    file = lines(*rows)
    checked(parsed(file, "v.jsonl"), "v.jsonl")
    return [
        f"{one.question!r} {one.values} {one.worlds} {dict(one.keys)}"
        for one in parsed(file, "v.jsonl")
    ]


def line(**changed: object) -> list[str]:
    """The same of one line behind a sound one."""
    return read({**SOUND, "id": "q0"}, SOUND | changed)[1:]


def world(a: object) -> list[str]:
    """The same with this for the world in which (A) is argued for."""
    return line(worlds={**WORLDS, "A": a})


def without(key: str) -> list[str]:
    return read({name: value for name, value in SOUND.items() if name != key})


@sessions(Path(__file__).with_name("reading.md"))
def test_a_line_is_read_or_refused_with_its_key_its_value_and_the_mend(session, request):  # type: ignore[no-untyped-def]
    session.check(request, printed(globals()))


@sessions(Path(__file__).with_name("refusals.md"))
def test_bad_tables_flags_and_runs_are_refused(session, request, place, runs, monkeypatch):  # type: ignore[no-untyped-def]
    def shape(text: str) -> str:
        for name in names.keys() & {"RUN", "MONITORED", "place"}:
            text = text.replace(f"{names[name]}", name)
        return text

    names = vars(test_monitoring) | vars(test_judged) | vars(test_compare)
    names |= {"place": place, "runs": runs}
    names["scores"] = lambda *more: written(place / "a.csv", [0, 1] * 4, more)
    names["verdicts"] = lambda *rows: table(place / "t.jsonl", rows)
    session.check(request, commands(names, shape, monkeypatch), names)


labels = st.sampled_from(("A", "B", "C", "id", "values", "worlds", "group", "\ud800"))
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), labels)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(labels, inner, max_size=4),
    max_leaves=12,
)
almost = st.builds(
    lambda key, value: {**SOUND, key: value}, st.sampled_from((*SOUND, "group")), anything
)


@given(
    st.one_of(st.binary(), st.one_of(anything, almost).map(lambda row: json.dumps(row).encode()))
)
def test_any_line_is_read_or_refused_by_name(line: bytes) -> None:
    try:
        checked(parsed([line], "f"), "f")
    except UsageError as refused:
        assert str(refused).startswith("f:")
