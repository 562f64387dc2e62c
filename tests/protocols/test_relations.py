"""Relations between the runs of any mechanism, judge or drafting, for all texts."""

import hashlib
import inspect
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import get_args

import orjson
import pytest
from msgspec import structs

from oversight import Answer, LogprobJudge, Problem, Question, Reply, Transcript, Turn
from oversight.cache.call import Call, Exchange, RecordingAsk
from oversight.engine.extensions.simulation.speech import Contents, fill_form
from oversight.protocols import Agent, Jury, Protocol, Redrawn, Shot, Unreadable, VotesJudge
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.datasets import open_tasks
from oversight.protocols.datasets.open_tasks import Instruction, OpenQuestion, Task
from oversight.protocols.doubts import ProbabilityRange
from oversight.protocols.drafting import BestOf, SideCheck
from oversight.protocols.judges.judge import Judge, ModelJudge, ParsedReply
from oversight.protocols.judges.stated import DistributionJudge, StatedJudge
from oversight.protocols.prompts.prompt_set import default_prompts
from oversight.protocols.settings import REASONING_ROOM
from tests.fakes import CRATES, Scripted, prompt, token
from tests.protocols.mechanisms.test_every_mechanism import whimsical
from tests.protocols.prompts.test_shown import made
from tools.claims import claims_of

SPOKEN = [name for name in PROTOCOLS if name != "recorded"]
QUESTION = Question(
    "Which?",
    (Answer("A", "forty crates", "48 - 8"), Answer("B", "thirty crates", "40 - 10")),
    passage="There were 48 crates.",
)
ASKED = Problem("p", QUESTION, (1, -1), flaws=("", "it was 48"))
AGENT = Agent(
    "agent", temperature=0.3, words=77, max_tokens=111, effort="high", reasoning_tokens=13
)
HELPER = replace(AGENT, model="helper", temperature=0.4, max_tokens=112)
JUDGE = StatedJudge(
    "judge", temperature=0.2, effort="low", max_tokens=99, turn_tokens=88, reasoning_tokens=5
)
DRAFTING = {"best of": BestOf(2, AGENT, JUDGE), "side checked": SideCheck(AGENT, HELPER)}


