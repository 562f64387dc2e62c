"""Walks the cells of a sweep with simulated replies to find its calls. Nothing is sent."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from ...cache.call import Call, value_address
from ...cache.reply import Reply
from ...protocols.agents.agent import Agent
from ...protocols.judges.stated import StatedJudge
from ...protocols.protocol import Protocol
from ...protocols.question import Problem
from ...protocols.transcript import NOT_RUN, Failure, Verdict
from ..errors import UsageError
from ..providers.simulated import PREFIX, SimulatedModel, SimulatedModels, Simulation, simulation
from ..sweep.loading import problems_of
from ..sweep.sweep import Cell, Row, Sweep, dataclasses_in
from .failures import CRASH
from .lanes import attempt

if TYPE_CHECKING:
    from ..providers.capabilities import Endpoint, Retirement, Unsupported

TURNS_OF_A_STEP = 4
"""Turns of the event loop in which all that a cell asks at once has been asked."""


Trace: TypeAlias = tuple[set[str], list[Verdict | Failure]]
"""The addresses of the calls of a row's cells, and their outcomes."""


class Walker:
    """An `Ask` that answers with simulated replies, and reports each distinct call once."""

    def __init__(self, answer: Callable[[Call], Reply], see: Callable[[Call, Reply], None]) -> None:
        """answer: the simulated model. see: called with each distinct call and its reply."""
        self._answer = answer
        self._see = see
        self.seen: dict[str, tuple[Call, Reply]] = {}
        """Calls and their replies, by address."""
        self.traces: dict[str, Trace] = {}
        """By the address of each row, the calls and outcomes of its cells."""
        self._asked: set[str] = set()

    async def __call__(self, call: Call) -> Reply:
        address = call.address
        self._asked.add(address)
        if address not in self.seen:
            reply = structs.replace(self._answer(call), call=address)
            self.seen[address] = call, reply
            self._see(call, reply)
        return self.seen[address][1]

    async def walk(self, cells: Iterable[Cell]) -> int:
        """Run the cells one by one; returns the number that reached a verdict."""
        verdicts = 0
        for cell in cells:
            self._asked = set()
            outcome = await attempt(cell, self)
            calls, outcomes = self.traces.setdefault(cell.row.address, (set(), []))
            calls |= self._asked
            outcomes.append(outcome)
            verdicts += not isinstance(outcome, Failure)
        return verdicts


def stand_ins(
    sweep: Sweep,
    simulated: Mapping[str, SimulatedModel],
    problems: Sequence[Problem] = (),
    alias: Callable[[str], str] = str,
) -> SimulatedModels:
    """A simulated model for every model of the sweep, by the name that `alias` gives it. simulated:
    those that are so already. problems: those that are asked about; by default all of the sweep.
    UsageError where no simulation is registered."""
    by = simulation()
    if by is None:
        raise UsageError("a dry run needs the simulated models, which are not installed")
    models = {alias(model): simulated.get(model, by.stand_in) for model in sweep.models}
    return by.models(_known(sweep, problems or sweep.problems), models)


