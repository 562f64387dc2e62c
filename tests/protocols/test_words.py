"""What is made of the words of models and people: `words.md`."""

from pathlib import Path
from typing import Any

import pytest

from oversight.cache import Reply
from oversight.protocols import ADVOCATE, TOOLS, Agent, Answer, Case, Transcript, Turn
from oversight.protocols.agents.calculator import calculate
from oversight.protocols.datasets.catalogue import loader
from oversight.protocols.datasets.leak import FEATURES
from oversight.protocols.datasets.solution import closing, number, steps
from oversight.protocols.judges.exchange import exchanged
from oversight.protocols.mechanisms.cross_examination import statements
from oversight.protocols.prompts.escape import escape_and_count
from oversight.protocols.question import is_graded
from oversight.protocols.quotes import Quote, find_quotes, marked
from tests.fakes import ALICE, CRATES, JUDGE, A, Scripted
from tests.protocols.agents.test_tools import used
from tests.protocols.drafting.test_drafting import check_side, finding, scripted, spoken
from tests.protocols.judges.test_judges import SHOT, judge, system
from tests.protocols.prompts.test_quotes import PASSAGE
from tests.protocols.test_seat import FORM, SEAT
from tests.sessions import Session, sessions
from tests.tables import PUBLIC, expressions

LONG = "<quote>one two</quote> <quote>three</quote> <quote>" + "word " * 50 + "word</quote>"
FILE = Path(__file__).with_name("words.md")


def verified(quote: str, passage: str = PASSAGE) -> bool:
    (found,) = find_quotes(f"He writes <quote>{quote}</quote>.", passage)
    assert found.text == quote
    return found.verified


def heard(said: str) -> str:
    """What others hear of it where the speaker may think in private."""
    return Agent("alice", scratchpad=True).read(Reply(said), (), A, ADVOCATE).text


def conceded(said: str) -> bool:
    return Agent("alice").read(Reply(said), (), A, ADVOCATE).conceded


def said_in(speech: str) -> list[str]:
    return [repr(statement.text) for statement in statements(speech)]


def relabelled(said: str) -> str:
    """What Debater A said, as it stands where A and B are exchanged."""
    case = exchanged(Case(Transcript(CRATES, (Turn("Debater A", said, A),))))
    (turn,) = case.transcript.turns
    return f"{turn.speaker}, for {turn.side and turn.side.text}: {turn.text}"


async def filled(reply: str) -> tuple[float, int, str, str]:
    return await SEAT.fill(FORM, Transcript(CRATES), Scripted(lambda call: reply))


def wished(arguments: str, name: str = "calculator", given: tuple[str, ...] = tuple(TOOLS)) -> str:
    found = used(arguments, name, given)
    return f"{found.tool}: {found.arguments} = {found.result}"


async def checked(found: list[str]) -> tuple[str, str, int]:
    turn = await check_side(finding(*found))
    return turn.text, turn.check, turn.retries


async def refined(**said: Any) -> str:
    return (await spoken(scripted(**said))).text


async def example(kind: str) -> str:
    told = await system(judge(kind, shots=(SHOT,)))
    return told.partition("<reply>\n")[2].partition("\n</reply>\n</example>")[0]


def features(name: str, more: Answer, less: Answer) -> str:
    return f"{FEATURES[name](more):g} > {FEATURES[name](less):g}"


NAMES = PUBLIC | {
    each.__name__: each
    for each in (
        verified, heard, conceded, said_in, relabelled, filled, calculate, closing, number, steps,
        escape_and_count, is_graded, find_quotes, marked, Quote, loader, wished, checked,
        features, refined, example, Reply,
    )
}  # fmt: skip


@sessions(FILE)
def test_words_are_read_as_they_were_meant(
    session: Session, request: pytest.FixtureRequest
) -> None:
    more = {"PASSAGE": PASSAGE, "ALICE": ALICE, "JUDGE": JUDGE, "SHOT": SHOT, "LONG": LONG}
    session.check(request, expressions(NAMES | more))
