"""Common test data: problems, a world that knows them, stores, mechanisms and their calls."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

from oversight.cache.call import Call
from oversight.cache.disk import DiskStore
from oversight.cache.reply import Reply
from oversight.engine.extensions.simulation import GroundTruth, SimModel, SimProvider
from oversight.engine.sweep.sweep import Sweep, report_rows
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Problem, labelled

QUIET = SimModel(persuasion=1.25, honesty_gap=0.5, insight=0.75, noise=0)
"""A deterministic model: 1.5 nats for the truth, 1 against it, and 0.75 for its own view."""


@cache
def shipment(n: int) -> Problem:
    """Problem number n, from 0: two answers, each with its work; the truth may be A or B."""
    all_apples, lost = 4 * (n + 3), n % 5
    right, wrong = 2 * all_apples - 2 * lost, all_apples - lost
    counted = f"4 crates x {n + 3} = {all_apples}\nLess the lost ones: {all_apples - lost}"
    return labelled(
        f"shipment-{n}",
        f"Shipment {n}: four crates hold {n + 3} apples each, and {lost} apples are lost on the "
        "way. A week later the owner doubles what is left. How many apples are there now?",
        [(str(right), f"{counted}\nDoubled: {right}", 1), (str(wrong), counted, -1)],
    )


def shipments(n: int) -> list[Problem]:
    return [shipment(number) for number in range(n)]


def sweep(*protocols: Protocol, problems: int = 2, draws: int = 1) -> Sweep:
    """A sweep of these protocols, or of a naive judge."""
    rows = report_rows(protocols or [NaiveJudge(StatedJudge("sim/judge"))])
    return Sweep("s", tuple(shipments(problems)), rows, draws)


THREE = labelled("three", "Which?", [("1", "", 1), ("2", "", -1), ("3", "", -1)])
"""A problem of three answers."""


def simulated(problems: list[Problem], model: SimModel = QUIET) -> SimProvider:
    """A provider of `sim/it`, which is as given, and of `sim/quiet`."""
    return SimProvider(GroundTruth(problems), {"sim/it": model, "sim/quiet": QUIET})


def within(count: int, n: int, p: float) -> bool:
    """Whether a count of n trials is at most 4.5 standard errors from its expectation under p."""
    return abs(count - n * p) <= 4.5 * (n * p * (1 - p)) ** 0.5


def filled(folder: Path, entries: Mapping[str, bytes]) -> None:
    """Add entries to the store in a folder."""
    store = DiskStore(folder)
    store.put_many(entries.items())
    store.close()


def plain(kind: type[Protocol], **settings: object) -> Protocol:
    """The protocol with its default settings; one agent and one judge take every seat."""
    roles: dict[str, object] = {"judge": StatedJudge("sim/quiet")}
    if "agent" in {field.name for field in fields(kind)}:
        roles["agent"] = Agent("sim/quiet")
    return kind(**roles | settings)


async def asked(protocol: Protocol, problem: Problem, place: int) -> dict[str, Call]:
    """The different calls of one world of a problem, by address, in the order of asking.

    place: of the answer that is argued for."""
    provider, calls_by_address = simulated([problem]), dict[str, Call]()

    async def ask(call: Call) -> Reply:
        calls_by_address.setdefault(call.address, call)
        return await provider(call)

    await protocol.run(problem.question, problem.question.answers[place], ask)
    return calls_by_address


async def calls(protocol: Protocol) -> list[set[str]]:
    """The different calls of each of two worlds, by address."""
    return [set(await asked(protocol, shipment(0), place)) for place in (0, 1)]
