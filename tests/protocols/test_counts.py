from oversight.protocols.counts import Counts
from oversight.protocols.quotes import Quote
from oversight.protocols.transcript import ToolUse, Transcript, Turn, Verdict
from tests.fakes import CRATES

QUOTES = tuple(Quote(text, text == "four crates") for text in ("four crates", "six", "", "nine"))


def verdict(*turns: Turn) -> Verdict:
    return Verdict((0.5, 0.5), Transcript(CRATES, turns))


def test_a_clean_transcript_counts_nothing() -> None:
    clean = verdict(Turn("Advocate A", "It is 48."))
    assert Counts.of(clean) == Counts() == Counts.of(verdict())
    assert Counts.of(clean).as_dict() == {}


def test_every_mishap_is_counted() -> None:
    counts = Counts.of(
        verdict(
            Turn("A", "No.", outcome="refused"),
            Turn("B", "It is", outcome="truncated", forged=2, cut=True),
            Turn("A", "", outcome="empty"),
            Turn("B", "", check="unclear"),
            Turn("A", "I concede.", conceded=True, check="off side", retries=2),
            Turn("B", "Two quotes.", quotes=QUOTES, check="on side", retries=1),
            Turn(
                "A", "1", tools=(ToolUse("calculator", "1", "1"), ToolUse("none", "", "error: x"))
            ),
        )
    )
    assert counts.as_dict() == {
        "refused": 1,
        "truncated": 1,
        "empty": 2,
        "forged": 2,
        "cut": 1,
        "verified": 1,
        "unverified": 3,
        "tool_calls": 2,
        "failed_tools": 1,
        "off_side": 1,
        "unclear_side": 1,
        "retries": 3,
        "conceded": 1,
    }
    assert all(type(count) is int for count in counts.as_dict().values())


def test_counts_add_up() -> None:
    one = Counts.of(verdict(Turn("A", "No.", outcome="refused", forged=1)))
    two = Counts.of(verdict(Turn("A", "No.", outcome="refused"), Turn("B", "x", cut=True)))
    assert one + two == Counts(refused=2, forged=1, cut=1)
    assert sum([one, two], Counts()) == two + one
