import pytest

from oversight.cache.call import Call
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.protocol import Horizon
from tests.fakes import ALICE, CRATES, A, B, Scripted, addresses, prompt

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


async def test_the_client_is_the_judges_model_with_its_settings() -> None:
    ask = Scripted(script)
    await Consultancy(JUDGE, ALICE).run(CRATES, A, ask)
    client = ask.calls[0]
    assert (client.model, client.temperature, client.effort) == ("judge", 0.2, "low")


async def test_the_consultant_answers_what_the_client_asked() -> None:
    verdict = await Consultancy(JUDGE, ALICE).run(CRATES, B, Scripted(script))
    assert verdict.transcript.turns[1].text == "speak B after question 0?"
    assert verdict.transcript.turns[1].side == B


@pytest.mark.parametrize("horizon", ["untold", "told"])
async def test_a_longer_consultancy_begins_with_a_shorter_one_unless_its_length_is_told(
    horizon: Horizon,
) -> None:
    short, long = Scripted(script), Scripted(script)
    await Consultancy(JUDGE, ALICE, turns=2, horizon=horizon).run(CRATES, A, short)
    await Consultancy(JUDGE, ALICE, turns=4, horizon=horizon).run(CRATES, A, long)
    shared = addresses(short) & addresses(long)
    # All but the verdict.
    assert len(shared) == (2 if horizon == "untold" else 0)
    assert ("of both together: 4" in prompt(long.calls[0]).system) == (horizon == "told")
