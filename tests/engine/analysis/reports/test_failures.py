"""Notes on failed cells: shares, causes, an example, and a remedy that works."""

from functools import partial
from pathlib import Path

import pytest

from oversight.engine.analysis.reports.health import (
    HINTS,
    TRY_ANOTHER,
    WORDS,
    called,
    failure_lines,
    passing,
)
from oversight.engine.errors import ProviderError, TransientError
from oversight.engine.run.failures import CRASH
from oversight.engine.run.outcome import OutcomeRecord
from oversight.engine.run.schedule import FAILED_ALIKE, FIRST_CELLS, UNREPEATABLE
from oversight.protocols.transcript import Failure
from tests.answering import alike, answering
from tests.engine.sweep_files import sweep
from tests.run_folders import only_run, with_failures
from tests.sessions import sessions
from tests.tables import printed

GRID = sweep(
    "judges: {model: sim/judge, kind: [stated, logprob], max_tokens: 80}\nprotocols: naive_judge\n"
)
STATED, LOGPROB = (row.judge for row in GRID.rows)


def record(place: int, judge: str, failure: Failure | None) -> OutcomeRecord:
    probs = None if failure else (0.5, 0.5)
    return OutcomeRecord(place, "c", "naive judge", "", judge, "p", "A", 0, 0, probs, failure)


def names(kind: type[Exception]) -> set[str]:
    """The names of all subclasses of an error."""
    return set().union(*({one.__name__} | names(one) for one in kind.__subclasses__()))


def test_every_error_that_fails_a_cell_has_words() -> None:
    assert WORDS.keys() == names(ProviderError) - {"TransientError"} | {CRASH, UNREPEATABLE}
    assert HINTS.keys() <= WORDS.keys()
    failed = {kind: record(0, STATED, Failure(kind, "400: no")) for kind in WORDS}
    assert {kind for kind in WORDS if passing([failed[kind]])} == names(TransientError)


def test_unreadable_replies_are_told_with_shares_causes_an_example_and_the_mend() -> None:
    cut = "no probability is stated for (A) (the reply was truncated)"
    missing = unreadable(cut, "The crates hold\nforty apples, so", "77aa" * 16)
    of_b = unreadable("no probability is stated for (B)")
    odd = [unreadable(f"(A) has '{n}0000', no plain probability", "A: 70000") for n in "78"]
    failures = [missing] * 3 + [of_b] + odd
    records = [
        *(record(n, STATED, failure) for n, failure in enumerate(failures)),
        *(record(n, STATED, None) for n in range(6, 12)),
        *(record(n, LOGPROB, None) for n in range(12)),
    ]
    assert list(failure_lines(GRID, records)) == [
        "sim/judge stated max tokens 80: 6 of 12 cells unreadable (50%)",
        "  4: no probability is stated for (A); 3 of them cut off at max_tokens 80: raise "
        "judges.max_tokens",
        "     for example: «The crates hold forty apples, so»",
        "     whole: oversight cache show 77aa77aa77aa",
        "  2: (A) has '70000', no plain probability",
        "     for example: «A: 70000»",
        f"  {TRY_ANOTHER}",
    ]


CUT = " (the reply was truncated)"
unreadable = partial(Failure, "unreadable")


def mend(judge: str, failure: Failure) -> list[str]:
    """The notes if two of four cells of a judge of this kind fail like this."""
    grid = sweep(f"judges: {{model: sim/judge, kind: {judge}}}\nprotocols: naive_judge\n")
    records = [record(n, grid.rows[0].judge, failure if n < 2 else None) for n in range(4)]
    return list(failure_lines(grid, records))[1:]


@sessions(Path(__file__).with_name("mends.md"))
def test_the_mend_is_for_the_seat_at_fault(session, request) -> None:
    session.check(request, printed(globals()))


def test_no_name_of_a_class_is_told() -> None:
    for kind, words in WORDS.items():
        (first, *_) = failure_lines(GRID, [record(0, STATED, Failure(kind, "400: no"))])
        assert first == f"{STATED}: 1 of 1 cells {words} (100%)"
    assert not any(word[:1].isupper() for word in map(called, WORDS))


def test_failed_cells_are_told_by_their_cause_and_retried_only_where_it_helps(place, command):
    command("run", "small.yaml")
    folder = only_run(place)
    with_failures(folder, "ContextLengthExceeded", {3, 7})
    ran = command("run", "small.yaml")
    assert ran.code == 1 and "failed      2 of 40 cells" in ran.err
    assert "too long for the model" in ran.err
    assert "take a model with a longer context" in ran.err
    assert "ContextLengthExceeded" not in ran.err + ran.out and "--retry-failed" not in ran.err

    # Cells without an answer are retried automatically.
    with_failures(folder, "NeverAnswered", {3, 7})
    assert command("run", "small.yaml").code == 0

    with_failures(folder, "Overloaded", {3, 7, 30})
    text = command("run", "small.yaml").err
    assert "retry       oversight run small.yaml --retry-failed   (3 cells whose fault" in text


@pytest.mark.wire
def test_a_grid_whose_every_call_is_refused_for_one_reason_is_stopped(place, command, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with answering(alike(400, b'{"error": {"message": "no judgement here"}}')) as (url, requests):
        (place / "hopeless.yaml").write_text(
            "problems: {bundled: arithmetic}\njudges: openai/m\nprotocols: naive_judge\n"
            f"providers: {{openai: {{base_url: '{url}/v1'}}}}\n"
            "models: {openai/m: {concurrency: 4}}\n"
        )
        ran, few = command("run", "hopeless.yaml"), len(requests)
        regardless = command("run", "hopeless.yaml", "--keep-going")
    assert ran.code == regardless.code == 3
    # Eight cells, and those under way at the eighth failure.
    assert few <= FAILED_ALIKE + FIRST_CELLS
    assert "its first 8 cells all failed: NeverAnswered" in ran.err
    assert "says: 400: no judgement here). Fix it and rerun, or continue anyway" in ran.err
    assert "--keep-going" in ran.err and 20 <= len(requests) - few <= 24
    assert "the first 20 calls all failed like this, and none was answered" in regardless.err
    for err in (ran.err, regardless.err):
        assert "openai/m stated: " in err and "refused by the server (100%)" in err
        assert "400: no judgement here" in err
    assert "when that is put right: oversight run hopeless.yaml\n" in ran.err
