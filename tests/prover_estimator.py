"""A prover-estimator debate that says the same of every claim, for tests that change one reply."""

from oversight.cache.call import Call
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import StatedJudge
from tests.fakes import CRATES, form, held, prompt

JUDGE = StatedJudge("judge")
ALICE, ESTHER = Agent("alice"), Agent("esther")
A, B = CRATES.answers


LINK = "If "
"""How the subclaim begins that the claim follows."""


def estimated(call: Call, *stated: float, link: float = 1.0) -> str:
    """The estimate of the one statement that is shown: for `part 1` the first of `stated`."""
    said = prompt(call).speeches[0]
    return form(probability=link if said.startswith(LINK) else stated[int(said[-1]) - 1])


def script(call: Call, subclaim: object = 2, truth_is: object = "higher") -> str:
    asked = prompt(call)
    match asked.task:
        case "subclaims":
            parts = [f"{asked.speeches[0]} part {n}" for n in "123"]
            return form(subclaims=parts, needed="all", at_least=3)
        case "estimate":
            return estimated(call, 0.9, 0.5, 0.8, link=0.95)
        case "pick":
            return form(subclaim=subclaim, truth_is=truth_is)
        case "statement":
            return held(0.75)
    raise AssertionError(asked.task)
