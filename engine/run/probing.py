"""Probes of the judge's belief after each turn, which do not count in the score of the run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ...cache.call import Ask, with_repeat
from ...protocols.question import Problem
from ...protocols.transcript import Failure, Transcript, Verdict
from ..stop import StopToken
from ..sweep.sweep import Cell
from .events import add_event, read_events, sync_events
from .failures import failure
from .lanes import attempt
from .later import Addition, run_all

PROBES = "probes"
"""Kind of the events with results of probes, and the folder of their separate ledger."""


@dataclass(frozen=True, slots=True)
class BeliefProbe:
    """One question to a judge about the first turns of a cell."""

    cell: Cell
    transcript: Transcript
    """The turns that it hears."""


class _Heard(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a probe, as an event of the run."""

    place: int
    cell: str
    turns: int
    best: float | None = None
    """The probability that the best answers have together; None for a failure."""
    probs: tuple[float, ...] = ()
    failure: str = ""


_heard = msgspec.json.Decoder(_Heard)


class Probes:
    """The probes of a run; none is asked again."""

    def __init__(self, run: Path) -> None:
        """RunFolderError if it cannot be read or written."""
        sync_events(run)
        self._run = run
        self.known = {(event.cell, event.turns) for event in read_events(run, PROBES, _heard)}

    def keep(self, probe: BeliefProbe, verdict: Verdict | Failure) -> None:
        """RunFolderError if the disk takes no more."""
        cell, turns = probe.cell, len(probe.transcript.turns)
        event = _Heard(cell.place, cell.id, turns)
        if isinstance(verdict, Failure):
            event = replace(event, failure=verdict.kind)
        else:
            best = best_mass(verdict.probs, cell.problem)
            event = replace(event, best=best, probs=verdict.probs)
        # Its reply is in the store.
        add_event(self._run, PROBES, event, durable=False)
        self.known.add((cell.id, turns))


def read_probes(run: Path) -> dict[int, list[tuple[int, float]]]:
    """By place of the cell: (turns heard, P(a best answer)), in the order of the turns."""
    beliefs: dict[int, dict[int, float]] = {}
    for event in read_events(run, PROBES, _heard):
        if event.best is not None:
            beliefs.setdefault(event.place, {})[event.turns] = event.best
    return {at: sorted(points.items()) for at, points in beliefs.items()}


async def belief_probes(cells: Iterable[Cell], recorded: Ask) -> list[BeliefProbe]:
    """Every prefix of every transcript, the empty one first; cells without a verdict have none.
    recorded: answers from the store alone. The whole transcript is left out: the run itself asked
    about it. Turns that were spoken at once are heard one after another here."""
    probes = []
    for cell in cells:
        outcome = await attempt(cell, recorded)
        if isinstance(outcome, Verdict):
            transcript = outcome.transcript
            probes += [
                BeliefProbe(cell, replace(transcript, turns=transcript.turns[:count]))
                for count in range(len(transcript.turns))
            ]
    return probes


async def run_probes(
    probes: Sequence[BeliefProbe],
    ask: Ask,
    file: Probes,
    *,
    lanes: int,
    stop_token: StopToken,
    added: Addition | None,
) -> None:
    """Ask the judge of each cell about each prefix. A Halt stops it; completed probes are kept."""

    async def heard(probe: BeliefProbe) -> Verdict | Failure:
        judge = probe.cell.row.protocol.judge
        try:
            return await judge.judge(probe.transcript, with_repeat(ask, probe.cell.draw))
        except Exception as exc:
            return failure(f"a probe of cell {probe.cell.id}", exc)

    def missing() -> Iterator[BeliefProbe]:
        return (p for p in probes if (p.cell.id, len(p.transcript.turns)) not in file.known)

    await run_all(missing, heard, file.keep, added=added, lanes=lanes, stop_token=stop_token)


def best_mass(probs: Sequence[float], problem: Problem) -> float:
    most = max(problem.values)
    return sum(p for p, value in zip(probs, problem.values, strict=True) if value == most)
