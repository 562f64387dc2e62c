"""Drafting: several drafts, the choice among them, and side checks."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache import Call, Reply
from oversight.protocols import ADVOCATE, Agent, BestOf, LogprobJudge, SideCheck, Transcript, Turn
from tests.fakes import CRATES, JUDGE, A, B, Scripted, draft, form, prompt, token

ALICE = Agent("alice", temperature=0.1)
TRANSCRIPT = Transcript(CRATES)


def drafted(beliefs: dict[str, int]) -> Scripted:
    """Draft i is `draft i`. With it as the last turn the judge states beliefs[draft] for A."""

    def script(call: Call) -> str:
        words_said = prompt(call)
        if words_said.task == "speak":
            return f"draft {draft(call)}"
        share = beliefs[words_said.speeches[-1]]
        return f"A: {share}%\nB: {100 - share}%"

    return Scripted(script)


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=6),
    st.sampled_from([A, B]),
    st.integers(0, 2),
)
async def test_the_spoken_draft_scores_at_least_as_draft_0_on_any_side_in_any_seat(
    shares, side, speeches
):
    """The known truth: the draft with the best known score is spoken, so never one that scores less
    than draft 0, for any side, in any seat."""
    transcript = TRANSCRIPT.then(*(Turn("Debater B", "So.", B) for _ in range(speeches)))
    beliefs = {f"draft {n}": share for n, share in enumerate(shares)}
    turn = await BestOf(len(shares), ALICE, JUDGE).speak(transcript, side, drafted(beliefs))
    sign = 1 if side == A else -1
    score = {draft: sign * share for draft, share in beliefs.items()}
    assert turn.text == max(score, key=lambda draft: score[draft])  # the first of equal ones


async def test_draft_0_is_the_plain_speech_and_others_use_the_draft_temperature():
    ask = drafted({"draft 0": 50, "draft 1": 30, "draft 2": 70})
    await BestOf(3, ALICE, JUDGE, temperature=0.9).speak(TRANSCRIPT, A, ask)
    plain = ALICE.compose(TRANSCRIPT, A, ADVOCATE)
    warm = plain.changed(temperature=0.9)
    assert ask.calls[:3] == [plain, *(structs.replace(warm, draw=(n,)) for n in (1, 2))]


TIED = [Reply("A", logprobs=(token("A", p, B=0.1),)) for p in (0.3, 0.9)]  # 0.3 to 0.9, and 0.9


@pytest.mark.parametrize(
    ("judge", "open", "read"), [(JUDGE, "Hm.", "A: 10%\nB: 90%"), (LogprobJudge("judge"), *TIED)]
)
async def test_a_draft_that_leaves_the_judge_unreadable_is_not_spoken(judge, open, read):
    def script(call: Call) -> str | Reply:
        words_said = prompt(call)
        if words_said.task == "speak":
            return f"draft {draft(call)}"
        return open if words_said.speeches[-1] == "draft 0" else read

    turn = await BestOf(2, ALICE, judge).speak(TRANSCRIPT, A, Scripted(script))
    assert turn.text == "draft 1" and [draft.text for draft in turn.drafts] == ["draft 0"]
    assert [doubt.seat for doubt in turn.doubts] == ["Judge"]
    alone = await BestOf(1, ALICE, judge).speak(TRANSCRIPT, A, Scripted(script))
    assert alone.text == "draft 0" and len(alone.doubts) == (judge == JUDGE)


READER = Agent("reader")
HEARD = (Turn("Debater B", "It is 36.", B),)
READ = Transcript(structs.replace(CRATES, passage="PASSAGE"), HEARD)


def finding(*sides_found: str, speech: str | Reply = "speech") -> Scripted:
    """The reader finds these sides in drafts 0, 1, 2 …"""

    def script(call: Call) -> str | Reply:
        parsed = prompt(call)
        if parsed.task == "side":
            words_said = sides_found[int(parsed.speeches[-1].split()[-1])]
            admits = "yes" if words_said.endswith("!") else "no"
            filled = {"argues_for": words_said.rstrip("!"), "admits": admits}
            return words_said if " " in words_said else orjson.dumps(filled).decode()
        return f"{speech} {draft(call)}" if isinstance(speech, str) else speech

    return Scripted(script)


async def check_side(ask: Scripted, retries: int = 2, candor: bool = False) -> Turn:
    return await SideCheck(ALICE, READER, retries, candor).speak(READ, A, ask, ADVOCATE)


async def test_retry_is_a_separate_draw_with_the_finding_in_its_prompt():
    ask = finding("B", "none", "A")
    await check_side(ask)
    tries = [call for call in ask.calls if call.model == "alice"]
    assert [call.draw for call in tries] == [(), (1,), (2,)]
    assert "thought that it argues for (B)" in prompt(tries[1]).user
    assert "thought that it argues for no answer" in prompt(tries[2]).user
    assert "that you are arguing for (A)." in prompt(tries[2]).user
    assert all(prompt(call).speeches == ("It is 36.",) for call in tries)


async def test_a_rejected_draft_keeps_the_doubts_about_its_choice():
    """The rating of its rival is unread, so the rival might have been spoken and kept."""

    def script(call: Call) -> str:
        parsed = prompt(call)
        if parsed.task == "speak":
            return "again" if "(B)" in parsed.user else f"draft {draft(call)}"
        if parsed.task == "side":
            return form(argues_for="B" if "draft" in parsed.speeches[-1] else "A", admits="no")
        return "Hm." if parsed.speeches[-1] == "draft 0" else "A: 50%\nB: 50%"

    turn = await SideCheck(BestOf(2, ALICE, JUDGE), READER).speak(READ, A, Scripted(script))
    assert (turn.text, turn.check, turn.retries) == ("again", "on side", 1)
    assert [draft.text for draft in turn.drafts] == ["draft 0", "draft 1", "again"]
    assert [(doubt.seat, doubt.cause) for doubt in turn.doubts] == [("Judge", "no statement")]


async def test_candid_speech_is_sent_back_if_candor_is_checked():
    ask = finding("A!", "B!", "A!")
    turn = await check_side(ask, candor=True)
    tries = [prompt(call).user for call in ask.calls if call.model == "alice"]
    assert "found that the draft itself says that (A) is wrong" in tries[1]
    assert "thought that it argues for (B)" in tries[2]
    assert (turn.check, turn.retries, turn.drafts[0].text) == ("candid", 2, "speech 0")
    assert "admits" in prompt(ask.calls[1]).user
    unasked = finding("A!")
    assert (await check_side(unasked)).check == "on side"
    assert "admits" not in prompt(unasked.calls[1]).user


async def test_checker_sees_neither_side_nor_speaker_nor_passage():
    ask = finding("A")
    await check_side(ask)
    parsed = prompt(ask.calls[1])
    assert (parsed.side, parsed.speakers, parsed.speeches) == ("", ("Speaker",), ("speech 0",))
    assert "PASSAGE" not in parsed.system and "Debater" not in parsed.system + parsed.user


@pytest.mark.parametrize("unread", [["I cannot tell."], [Reply("No.", outcome="refused")] * 2])
async def test_unread_checker_is_asked_once_more_and_then_recorded(unread):
    replies = iter([*unread, form(argues_for="A")])
    ask = Scripted(lambda call: "speech" if call.model == "alice" else next(replies))
    turn = await check_side(ask)
    assert [call.draw for call in ask.calls] == [(), (), (1,)]
    expected = ("on side", []) if len(unread) == 1 else ("unclear", [("Reader", "refused")])
    assert (turn.check, [(doubt.seat, doubt.cause) for doubt in turn.doubts]) == expected


@pytest.mark.parametrize(
    "speech", [Reply("No.", outcome="refused"), Reply("", outcome="empty"), Reply("I concede.")]
)
async def test_refusals_and_concessions_are_not_retried(speech):
    ask = finding(speech=speech)
    turn = await check_side(ask)
    assert (len(ask.calls), turn.check) == (1, "unchecked")


@pytest.mark.parametrize("speaker", [BestOf(4, ALICE, JUDGE), SideCheck(ALICE, READER)])
async def test_a_speaker_without_a_side_speaks_its_first_draft(speaker):
    ask = Scripted(lambda call: "the draft")
    turn = await speaker.speak(TRANSCRIPT, None, ask)
    assert (turn.text, turn.check, len(ask.calls)) == ("the draft", "unchecked", 1)
