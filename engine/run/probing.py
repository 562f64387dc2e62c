"""What the judge believes after each turn: asked beside a run, and no part of its score."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import replace

from ...cache.call import Ask, nth
from ...protocols.question import Problem
from ...protocols.transcript import Failure, Transcript, Verdict
from ..errors import RunFolderError
from ..stop import StopToken
from ..sweep.sweep import Cell
from ..system.files import append_line, unwritable, whole_lines
from .lanes import failure, run_all
from .order import Deferred
from .scheduler import attempt

PROBES = "probes"
"""The folder of a run's probes, with a ledger of its own: they are no part of the run."""
PROBES_FILE = "probes.jsonl"


@dataclass(frozen=True, slots=True)
class BeliefProbe:
    """One question to a judge: what it believes after so many turns of a cell."""

    cell: Cell
    transcript: Transcript
    """The turns that it hears."""


class ProbeFile:
    """The probes of a run folder, appended as they complete; none is asked again."""

    def __init__(self, folder: Path) -> None:
        """RunFolderError if it cannot be read or written."""
        self.folder = folder / PROBES
        self._file = self.folder / PROBES_FILE
        self.known: set[tuple[str, int]] = set()
        try:
            self.folder.mkdir(exist_ok=True)
            if self._file.exists():
                whole = 0
                for told, size in _lines(self._file):
                    self.known.add((told["cell"], told["turns"]))
                    whole += size
                os.truncate(self._file, whole)
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def keep(self, probe: BeliefProbe, verdict: Verdict | Failure) -> None:
        """RunFolderError if the disk takes no more."""
        cell, problem = probe.cell, probe.cell.problem
        told: dict[str, Any] = {
            "place": cell.place,
            "cell": cell.id,
            "turns": len(probe.transcript.turns),
        }
        if isinstance(verdict, Verdict):
            told |= {"best": best_mass(verdict.probs, problem), "probs": verdict.probs}
        else:
            told |= {"best": None, "failure": verdict.kind}
        append_line(self._file, orjson.dumps(told), durable=False)
        self.known.add((cell.id, len(probe.transcript.turns)))


def read_probes(folder: Path) -> dict[int, list[tuple[int, float]]]:
    """By place of the cell: (turns heard, P(a best answer)), in the order of the turns."""
    found: dict[int, dict[int, float]] = {}
    file = folder / PROBES / PROBES_FILE
    if not file.exists():
        return {}
    for told, _ in _lines(file):
        if told["best"] is not None:
            found.setdefault(told["place"], {})[told["turns"]] = told["best"]
    return {at: sorted(points.items()) for at, points in found.items()}


async def belief_probes(cells: Iterable[Cell], recorded: Ask) -> list[BeliefProbe]:
    """Every prefix of every transcript, the empty one first; cells without a verdict have none.

    recorded: answers from the store alone. The whole transcript is left out: the run itself asked
    about it. Turns that were spoken at once are heard one after another here.
    """
    found = []
    for cell in cells:
        outcome = await attempt(cell, recorded)
        if isinstance(outcome, Verdict):
            said = outcome.transcript
            found += [
                BeliefProbe(cell, replace(said, turns=said.turns[:heard]))
                for heard in range(len(said.turns))
            ]
    return found


async def run_probes(
    probes: Sequence[BeliefProbe],
    ask: Ask,
    file: ProbeFile,
    *,
    lanes: int,
    stop_token: StopToken,
    replies: Deferred | None,
) -> None:
    """Ask the judge of each cell about each prefix. A Halt stops it; what completed is kept."""

    async def heard(probe: BeliefProbe) -> Verdict | Failure:
        judge = probe.cell.row.protocol.judge
        try:
            return await judge.judge(probe.transcript, nth(ask, probe.cell.draw))
        except Exception as exc:
            return failure(f"a probe of cell {probe.cell.id}", exc)

    def missing() -> Iterator[BeliefProbe]:
        return (p for p in probes if (p.cell.id, len(p.transcript.turns)) not in file.known)

    await run_all(missing, heard, file.keep, replies=replies, lanes=lanes, stop_token=stop_token)


def best_mass(probs: Sequence[float], problem: Problem) -> float:
    """The probability that the best answers have together."""
    most = max(problem.values)
    return sum(p for p, value in zip(probs, problem.values, strict=True) if value == most)


def _lines(file: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Every whole line and its size; RunFolderError, naming it, for one that is no probe."""
    for number, line in enumerate(whole_lines(file), 1):
        try:
            told = orjson.loads(line)
            yield {name: told[name] for name in ("place", "cell", "turns", "best")}, len(line)
        except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
            raise RunFolderError(
                f"{file}:{number}: is no probe ({exc}); delete that line to ask it again"
            ) from exc
