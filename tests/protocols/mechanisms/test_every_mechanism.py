"""Every mechanism: readers of the passage, sides of helpers, badly filled forms, calls and their
readers (`calls.md`, one row below each heading), and the effects of broken replies.

In `calls.md` each reply is derived from the number of its call, and stands for it wherever it is
heard. For broken replies, all players answer at random depending on the prompt, judges in tenths.
Each reply of a world is then broken, alone and with all others of its task. The original verdict
must lie within the bounds of the broken world, so that nobody gains."""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec import structs

from oversight import Agent, Ask, Call, Debate, Judge, Problem, Protocol, Reply, Verdict, protocols
from oversight.protocols import BestOf, Critique, Ensemble, Jury, Redrawn, StatedJudge, VotesJudge
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.errors import Declined, Unreadable
from tests.fakes import CRATES, Scripted, addresses, form, held, paid, prompt
from tests.sessions import sessions
from tests.world import asked, plain, shipment, simulated

JUDGE, OTHER = StatedJudge("sim/quiet"), Agent("sim/it")


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in PROTOCOLS),
        ("adversarial_propaganda", {"market": OTHER}),
        ("amplification", {"depth": 2}),
        ("amplification", {"depth": 2, "overseer": OTHER}),
        ("critique", {"ranker": StatedJudge("sim/it", reads_passage=True)}),
        ("debate", {"opponent": OTHER, "simultaneous": False}),
        ("debate_feedback", {"participant": OTHER}),
    ],
)
async def test_agents_read_the_passage_and_judges_only_if_they_may(name, settings, reads):
    problem = shipment(0)
    question = structs.replace(problem.question, passage="THE PASSAGE")
    problem = structs.replace(problem, question=question)
    protocol = plain(PROTOCOLS[name], judge=replace(JUDGE, reads_passage=reads), **settings)
    if hasattr(protocol, "agent"):
        protocol = replace(protocol, agent=OTHER)
    for place in (0, 1):
        for call in (await asked(protocol, problem, place)).values():
            view = "THE PASSAGE" in "".join(message.text for message in call.messages)
            assert view == (reads or call.model == "sim/it")


MATTERS_NOT = {"part", "at_least"}
"""Fields that may have any value: some are ignored, some depend on another field."""