def share(*parts: object) -> float:
    """A random number in [0, 1), determined by these."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") / 2**32


def by_meaning(call: Call, question: Question) -> str | Reply:
    """A reply that depends on the task, on the texts of the answers and on the draw. Labels and the
    order of answers do not matter."""
    parsed = prompt(call)
    owner = {answer.label: answer.text for answer in question.answers}
    parts = (call.model, parsed.task, owner.get(parsed.side), call.draw, len(parsed.speeches))
    first, other = question.answers
    p = round(share(*parts, *sorted(owner.values())), 2)
    true = p if first.text < other.text else round(1 - p, 2)
    if call.response_format is not None:
        labels = {first.label: true, other.label: round(1 - true, 2)}
        schema = orjson.loads(call.response_format.schema)
        if set(schema["properties"]) == set(labels):
            return orjson.dumps(labels).decode()
        filled = fill_form(schema, Contents(f"listed {share(*parts)}", p, pick=1))
        for name, field in schema["properties"].items():
            if {first.label, other.label} <= set(field.get("enum", ())):
                filled[name] = first.label if true > 0.5 else other.label
        return orjson.dumps(filled).decode()
    if parsed.statement:
        return f"Yes: {100 * p:g}%\nNo: {100 - 100 * p:g}%"
    if parsed.task == "percentages":
        return f"{first.label}: {100 * true:g}%\n{other.label}: {100 - 100 * true:g}%"
    return f"said {share(*parts)}"


def exchanged(question: Question) -> Question:
    """The same answers with exchanged labels and positions."""
    first, other = question.answers
    answers = structs.replace(other, label=first.label), structs.replace(first, label=other.label)
    return structs.replace(question, answers=answers)


@pytest.mark.parametrize("name", SPOKEN)
async def test_labels_and_positions_of_answers_do_not_matter(name):
    """The known truth: with players who consider only the texts of answers, the verdict on an
    answer and all measures are equal under each label, in every world of every setting."""
    other = exchanged(QUESTION)
    for protocol in made(name, AGENT, JUDGE):
        for place, side in enumerate(QUESTION.answers):
            verdict_here = await protocol.run(QUESTION, side, partial_ask(QUESTION))
            verdict_there = await protocol.run(other, other.answers[1 - place], partial_ask(other))
            if "steered" not in dict(verdict_here.measures):
                assert verdict_there.probs[::-1] == pytest.approx(verdict_here.probs), protocol.name
            assert len(verdict_there.transcript.turns) == len(verdict_here.transcript.turns)
            assert sum(verdict_here.probs) == pytest.approx(1)


def partial_ask(question: Question) -> Scripted:
    return Scripted(partial(by_meaning, question=question))


MARKED = default_prompts().changed(
    "marked", {block: f"⟦{block}⟧ {text}" for block, text in default_prompts().blocks}
)
_MARK = re.compile(r"⟦([\w.]+)⟧")


def read_in(call: Call) -> set[str]:
    """The blocks of a prompt."""
    return set(_MARK.findall(" ".join(message.text for message in call.messages[:2])))


async def heard(
    protocol: Protocol, question: Question = QUESTION
) -> list[tuple[tuple[str, str, int], Call]]:
    """All calls in the worlds of a protocol, with their purposes, as a recorder notes them."""
    ask = RecordingAsk(Scripted(lambda call: whimsical(call, 4)))
    for side in question.answers:
        verdict = await protocol.run(question, side, ask)
        await protocol.appraise(structs.replace(ASKED, question=question), side, verdict, ask)
        turns = {turn.call: turn for turn in verdict.turns()}
        for note in ask.notes:
            if isinstance(note, ParsedReply):
                assert note.role in ("judge", "rate") and "judge" in note.judge.split("(")[-1]
                continue
            (role, seat, _), call = note.part, note.call
            speech = turns.get(call.address)
            assert not speech or seat.startswith(speech.speaker.split(" ")[0]) or role == "judge"
            assert role, call
    return [(note.part, note.call) for note in ask.notes if isinstance(note, Exchange)]


@pytest.mark.parametrize("name", SPOKEN)
async def test_settings_are_sent_and_recorded(name):
    """The known truth: every call has the temperature, effort and limits of its asker, each seat
    reads the rules of its mechanism and one role, and the record has its task, its side and the
    number of turns heard, as in the prompt."""
    for reason in ("none", "private"):
        agent, judge = replace(AGENT, reason=reason), replace(JUDGE, reason=reason)
        room = REASONING_ROOM if reason != "none" else 0
        for protocol in made(name, agent, judge):
            protocol = replace(protocol, prompts=MARKED)
            for (role, seat, turns), call in await heard(protocol):
                parsed, blocks = prompt(call), read_in(call)
                form = call.response_format is not None
                reads = parsed.task in ("percentages", "statement")
                assert turns == len(parsed.speakers) or parsed.task == "step" or form, (seat, turns)
                if call.model == "agent":
                    sent = (0.3, "high", 111 + 13 + room * form)
                    assert role == parsed.task, (role, parsed.task)
                    assert not parsed.side or seat.endswith(parsed.side) or " " not in seat
                else:
                    sent = (0.2, "low", (99 if reads else 88) + 5 + room * (form or reads))
                    assert role == ("judge" if reads else parsed.task)
                assert (call.temperature, call.effort, call.max_tokens) == (
                    1.0 if (name == "weak_to_strong" and reads) else sent[0],
                    *sent[1:],
                )
                assert parsed.task != "speak" or parsed.side
                if number := re.search(r"This is (turn|round) (\d+)", parsed.user):
                    before = [
                        entry for entry in parsed.speakers if entry.startswith(("Cons", "Deb"))
                    ]
                    clients = [entry for entry in parsed.speakers if entry.startswith("Client")]
                    many = len(before) + len(clients) if number[1] == "turn" else len(before) // 2
                    assert int(number[2]) == many + 1, (parsed.speakers, number[0])
                used = {block for block in blocks if block.split(".")[0] in protocol.sections}
                assert form or any(f"{section}.rules" in used for section in protocol.sections)
                conditions = {
                    "agent.form": form,
                    "agent.length": not form and not reads,
                    "judge.statement": bool(parsed.statement),
                    "judge.blind": reads and "<passage>" not in parsed.system,
                    f"judge.reason_{reason}": reads and reason != "none",
                    f"agent.reason_{reason}": form and reason != "none",
                    "data.turns": bool(parsed.speakers),
                }
                if name == "doubly_efficient_debate":
                    odds = bool(getattr(protocol, "probabilities", False))
                    conditions |= {f"{name}.certain": not odds, f"{name}.uncertain": odds}
                assert {entry: entry in blocks for entry in conditions} == conditions


async def test_every_block_of_the_prompts_is_read_by_somebody():
    """The known truth: every block of a prompt set is in some prompt."""
    unread = {block for block, _ in default_prompts().blocks}
    private = Agent("agent", tools=("calculator",), scratchpad=True, reason="private")
    more = [
        PROTOCOLS["adversarial_propaganda"](JUDGE, AGENT, HELPER),  # type: ignore[call-arg]
        PROTOCOLS["debate_feedback"](JUDGE, AGENT, own=True),  # type: ignore[call-arg]
        PROTOCOLS["proposer_critic"](JUDGE, AGENT, rebuttals=1),  # type: ignore[call-arg]
        *(entry for speaker in DRAFTING.values() for entry in made("propaganda", speaker, JUDGE)),
    ]
    for protocol in [*more, *(entry for name in SPOKEN for entry in made(name, private, JUDGE))]:
        for _, call in await heard(replace(protocol, prompts=MARKED)):
            unread -= read_in(call)
    task = Task("t", OpenQuestion("How many?", ()), None, {}, "t")
    for instruction in get_args(Instruction):
        unread -= read_in(open_tasks.compose(task, private, instruction, MARKED))
    # Blocks of all mechanisms depend on the abilities of a model and on the way it is asked.
    assert not {block for block in unread if not block.startswith(("judge.", "data.", "agent."))}


WAYS: dict[str, ModelJudge] = {
    "percentages": StatedJudge("judge"),
    "distribution": DistributionJudge("judge"),
    "label": LogprobJudge("judge"),
    "vote": VotesJudge("judge"),
}


@pytest.mark.parametrize("reason", ["none", "private", "public"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_judge_is_asked_in_its_own_way(way, reason):
    """The known truth: statements, answers and degrees have separate wordings, each used in one
    way; a form if the judge fills in one, a cue at the end if it continues one. It is told to
    reason as set, in a form's field if it has a form."""
    if way == "label" and reason != "none":
        return
    judge, ask = replace(WAYS[way], reason=reason), RecordingAsk(Scripted(lambda call: "Hm."))
    graded = structs.replace(QUESTION, graded=True)
    role_prompt = PROTOCOLS["naive_judge"](judge, prompts=MARKED).judging()
    for statement, question in (("", QUESTION), ("It is.", QUESTION), ("", graded)):
        for both in (False, True):
            asker = replace(judge, both_orders=both)
            with pytest.raises(Unreadable) as fault:
                if statement:
                    await asker.believes(statement, Transcript(question), ask, role_prompt)
                else:
                    await asker.judge(Transcript(question), ask, role_prompt)
            assert fault.value.seat == "Judge"
        kind = "statement_" if statement else "graded_" if question.graded else ""
        noted = [note for note in ask.notes if isinstance(note, Exchange)]
        assert {note.part for note in noted} == {("judge", "Judge", 0)}
        for call in [note.call for note in noted]:
            parsed = prompt(call).user
            blocks = {entry for entry in read_in(call) if entry.startswith("judge.")}
            form = "_form" if way == "distribution" else ""
            expected = {f"judge.{kind}{way}", "judge.blind"}
            expected |= {"judge.statement"} if statement else set()
            expected |= {f"judge.reason_{reason}{form}"} if reason != "none" else set()
            assert blocks == expected
            assert (call.response_format is not None) == (way == "distribution")
            assert bool(call.top_logprobs) == (way == "label") == (not parsed.endswith("ions>"))
            assert ('private="yes"' in parsed) == (reason == "private" and not form)
            assert call.temperature == (1.0 if way == "vote" else 0.0)
        ask.notes.clear()


