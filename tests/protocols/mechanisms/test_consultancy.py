import pytest

from oversight.cache.call import Call
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.consultancy import Consultancy
from tests.fakes import ALICE, CRATES, A, Scripted, prompt

JUDGE = StatedJudge("judge", temperature=0.2, effort="low")


def script(call: Call) -> str:
    said = prompt(call)
    match said.task:
        case "percentages":
            return "A: 60%\nB: 40%"
        case "ask":
            return f"question {len(said.speeches)}?"
    return f"{said.asks} after {'; '.join(said.speeches) or 'nothing'}"


@pytest.mark.parametrize(
    ("first", "turns", "speakers"),
    [
        ("client", 1, ["Client"]),
        ("client", 2, ["Client", "Consultant A"]),
        ("client", 4, ["Client", "Consultant A", "Client", "Consultant A"]),
        ("consultant", 1, ["Consultant A"]),
        ("consultant", 3, ["Consultant A", "Client", "Consultant A"]),
    ],
)
async def test_client_and_consultant_take_turns(
    first: str, turns: int, speakers: list[str]
) -> None:
    protocol = Consultancy(JUDGE, ALICE, first=first, turns=turns)
    verdict = await protocol.run(CRATES, A, Scripted(script))
    assert [turn.speaker for turn in verdict.transcript.turns] == speakers
