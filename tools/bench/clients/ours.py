"""Our own engine with everything on: addresses, durable store, limits, retries, ledger, outcomes.

`calls` goes through `oversight.run`, `debates` through the command `oversight run`."""

import os
import sqlite3
import sys
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import asked
import orjson

from oversight import run
from oversight.cache.call import Ask
from oversight.engine.views.cli.commands.run import command
from oversight.protocols import (
    Answer,
    Conversation,
    Problem,
    Question,
    StatedJudge,
    Transcript,
    Turn,
)
from oversight.protocols.question import Answer as Labelled
from tools.bench.sweep import LIMITS, MODELS, write_debates, write_simulated


@dataclass(frozen=True)
class Claim(Conversation):
    """Somebody claims an answer, and the judge decides: one call a cell."""

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        return transcript.then(Turn("Claimant", f"I say that {side.label} is right.", side))


def calls(job: asked.Job) -> int:
    questions = min(100, job.count // 2)
    report = run(
        [Claim(StatedJudge(MODELS[job.transport], max_tokens=asked.MAX_TOKENS))],
        [_problem(n) for n in range(job.first, job.first + questions)],
        draws=job.count // (2 * questions),
        max_cells=job.width,
        models={MODELS[job.transport]: LIMITS},
        store=Path(job.folder) / "store",
        folder=Path(job.folder) / "run",
    )
    return _verdicts(report.folder)


def debates(job: asked.Job) -> int:
    """Sequential: the worlds of a question share nothing, so that each debate is paid."""
    folder = Path(job.folder)
    # Each question has two worlds.
    questions = range(job.first, job.first + job.count // 2)
    sweep = write_debates(folder, questions, job.transport, max_cells=job.width)
    _oversight(sweep, folder / "store", folder / "run")
    return _verdicts(folder / "run") * (asked.TURNS + 1)


def replays(job: asked.Job) -> int:
    """The same debates, out of a store that a first run has filled."""
    folder = Path(job.folder)
    sweep = write_debates(folder, range(job.first, job.first + job.count // 2), job.transport)
    run = folder / f"run-{len([*folder.glob('run-*')])}"
    _oversight(sweep, folder / "store", run)
    return _verdicts(run) * (asked.TURNS + 1)


def hits(job: asked.Job) -> int:
    """Simulated models, whose replies a first run has stored; a cell of one call each."""
    folder = Path(job.folder)
    cells, sweep = write_simulated(folder, job.count)
    _oversight(sweep, folder / "store", folder / f"run-{len([*folder.glob('run-*')])}")
    return cells


def _problem(n: int) -> Problem:
    right, wrong = asked.answers(n)
    return Problem(
        f"q{n}", Question(asked.question(n), (Labelled("A", right), Labelled("B", wrong))), (1, -1)
    )


def _oversight(sweep: Path, store: Path, folder: Path) -> None:
    """`oversight run`, in this process."""
    told = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(told):
        try:
            command.main([str(sweep), "--store", str(store), "--run-folder", str(folder)])
        except SystemExit as end:
            if end.code:
                print(told.getvalue(), file=sys.__stderr__)
                raise


def _verdicts(folder: Path) -> int:
    """Number of cells with a verdict; counted, since a run does not read them again."""
    with closing(sqlite3.connect(folder / "run.db")) as run:
        (counted,) = run.execute("SELECT count(*) FROM cells WHERE status = 'verdict'").fetchone()
    return int(counted)


if __name__ == "__main__":
    job = orjson.loads(sys.argv[2])
    os.environ |= {
        "COMPATIBLE_BENCH_BASE_URL": job["url"],
        "OPENAI_BASE_URL": job["url"],
        "OPENAI_API_KEY": "bench",
    }
    asked.main(calls=calls, debates=debates, replays=replays, hits=hits)