def misfilled(schema: Any, good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A form with one field missing, or with an invalid value."""
    for name in schema["properties"].keys() - MATTERS_NOT:
        match schema["properties"][name]:
            case {"enum": [*_]}:
                wrong: tuple[object, ...] = (-1, 99, 1.5, True, "99", "elsewhere", None)
            case {"type": "array"}:
                wrong = ("one", [7], None)
            case {"type": "number"}:
                wrong = (-0.1, "high", None)
            case _:
                wrong = (7, None)
        yield {key: value for key, value in good.items() if key != name}
        yield from (good | {name: entry} for entry in wrong)


@pytest.mark.parametrize(
    ("name", "settings", "forms"),
    [
        ("adversarial_propaganda", {"market": OTHER}, {"probabilities"}),
        ("amplification", {}, {"subquestions"}), ("cross_examination", {}, {"challenge"}),
        ("doubly_efficient_debate", {}, {"steps", "step"}), ("open_debate", {}, {"choice"}),
        ("doubly_efficient_debate", {"probabilities": True}, {"steps", "step"}),
        ("market_making", {}, {"probabilities"}), ("open_consultancy", {}, {"choice"}),
        ("open_trust", {}, {"choice"}), ("proposer_critic", {}, {"choice"}),
        ("prover_estimator_debate", {}, {"subclaims", "estimate", "pick"}),
        ("recursive_reward_modelling", {}, {"criteria"}),
    ],
)  # fmt: skip
async def test_a_wrongly_filled_form_leaves_the_world_without_a_verdict(name, settings, forms):
    problem = shipment(0)
    question, provider = problem.question, simulated([problem])
    protocol = plain(PROTOCOLS[name], **settings)
    filled: dict[str, tuple[Any, dict[str, Any]]] = {}

    async def listens(call: Call) -> Reply:
        reply = await provider(call)
        if call.response_format:
            schema = orjson.loads(call.response_format.schema)
            filled.setdefault(prompt(call).task, (schema, orjson.loads(reply.text)))
        return reply

    def answering(task: str, reply: Reply) -> Ask:
        async def ask(call: Call) -> Reply:
            return reply if prompt(call).task == task else await provider(call)

        return ask

    await protocol.run(question, question.answers[0], listens)
    assert filled.keys() == forms
    for task, (schema, good) in filled.items():
        for reply in [Reply("Hm."), *(Reply(form(**entry)) for entry in misfilled(schema, good))]:
            with pytest.raises(Unreadable):
                await protocol.run(question, question.answers[0], answering(task, reply))
        with pytest.raises(Declined):
            refusal = Reply("I will not.", outcome="refused")
            await protocol.run(question, question.answers[0], answering(task, refusal))


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("critique", "critique"),
        ("debate_feedback", "discuss"),
        ("proposer_critic", "critique"),
        ("recursive_reward_modelling", "assess"),
    ],
)
async def test_helpers_are_neutral_sided_or_secretly_for_the_agent(name, task):
    for aux, side in (("honest", ""), ("sided", "B"), ("adversarial", "A")):
        protocol = plain(PROTOCOLS[name], aux=aux)
        helped = [prompt(entry) for entry in (await asked(protocol, shipment(0), 0)).values()]
        sides = {entry.side for entry in helped if entry.task == task}
        # An honest critic of a proposer speaks for its own choice.
        chooses = name == "proposer_critic" and aux == "honest"
        assert sides == {side} or (chooses and len(sides) == 1)
        assert any(entry.task == "choice" for entry in helped) == chooses
        assert protocol.name.endswith(f"aux {aux}") == (aux != "honest")
        assert protocol.words.text(f"{protocol.sections[0]}.{aux}_conduct") in helped[-1].user


LIST = Path(__file__).with_name("calls.md")
NAMES = {name: getattr(protocols, name) for name in protocols.__all__} | {
    name: protocols.StatedJudge(name) for name in ("judge", "rita")
}
NAMES |= {name: protocols.Agent(name) for name in ("alice", "bob", "carol")}
NAMES["trudy"] = protocols.Agent("trudy", reason="public")


def said(call: Call, number: int) -> str:
    """A form, a belief or a speech, derived from the number of the call."""
    parsed, share = prompt(call), 37 * number % 100
    match parsed.task:
        case "percentages":
            return f"A: {share}%\nB: {100 - share}%"
        case "statement":
            return f"Answer: {'Yes' if number % 3 else 'No'}" if call.draw else held(share / 100)
    if call.response_format is None:
        claim = f'! <claim tool="calculator" expect="{number}">{number}</claim>'
        return f"{number}{claim if 'write <claim' in parsed.user else ''}"
    listed = [f"{number}.{n}" for n in (1, 2)]
    odds = [{"step": step, "probability": p} for step, p in zip(listed, (0.9, 0.1), strict=True)]
    claimed = "probability" in call.response_format.schema
    filled: dict[str, dict[str, object]] = {
        "probabilities": {"A": share / 100, "B": 1 - share / 100},
        "choice": {"answer": "B"},
        "challenge": {"statement": 1, "part": "", "question": f"{number}?"},
        "steps": {"steps": odds, "conclusion": 0.8} if claimed else {"steps": listed},
        "step": {"step": 2},
        "subclaims": {"subclaims": listed, "needed": "all", "at_least": 2},
        "estimate": {"probability": share / 100},
        "side": {"argues_for": "B" if number == 3 else "A"},
        "pick": {"subclaim": 2, "truth_is": "lower"},
    }
    thought = {"reasoning": f"thought {number}"} if "reasoning" in parsed.user else {}
    return form(**thought, **filled.get(parsed.task, {parsed.task: listed}))


class Book(Scripted):
    """Numbers calls in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        super().__init__(self.numbered)

    def numbered(self, call: Call) -> str:
        return said(call, self.numbers.setdefault(call.address, len(self.numbers) + 1))


def heard(turns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}: {' / '.join(text.splitlines())}" for name, text in turns)


def line(number: int, call: Call) -> str:
    parsed = prompt(call)
    draw = f"draw {call.draw[0]}" if call.draw else ""
    turns = heard(zip(parsed.speakers, parsed.speeches, strict=True))
    about = f"? {parsed.statement}" if parsed.statement else ""
    return f"{number:2}  {call.model:5} {parsed.asks:15} {draw:6}  {turns}{about}".rstrip()


async def written(row: str) -> list[str]:
    """The name of a row, and the calls and the end of its first world."""
    protocol: Protocol = eval(row, NAMES)
    book, (one_side, other_side) = Book(), CRATES.answers
    verdict = await protocol.run(CRATES, one_side, book)
    measures = [(n, f"{v:.4g}" if isinstance(v, float) else v) for n, v in verdict.measures]
    lines_told = [f"{name} {value}" for name, value in measures]
    spoken = heard((turn.speaker, turn.text) for turn in verdict.transcript.turns)
    lines = [
        protocol.name,
        *(line(book.numbers[call.address], call) for call in book.calls),
        f"ends    {', '.join([f'A {verdict.probs[0]:.4g}', *lines_told])}",
        f"spoken  {spoken}".rstrip(),
    ]
    one, book.calls = addresses(book), []
    await protocol.run(CRATES, other_side, book)
    other = addresses(book)
    paid = f"{len(one)}, in the other world {len(other)}, shared {len(one & other)}"
    return [*lines, f"paid    {paid}"]


@sessions(LIST)
def test_calls_and_their_readers_are_as_recorded(session, request):
    session.check(request, lambda row: asyncio.run(written(row)))


def test_every_mechanism_is_recorded():
    headings = re.findall(r"^## (\w+)$", LIST.read_text(), re.MULTILINE)
    assert {*headings} == {kind.__name__ for kind in PROTOCOLS.values()} - {"Recorded"}


STATED, AGENT = StatedJudge("judge"), Agent("agent")


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_concurrent_worlds_make_the_calls_of_sequential_worlds(name):
    protocol = plain(PROTOCOLS[name])
    one_by_one = set.union(*await paid(protocol, lambda call: whimsical(call, 0)))
    for values in ((1, -1), (-2, 3)):
        ask = Scripted(lambda call: whimsical(call, 0))
        await protocol.worlds(Problem("crates", CRATES, values, group="g"), ask)
        assert addresses(ask) == one_by_one


WAYS = {
    "muddled": Reply("Hm."),
    "refused": Reply("I will not.", outcome="refused"),
    "cut off": Reply("{", outcome="truncated"),
    "empty": Reply("", outcome="empty"),
}
SPEECH_WAYS = ("refused", "empty")
"""A muddled or cut speech is still a speech."""

JUDGES: dict[str, Judge] = {
    "votes": VotesJudge("judge"),
    "both orders": StatedJudge("judge", both_orders=True),
    "jury": Jury((STATED, StatedJudge("juror"), VotesJudge("third", n=2))),
    "median": Jury((STATED, StatedJudge("juror"), StatedJudge("third")), "median"),
    "log odds": Jury((STATED, StatedJudge("juror"), StatedJudge("third")), "logodds"),
    "ensemble": Ensemble(STATED),
    "redrawn": Redrawn(STATED),
}
"""Judges with several replies, each of which may be broken."""

ROWS: dict[str, Protocol] = {
    **{name: plain(kind) for name, kind in PROTOCOLS.items()},
    **{f"debate, {name}": Debate(judge, AGENT, Agent("b")) for name, judge in JUDGES.items()},
    **{f"critique, {name}": Critique(judge, AGENT) for name, judge in JUDGES.items()},
    **{
        f"{name}, votes": replace(plain(PROTOCOLS[name]), judge=VotesJudge("judge"))
        for name in (
            "adversarial_propaganda", "doubly_efficient_debate", "prover_estimator_debate",
            "recursive_reward_modelling", "debate_feedback",
        )
    },
    "critique, 2 shown": Critique(STATED, AGENT, shown=2),
    "debate, best of 4": Debate(STATED, BestOf(4, AGENT, STATED), Agent("b"), rounds=1),
}  # fmt: skip


TITLES = {"Judge", "Advocate", "Consultant", "Client", "Debater", "Copy of Debater", "Proposer"}
TITLES |= {"Critic", "Market", "Adversary", "Overseer", "Helper", "Agent", "Prover", "Opponent"}
TITLES |= {"Estimator", "Response", *(f"Participant {n}" for n in (1, 2, 3))}
"""Titles of seats."""


def chance(call: Call, seed: int, purpose: str = "") -> float:
    lines_told = hashlib.sha256(f"{seed} {call.address} {purpose}".encode()).digest()
    return int.from_bytes(lines_told[:4], "big") / 2**32


def tenths(call: Call, seed: int) -> int:
    return 10 * int(11 * chance(call, seed))


def whimsical(call: Call, seed: int) -> str:
    """A random reply in the requested form."""
    parsed = prompt(call)
    if call.response_format:
        return orjson.dumps(_filled(orjson.loads(call.response_format.schema), call, seed)).decode()
    p = tenths(call, seed)
    match parsed.task:
        case "statement" if "Answer:" in parsed.user:
            return f"Answer: {'Yes' if p > 50 else 'No'}"
        case "statement":
            return f"Yes: {p}%\nNo: {100 - p}%"
        case "percentages":
            return f"A: {p}%\nB: {100 - p}%"
        case "vote":
            return f"Answer: {'A' if p > 50 else 'B'}"
    return f"{parsed.asks} {chance(call, seed):.6f}"


def _filled(schema: dict[str, object], call: Call, seed: int, name: str = "") -> object:
    match schema:
        case {"enum": [*options]}:
            return options[int(len(options) * chance(call, seed, name))]
        case {"properties": {**fields}}:
            filled = {key: _filled(field, call, seed, key) for key, field in fields.items()}
            if call.response_format and call.response_format.name == "probabilities":
                *firsts, last = (key for key in filled if key != "reasoning")
                filled |= dict.fromkeys(firsts, filled[firsts[0]] / len(firsts))
                filled[last] = 1 - sum(filled[label] for label in firsts)
            return filled
        case {"type": "array", "items": {**item}}:
            return [_filled(item, call, seed, f"{name} {n}") for n in range(2)]
        case {"type": "number"}:
            return int(11 * chance(call, seed, name)) / 10
        case {"type": "integer"}:
            return 1
    return f"{name} {chance(call, seed, name):.6f}"


@dataclass(frozen=True)
class Break:
    """The effects of broken replies on a world in which the agent argues for (A)."""

    task: str
    way: str
    intact: float
    """The verdict on (A) without broken replies."""
    broken: Verdict | None
    """None: no verdict."""

    @property
    def bounds(self) -> tuple[float, float]:
        return self.broken.spans[0] if self.broken else (0.0, 1.0)

    @property
    def gains(self) -> tuple[float, float, float]:
        """Gains of the agent by its verdict, by its lower bound, and gains of its opponent."""
        low, high = self.bounds
        scored = self.broken.probs[0] - self.intact if self.broken else -self.intact
        return scored, low - self.intact, self.intact - high


async def broken_worlds(protocol: Protocol, seed: int) -> list[Break]:
    """Every reply of one world, and all replies to one task, broken in every way."""
    side = CRATES.answers[0]
    unbroken = Scripted(lambda call: whimsical(call, seed))
    verdict = await protocol.run(CRATES, side, unbroken)
    result = []
    for task, way, chosen in _breaks(unbroken.calls):
        if task == "speak" and any(turn.drafts for turn in verdict.transcript.turns):
            continue  # the speaker's own draft, which it might as well have left out

        def answer(call: Call, way: str = way, at: frozenset[str] = chosen) -> str | Reply:
            return WAYS[way] if call.address in at else whimsical(call, seed)

        try:
            after = await protocol.run(CRATES, side, Scripted(answer))
        except Unreadable as fault:
            assert fault.seat
            after = None
        result.append(Break(task, way, verdict.probs[0], after))
    return result


def _breaks(calls: list[Call]) -> Iterator[tuple[str, str, frozenset[str]]]:
    by_task: dict[str, set[str]] = {}
    for call in calls:
        speech = call.response_format is None and "speak" in _kind(call)
        for way in SPEECH_WAYS if speech else WAYS:
            yield prompt(call).task, way, frozenset({call.address})
        by_task.setdefault(prompt(call).task, set()).add(call.address)
    for task, chosen in by_task.items():
        for way in SPEECH_WAYS:
            yield task, way, frozenset(chosen)


def _kind(call: Call) -> str:
    """`read` if a judge's numbers or labels are read, otherwise `speak`."""
    return "read" if prompt(call).task in ("statement", "percentages", "vote", "label") else "speak"


@pytest.mark.campaign
@pytest.mark.parametrize("name", ROWS)
async def test_nobody_gains_by_breaking_a_reply(name):
    """The known truth: the original reply is one of those that an unread reply could have been. So
    the verdict of the unbroken world lies within the bounds of the broken one. The agent does not
    gain by its lower bound, nor its opponent by the upper one, and a broken reading of a judge does
    not raise the verdict itself."""
    for seed in range(3):
        for entry in await broken_worlds(ROWS[name], seed):
            scored, agent, opponent = entry.gains
            assert max(agent, opponent) <= 1e-9, (seed, entry)
            seats = {doubt.seat for doubt in entry.broken.doubts} if entry.broken else set()
            assert seats <= TITLES, seats
            if entry.task in ("statement", "percentages", "vote", "label"):
                assert seats <= {"Judge"}
                assert scored <= 1e-9 or name == "debate, best of 4", (seed, entry)