def _known(sweep: Sweep, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return (*problems, *problems_of([row.protocol for row in sweep.rows]))


async def require_distinct(
    sweep: Sweep, traces: Mapping[str, Trace] = MappingProxyType({})
) -> None:
    """UsageError if two rows differ in name only: with the same settings of the protocol, but other
    roles or prompts, they would ask the same calls and reach the same verdicts.

    Checked on the sweep's first problem, with several casts of simulated models that fill in forms
    at random, so that every branch is taken by some. traces: of the rows on one problem, if it was
    walked before; rows with different traces are distinct."""
    if (by := simulation()) is None:
        return
    settings: dict[tuple[str, object], list[Row]] = {}
    for row in sweep.rows:
        trace = _signature(row, *traces[row.address]) if traces else None
        shape = value_address(_without_roles(row.protocol)), trace
        settings.setdefault(shape, []).append(row)
    alike = [rows for rows in settings.values() if len(rows) > 1]
    problems = _known(sweep, sweep.problems[:1])
    for salt, cast in enumerate(by.casts):
        if not alike:
            return
        models = by.models(problems, dict.fromkeys(sweep.models, cast))
        apart: list[list[Row]] = []
        for rows in alike:
            by_probe: dict[object, list[Row]] = {}
            for row in rows:
                by_probe.setdefault(await _probe(sweep, row, models, by, salt), []).append(row)
            apart += [equal_rows for equal_rows in by_probe.values() if len(equal_rows) > 1]
        alike = apart
    if alike:
        pairs = "\n  ".join(" = ".join(row.title for row in rows) for rows in alike)
        raise UsageError(
            f"these rows would ask the same calls and end with the same verdicts:\n  {pairs}\n"
            "leave out settings that their protocols do not use, or put each into another sweep"
        )


async def _probe(
    sweep: Sweep, row: Row, models: SimulatedModels, by: Simulation, salt: int
) -> object:
    """The calls that a row asks about the first problem, and their outcomes."""
    calls: set[str] = set()

    async def ask(call: Call) -> Reply:
        address = call.address
        calls.add(address)
        reply = (by.drawn(call, salt) if salt else None) or models.reply(call)
        return structs.replace(reply, call=address)

    problem = sweep.problems[0]
    outcomes = [
        await attempt(Cell(0, row, problem, side, salt, ""), ask)
        for side in range(len(problem.values))
    ]
    return _signature(row, calls, outcomes)


def _signature(row: Row, calls: set[str], outcomes: Sequence[Verdict | Failure]) -> object:
    """Equal for rows that ask the same calls and end alike."""
    if all(
        isinstance(outcome, Failure) and outcome.kind in (NOT_RUN, CRASH) for outcome in outcomes
    ):
        return row.address  # unknown: the row is for another problem, or its code is wrong
    ends = tuple(
        (outcome.kind, outcome.message)
        if isinstance(outcome, Failure)
        else (outcome.probs, outcome.measures)
        for outcome in outcomes
    )
    return frozenset(calls), ends


def _without_roles(protocol: Protocol) -> Protocol:
    """The protocol with placeholder roles, so that only its settings differ."""
    nobody = Agent("sim/nobody")
    roles: dict[str, Any] = {"agent": nobody} if hasattr(protocol, "agent") else {}
    return replace(protocol, judge=StatedJudge("sim/nobody"), prompts=None, **roles)


async def shapes(sweep: Sweep, simulated: Mapping[str, SimulatedModel]) -> dict[Call, Row]:
    """Every different call that real models are asked, prompts apart, with a row that asks it.
    Every row is walked in one world of the first problem, and of the first one with another number
    of answers."""
    if simulation() is None or all(model.startswith(PREFIX) for model in sweep.models):
        return {}
    problems = {len(problem.values): problem for problem in reversed(sweep.problems)}
    answering = stand_ins(sweep, simulated, [*problems.values()])
    calls: list[Call] = []
    walker = Walker(answering.reply, lambda call, reply: calls.append(call))
    rows: dict[Call, Row] = {}
    for row in sweep.rows:
        alone = Sweep(sweep.name, tuple(problems.values()), (row,))
        await walker.walk(cell for cell in alone.cells() if cell.side == 0)
        for call in calls:
            if not call.model.startswith(PREFIX):
                rows.setdefault(Call(structs.replace(call.request, messages=())), row)
        calls.clear()
    return rows


async def chains(
    sweep: Sweep, simulated: Mapping[str, SimulatedModel]
) -> dict[str, list[tuple[str, ...]]]:
    """The models of the calls of a cell of each row, those that are asked at once as one step, by
    the row's address: in one world of the first problem, with simulated replies. Empty
    where no simulation is registered."""
    if simulation() is None:
        return {}
    answering = stand_ins(sweep, simulated)
    problem = sweep.problems[0]
    return {
        row.address: await _steps(Cell(0, row, problem, 0, 0, ""), answering.reply)
        for row in sweep.rows
    }


async def _steps(cell: Cell, answer: Callable[[Call], Reply]) -> list[tuple[str, ...]]:
    waiting: list[tuple[str, asyncio.Future[None]]] = []

    async def ask(call: Call) -> Reply:
        turn = asyncio.get_running_loop().create_future()
        waiting.append((call.model, turn))
        await turn
        return structs.replace(answer(call), call=call.address)

    work = asyncio.create_task(attempt(cell, ask))
    steps: list[tuple[str, ...]] = []
    while not work.done():
        for _ in range(TURNS_OF_A_STEP):
            await asyncio.sleep(0)
        if waiting:
            steps.append(tuple(model for model, _ in waiting))
        ready, waiting = waiting, []
        for _, turn in ready:
            turn.set_result(None)
    work.result()
    return steps


async def require_abilities(
    sweep: Sweep,
    simulated: Mapping[str, SimulatedModel],
    reach: "Callable[[str], Endpoint] | None" = None,
    *,
    distinct: bool = False,
) -> dict[Call, Row]:
    """Check that each model can do what its calls need. UsageError names model, need and fix.
    reach: how each model is asked; None: as by default. Each of the `shapes`, which are returned,
    is checked against what its model supports. distinct: whether the rows are known to differ."""
    protocols = [row.protocol for row in sweep.rows]
    used = {tool for part in dataclasses_in(protocols) for tool in getattr(part, "tools", ())}
    if "python" in used and find_spec("pydantic_monty") is None:
        from ...protocols.agents.tools import missing

        raise UsageError(str(missing()))
    if not distinct:
        await require_distinct(sweep)
    calls = await shapes(sweep, simulated)
    if not calls:
        return calls
    from ..providers.capabilities import default_endpoint, missing_abilities

    lacks: dict[Unsupported, Row] = {}
    for shape, row in calls.items():
        for lack in missing_abilities(shape, (reach or default_endpoint)(shape.model)):
            lacks.setdefault(lack, row)
    if lacks:
        lines = "\n".join(f"{lack}\n  asked for in: {row.title}" for lack, row in lacks.items())
        raise UsageError(f"{lines}\nNothing was sent.")
    return calls


def require_service(retirements: "Iterable[Retirement]", today: date) -> None:
    """UsageError, with the remedy, if a model is no longer served."""
    gone = [retirement for retirement in retirements if retirement.past(today)]
    if gone:
        lines = "\n".join(map(str, gone))
        raise UsageError(
            f"{lines}\nchoose another model; its stored replies can still be read with "
            "--cache replay. Nothing was sent."
        )
