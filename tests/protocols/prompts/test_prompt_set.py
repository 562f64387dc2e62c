import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import structs

from oversight.cache.call import Call
from oversight.protocols.agents.agent import Agent, Brief
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.baselines import OpenTrust
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.double_consultancy import DoubleConsultancy
from oversight.protocols.prompts.parse import read_rules
from oversight.protocols.prompts.prompt_set import (
    PromptSet,
    check,
    default_prompts,
    placeholders,
)
from oversight.protocols.prompts.words import Words
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Problem
from tests.fakes import CRATES, prompt
from tests.shipments import shipment
from tests.world import asked, plain

DEFAULT = default_prompts()
JUDGE, AGENT = StatedJudge("sim/quiet"), Agent("sim/quiet")
WORDED = [name for name, kind in PROTOCOLS.items() if kind.sections]


async def calls_of(protocol: Protocol, problem: Problem | None = None) -> list[Call]:
    """Every different call of both worlds, in the order of asking."""
    about = problem or shipment(0)
    return list((await asked(protocol, about, 0) | await asked(protocol, about, 1)).values())


@pytest.fixture(scope="module", params=WORDED)
def spoken(request: pytest.FixtureRequest) -> tuple[Protocol, list[Call]]:
    """Each mechanism, and what it asks."""
    protocol = plain(PROTOCOLS[request.param])
    return protocol, asyncio.run(calls_of(protocol))


Spoken: TypeAlias = tuple[Protocol, list[Call]]


def test_every_block_of_the_default_set_keeps_its_own_rules() -> None:
    for block, text in DEFAULT.blocks:
        check(block, text)


def test_judge_and_speakers_read_the_same_rules(spoken: Spoken) -> None:
    protocol, calls = spoken
    if isinstance(protocol, OpenTrust):
        return
    rules = [read_rules(prompt(call).system)[0] for call in calls]
    # A free choice comes before the rules, and is bound by none.
    taking_part = {each for each in rules if each != DEFAULT.text("open_trust.rules")}
    assert len(taking_part) <= 1 + isinstance(protocol, DoubleConsultancy)
    assert protocol.rules() in taking_part


def test_no_placeholder_is_left_for_a_reader(spoken: Spoken) -> None:
    known = {each for block, _ in DEFAULT.blocks for each in placeholders(block)}
    for call in spoken[1]:
        for message in call.messages:
            assert not known & set(re.findall(r"\{([a-z_]+)\}", message.text))


async def test_one_block_changes_the_calls_of_its_seat_and_no_others() -> None:
    text = DEFAULT.text("debate.judge")
    mine = DEFAULT.changed("mine", {"debate.judge": f"{text} Take your time."})
    before = {call.address for call in await calls_of(plain(Debate))}
    after = await calls_of(plain(Debate, prompts=mine))
    fresh = [call for call in after if call.address not in before]
    assert [prompt(call).task for call in fresh] == ["percentages"]
    assert "Take your time." in prompt(fresh[0]).user


def test_a_protocol_that_is_older_than_the_type_goes_on_and_names_answers_by_label() -> None:
    older = Brief("Voice", "Rules.", "For ({label}) {answer}.")  # type: ignore[arg-type]
    assert older == Brief("Voice", Words("Rules."), Words("For ({label})."))


def test_the_digest_is_of_the_words_and_not_of_the_name() -> None:
    other = DEFAULT.changed("other", {"debate.judge": "You are the judge."})
    assert DEFAULT.digest == PromptSet("renamed", DEFAULT.blocks).digest != other.digest


async def test_what_the_judge_cannot_read_is_told_to_all() -> None:
    blind = structs.replace(CRATES, passage="PASSAGE")
    about = Problem("read", blind, (1, -1))
    for judge, shown in ((JUDGE, "hidden"), (replace(JUDGE, reads_passage=True), "shared")):
        calls = await calls_of(Debate(judge, AGENT, rounds=1), about)
        speeches = [prompt(call).user for call in calls if prompt(call).task == "speak"]
        assert all(DEFAULT.text(f"agent.passage_{shown}") in each for each in speeches)
        (verdict,) = [prompt(call).user for call in calls if prompt(call).task == "percentages"]
        assert (DEFAULT.text("judge.blind") in verdict) == (shown == "hidden")


def test_the_words_of_every_mechanism_are_pinned() -> None:
    """A change of any word pays for all calls again: it must be meant."""
    lines = Path(__file__).with_name("digests.txt").read_text().splitlines()
    assert [f"{name} {plain(PROTOCOLS[name]).read.digest}" for name in WORDED] == lines