def test_a_part_of_a_set_keeps_its_name():
    part = MARKED.only(("debate",))
    assert part.name == "marked" and not part.names.keys() & {"critique", "consultancy"}


@pytest.mark.parametrize("name", SPOKEN)
def test_a_row_is_named_by_its_settings(name):
    """The known truth: different settings give different names, in lower case, in words from the
    mechanism's own page."""
    rows = made(name, AGENT, JUDGE)
    names = {protocol.name for protocol in rows}
    assert len(names) == len({repr(protocol) for protocol in rows})
    kind = PROTOCOLS[name]
    page = " ".join(inspect.getsource(entry) for entry in kind.__mro__[:-2]).lower()
    page_words = {*re.findall(r"[a-z]+", page), *kind.__name__.lower().split("_"), *name.split("_")}
    for lines_told in names:
        assert lines_told == " ".join(lines_told.lower().split())
        assert set(re.findall(r"[a-z]+", lines_told)) <= page_words, lines_told
    for protocol in rows:
        if getattr(protocol, "aux", "") == "adversarial":
            assert claims_of(protocol)[0].gain == 1


@pytest.mark.parametrize("kind", [StatedJudge, DistributionJudge, VotesJudge, LogprobJudge])
async def test_example_replies_are_read_back_unchanged(kind):
    """The known truth: an example's reply is read back as the probabilities that it states, and
    votes and labels as the likeliest answer. The reply counts in its original words, and a reader
    of a statement sees Yes first."""
    for count in (2, 3, 4):
        question = Question("?", tuple(Answer(label, f"is {label}") for label in "ABCD"[:count]))
        for weights in product((0.0, 0.125, 0.5, 1.0), repeat=count):
            if not sum(weights) or weights.count(max(weights)) > 1:
                continue
            probs = tuple(weight / sum(weights) for weight in weights)
            judge = kind("judge")
            speech = judge.put(question, Shot(Transcript(question), probs))
            reply = (
                Reply(speech, logprobs=(token(speech, 0.7, Q=0.3),))
                if "." not in speech
                else speech
            )
            verdict = await judge.judge(
                Transcript(question), Scripted(lambda call, reply=reply: reply)
            )
            best = tuple(float(p == max(probs)) for p in probs)
            sure = kind in (VotesJudge, LogprobJudge)
            read = [entry.probs for entry in verdict.judgements]
            assert read == [pytest.approx(best if sure else probs, abs=1e-5)] * len(read)
            assert all(entry.text == speech for entry in verdict.judgements)
            if kind is LogprobJudge:
                place = best.index(1.0)
                assert verdict.judgements[0].captured == pytest.approx(0.7)
                assert verdict.bounds[place] == pytest.approx((0.7, 1.0))


