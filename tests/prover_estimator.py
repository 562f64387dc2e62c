"""A prover-estimator debate that says the same of every claim, for tests that change one reply."""

import orjson

from oversight.cache.call import Call
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import StatedJudge
from tests.fakes import CRATES, form, held, prompt

JUDGE = StatedJudge("judge")
ALICE, ESTHER = Agent("alice"), Agent("esther")
A, B = CRATES.answers


def estimates(*stated: object) -> str:
    return orjson.dumps({str(n): p for n, p in enumerate(stated, 1)}).decode()


def script(call: Call, subclaim: object = 2, truth_is: object = "higher") -> str:
    asked = prompt(call)
    match asked.task:
        case "subclaims":
            parts = [f"{asked.speeches[0]} part {n}" for n in "123"]
            return form(subclaims=parts, needed="all", at_least=3)
        case "estimates":
            return estimates(0.9, 0.5, 0.8, 0.95)
        case "pick":
            return form(subclaim=subclaim, truth_is=truth_is)
        case "statement":
            return held(0.75)
    raise AssertionError(asked.task)
