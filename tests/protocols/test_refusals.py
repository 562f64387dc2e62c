"""Settings that cannot be used are refused, with what would do: `refusals.md`."""

import math
from dataclasses import fields
from pathlib import Path

import pytest
from msgspec.structs import replace

from oversight import protocols
from oversight.protocols import Answer, Protocol, Question, StatedJudge
from oversight.protocols.datasets.bundled import bundled
from oversight.protocols.datasets.catalogue import loader
from oversight.protocols.datasets.generation import Generator
from oversight.protocols.datasets.leak import leakage_check
from oversight.protocols.datasets.proposals import proposals
from oversight.protocols.prompts.prompt_set import default_prompts
from oversight.protocols.prompts.render import Instructions
from oversight.protocols.sampling import Sampling
from oversight.protocols.scores import logodds
from tests.fakes import ALICE, APPLES, CRATES, JUDGE
from tests.sessions import Session, sessions
from tests.tables import PUBLIC, expressions

FILE = Path(__file__).with_name("refusals.md")
THREE, FOUR = (Question("?", tuple(Answer(each, each) for each in "ABCD"[:n])) for n in (3, 4))


def made(kind: type[Protocol], **settings: object) -> Protocol:
    agent = {"agent": ALICE} if "agent" in {field.name for field in fields(kind)} else {}
    return kind(**{"judge": JUDGE} | agent | settings)


NAMES = PUBLIC | {
    "ALICE": ALICE, "APPLES": APPLES, "CRATES": CRATES, "JUDGE": JUDGE, "THREE": THREE,
    "FOUR": FOUR, "DEFAULT": default_prompts(), "Instructions": Instructions, "nan": math.nan,
    "THREE_JUDGES": tuple(map(StatedJudge, ("ann", "ben", "cat"))), "inf": math.inf, "made": made,
    "SHOT": protocols.Shot(protocols.Transcript(CRATES), (0.25, 0.75)), "loader": loader,
    "Generator": Generator, "bundled": bundled, "proposals": proposals, "replace": replace,
    "leakage_check": leakage_check, "Sampling": Sampling, "logodds": logodds,
}  # fmt: skip


@sessions(FILE)
def test_what_could_not_be_used_is_refused_with_the_mend(
    session: Session, request: pytest.FixtureRequest
) -> None:
    session.check(request, expressions(NAMES))
    told = session.text.split("\n$ ")[1:]
    assert told and all("Error: " in each.partition("\n")[2] for each in told)