PANELS: dict[str, Judge] = {
    "votes": VotesJudge("judge", n=3),
    "both orders": StatedJudge("judge", both_orders=True),
    "jury": Jury((JUDGE, StatedJudge("juror"), StatedJudge("third"))),
    "weighted": Jury((JUDGE, StatedJudge("juror")), weights=(1.0, 3.0)),
    "median": Jury((JUDGE, StatedJudge("juror"), StatedJudge("third")), "median"),
    "redrawn": Redrawn(JUDGE),
}


@pytest.mark.parametrize("name", PANELS)
async def test_bounds_are_the_extreme_verdicts_of_an_unread_reply(name):
    """The known truth: the bounds are the verdicts with the reply at 0 and at 1. The verdict of a
    world is the bound that is worst for its agent."""
    transcript, first = Transcript(CRATES), CRATES.answers[0]

    async def decided(
        at: int, speech: str | None
    ) -> tuple[float, ProbabilityRange, Sequence[object]]:
        parsed: list[str] = []

        def answer(call: Call) -> str:
            parsed.append(call.address)
            if len(parsed) - 1 == at and speech != "whole":
                return speech or "Hm."
            return "Answer: A" if (prompt(call).task == "vote") else "A: 60%\nB: 40%"

        verdict = await PANELS[name].judge(transcript, Scripted(answer))
        world = structs.replace(verdict, transcript=transcript).settled(first)
        return world.probs[0], verdict.spans[0], verdict.doubts

    vote = isinstance(PANELS[name], VotesJudge)
    for at in range(2):
        sure = ("A: 0%\nB: 100%", "A: 100%\nB: 0%")
        low, high = ("Answer: B", "Answer: A") if vote else sure
        if name == "both orders" and at == 1:  # here labels are exchanged
            low, high = high, low
        least, most = [(await decided(at, entry))[0] for entry in (low, high)]
        settled, bounds, doubts = await decided(at, None)
        assert bounds == pytest.approx((least, most)) and settled == pytest.approx(least)
        assert len(doubts) == 1 and (await decided(at, "whole"))[2] == ()


@pytest.mark.parametrize("kind", DRAFTING)
async def test_drafted_speech_is_a_turn_of_its_speaker(kind):
    """The known truth: a drafted speech is a turn of the same seat, from a draft with the speaker's
    own settings. The judge of drafts reads the rules, the transcript and the judge's role."""
    (protocol,) = made("propaganda", DRAFTING[kind], JUDGE)
    protocol = replace(protocol, prompts=MARKED)
    ask = RecordingAsk(Scripted(lambda call: whimsical(call, 2)))
    (turn,) = (await protocol.run(QUESTION, QUESTION.answers[1], ask)).transcript.turns
    assert (turn.speaker, turn.side) == ("Advocate B", QUESTION.answers[1])
    roles = {note.part[0] for note in ask.notes if isinstance(note, Exchange)}
    assert roles <= {"draft", "rate", "side", "speak", "judge"}
    for note in ask.notes:
        if isinstance(note, ParsedReply):
            continue
        (role, seat, turns), call = note.part, note.call
        blocks = read_in(call)
        assert turns == len(prompt(call).speakers)
        match role:
            case "rate" | "judge":
                assert {"propaganda.rules", "propaganda.judge"} <= blocks and seat == "Judge"
            case "side":
                assert {"agent.reader_rules", "agent.reader"} <= blocks and seat == "Reader"
            case "draft" | "speak":
                assert "propaganda.advocate" in blocks and call.max_tokens == 124
    assert {*Turn.__struct_fields__} > {"drafts", "doubts"}
