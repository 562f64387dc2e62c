import pytest

from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.protocol import verdict_of
from tests.fakes import APPLES
from tools.mechanisms import DOCS, TABLES, TRUTHS, written
from tools.sharing import LONGER, PAIRS, Pair, counts

README = DOCS.parents[1] / "README.md"


@pytest.mark.parametrize("table", TABLES)
def test_the_document_says_what_every_mechanism_really_is(table: str) -> None:
    assert written(table) == TABLES[table](), "write it anew with: python -m tools.mechanisms"


@pytest.mark.parametrize("shown", [pair for pair in PAIRS if pair.why == LONGER], ids=str)
def test_longer_debates_pay_only_for_new_calls_as_the_readme_says(shown: Pair) -> None:
    said = " ".join(README.read_text().split())
    assert "longer debates and larger grids pay only for new calls" in said
    shorter, longer = counts(shown)
    # Two worlds have at most two verdicts, and only those are asked anew: in feedback the scores
    # of two responses a side as well.
    anew = 2 * 3 if shown.one == "debate_feedback" else 2
    assert len(shorter - longer) <= anew and len(shorter & longer) > 2


def test_every_mechanism_has_a_known_truth() -> None:
    assert set(PROTOCOLS) <= set(TRUTHS)


@pytest.mark.parametrize(
    ("said", "probs"), [(0.7, (0.3, 0.7)), (1, (0, 1)), ({"A": 0.25, "B": 0.75}, (0.25, 0.75))]
)
def test_a_protocol_may_return_a_probability_of_its_side_or_one_by_label(said, probs):
    verdict = verdict_of(said, APPLES.question, APPLES.question.answers[1])
    assert verdict.probs == pytest.approx(probs)
    assert verdict.transcript.turns == ()


@pytest.mark.parametrize("said", [None, True, "0.7", {"A": 0.7}, {"A": 0.3, "C": 0.7}])
def test_what_is_neither_is_told_in_one_line(said):
    with pytest.raises(TypeError, match="a verdict is expected, a probability, or one for each"):
        verdict_of(said, APPLES.question, APPLES.question.answers[0])
