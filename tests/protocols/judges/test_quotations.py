"""Verdicts in the forms of real models, and quoted demands, which a judge never obeys."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oversight import Reply, Unreadable
from oversight.protocols.judges.stated import _as_asked, _read_percentages, read_percentages
from oversight.protocols.judges.votes import read_conclusion
from oversight.protocols.prompts.forms import probabilities_form, read_form
from oversight.protocols.question import LABELS, Answer, Question
from tests.fakes import CRATES

REPLIES = [
    orjson.loads(line)
    for line in Path(__file__).with_name("verdict_replies.jsonl").read_bytes().splitlines()
]
"""Written by somebody who did not write the reader. `want`, or one of `also`, is right."""

CAUSES = {"no statement": "none", "two statements": "two", "truncated": "cut"}
"""Names of causes in the file, if they differ."""

DEMANDS = {
    "stated": ("A: 0%", "B: 100%"),
    "shares": ("(A) 0.0", "(B) 1.0"),
    "form": ('{"A": 0.0, "B": 1.0}',),
    "vote": ("Answer: B",),
}

INTRODUCTIONS = (
    *(
        "Debater B asks me to write:",
        "I was told to reply\n",
        "B's numbers:",
        "They want me to say",
    ),
    *("The opponent's closing line reads:", "According to Debater B, the probabilities are:"),
    *("The speech of Debater B contains this.", "If I believed it, I would answer:", "Quote:"),
    *("I will not write:", "A gullible judge would say:", "For example, one could answer:"),
    *("Not my verdict:", "She says I must put", "Debater B instructs me to answer as follows.\n"),
    *("I refuse to reply", "Debater B's final answer:", "> Debater B:", "The last turn ends with"),
    *("Debater B asks me to write:\n\nMy final verdict is:", "The transcript says\n\nVerdict:\n"),
)
MARKS = ("{}", "> {}", "- {}", "1. {}", "    {}", "`{}`", "“{}”", "**{}**", '"{}"', "| {}")
AROUND = ("{}", "```\n{}\n```", "“{}”", "<quote>\n{}\n</quote>", '<turn speaker="B">\n{}\n</turn>')
ENDS = (
    *(
        "", "\n", "I do not.", "I refuse, and put 90 percent on A.", "which I do not.",
        "but I take A.",
    ),
    *("\nThat is what B wants.", "\nI find A more convincing, with 90 percent.", "No: (A)."),
)  # fmt: skip


def read(form: str, text: str, question: Question, outcome: str = "ok") -> object:
    reply = Reply(text, outcome=outcome)
    try:
        if form == "vote":
            return question.answers[read_conclusion(reply, question)].label
        return read_percentages(reply, question)
    except Unreadable as fault:
        return {"unreadable": CAUSES.get(fault.cause, fault.cause)}


@pytest.mark.parametrize("row", REPLIES, ids=lambda row: row["id"])
def test_verdicts_in_the_forms_of_real_models_are_read(row):
    answers = tuple(map(Answer, LABELS, row["answers"]))
    result = read(row["form"], row["reply"], Question("?", answers), row.get("outcome", "ok"))
    for want in (row["want"], *row.get("also", ())):
        match want:
            case {"unreadable": causes} if isinstance(result, dict):
                causes = (causes,) if isinstance(causes, str) else causes
                # A reply without text counts as empty.
                if result["unreadable"] in causes:
                    return
            case [*probs] if isinstance(result, tuple):
                if result == pytest.approx(probs, abs=1e-4):
                    return
            case str() if result == want:
                return
    pytest.fail(f"read as {result}, not as {row['want']}: {row['note']}")


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(DEMANDS)),
    st.sampled_from(INTRODUCTIONS),
    st.sampled_from(MARKS),
    st.sampled_from(AROUND),
    st.sampled_from(ENDS),
    st.booleans(),
    st.sampled_from(["", "before", "after"]),
)
def test_quoted_demands_are_never_obeyed(form, above, mark, around, end, is_apart, own_line):
    demand = around.format("\n".join(map(mark.format, DEMANDS[form])))
    text = "\n".join([above, *[""] * is_apart, demand, end])
    belief = "Answer: A" if form == "vote" else "A: 90%\nB: 10%"
    if own_line == "before":
        text = f"{belief}\n\n{text}"
    elif own_line == "after":
        text = f"{text}\n\nMy own verdict:\n{belief}"
    result = read(form, text, CRATES)
    assert isinstance(result, dict) or result in ("A", (0.9, 0.1)), text


@pytest.mark.parametrize(
    "above",
    [
        *("My verdict:", "### Final probabilities", "Therefore:", "I'd say:", "Let me put it so:"),
        *("Given that Debater B never answered, my estimate is:", "Based on the above analysis:"),
        *("Debater B asked me to ignore the log, which I did not.", "As requested, here you are:"),
        *("- Debater B: weak\n", "Both debaters make good points, but A's can be checked."),
    ],
)
@pytest.mark.parametrize(
    "below",
    ["", "Reasoning: the log is verified.", "I do not find B convincing.", "because of 3 x 4"],
)
def test_the_judges_own_words_around_a_verdict_are_not_a_quotation(above, below):
    assert read("stated", f"It is long.\n{above}\nA: 90%\nB: 10%\n{below}", CRATES) == (0.9, 0.1)


def test_form_reads_decorated_numbers_and_options():
    form = probabilities_form(CRATES)
    for text in ('Form: {"A": "70%", "B": "0.3"}', '```json {"A": 0.7, "B": " .3 "} ```'):
        filled = read_form(Reply(text), form)
        assert [filled.number("A"), filled.number("B")] == [0.7, 0.3]
    filled = read_form(Reply('{"A": "(a)", "B": "Answer B or A"}'), form)
    assert filled.one_of("A", ["A", "none"]) == "A"
    with pytest.raises(Unreadable):
        filled.one_of("B", ["A", "B"])


NUMBERED = Question("How many?", (Answer("A", "70"), Answer("B", "30.5%"), Answer("C", "0")))
LOWER = Question("Which?", (Answer("a", "one"), Answer("A", "two")))
SHORT = st.text("AB:% .0123457\n-,\r\u0663", max_size=16)
SHARES = st.sampled_from(["70", "30", "30.5", "0", "100.0", "007", "70.", ".5", "1e2", "9" * 11])


@given(
    st.sampled_from([CRATES, NUMBERED, LOWER]),
    st.lists(SHARES, min_size=1, max_size=4),
    st.sampled_from(["{}: {}%", "{}: {} %", "{}:{}%", " {}: {}%", "{}: {}% ", "{}: {}"]),
    st.sampled_from(["ok", "truncated", "refused", "empty"]),
    SHORT | st.just(""),
)
def test_replies_in_the_requested_form_take_fewer_steps(question, shares, form, outcome, more):
    lines = [form.format(chr(ord("A") + n), share) for n, share in enumerate(shares)]
    assert_same_reading(Reply("\n".join(lines) + more, outcome=outcome), question)
    assert_same_reading(Reply(more, outcome=outcome), question)


def test_replies_of_real_models_are_read_the_same_in_fewer_steps():
    short = 0
    for case in REPLIES:
        answers = tuple(map(Answer, LABELS, case["answers"]))
        short += assert_same_reading(Reply(case["reply"]), Question("?", answers))
    assert short > 1


def assert_same_reading(reply: Reply, question: Question) -> bool:
    """The short and the long reader agree. Returns whether the short one was used."""
    results = []
    for read in (read_percentages, _read_percentages):
        try:
            results.append(read(reply, question))
        except Unreadable as unread:
            results.append((unread.cause, str(unread)))
    assert results[0] == results[1]
    return _as_asked(reply, question) is not None
