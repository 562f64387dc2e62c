"""`oversight measure probe`: the judges' beliefs after each turn."""

import asyncio
from contextlib import closing
from pathlib import Path

from annotated_types import Interval

from .....cache.call import Ask
from .....cache.store import Store
from ....display.text import counted
from ....models.directory import MIN_CELLS
from ....run.later import Addition
from ....run.listing import Parts
from ....run.loaded_sweep import LoadedSweep
from ....run.lookup import cells_with_verdict
from ....run.probing import PROBES, BeliefProbe, Probes, belief_probes, run_probes
from ....run.replay import open_run, replay_cache
from ....run.settings import AskSettings
from ....system.files import locked
from ....system.settings import flag
from ..beside import ask_beside, say_ended, store_of
from ..flags import OWN_SWEEP, RUN_STORE, as_command
from ..naming import RUN
from ..output import show


@as_command
def command(
    *,
    run: Path = RUN,
    parts: Parts,
    problems: int = flag(
        "Use only the first N problems.",
        name="--limit",
        default=10,
        within=Interval(ge=1),
        metavar="N",
    ),
    asks: AskSettings,
    sweep: Path | None = OWN_SWEEP,
    store: str | None = RUN_STORE,
    dry_run: bool = flag("Check everything, send nothing.", default=False),
) -> None:
    """Ask the judges of RUN what they believe after each turn of its transcripts.

    `oversight view` shows the answers next to each transcript. Replies are paid for and stored like
    any others; the beliefs are kept as events of RUN, and no score changes. The budget
    is for all probes of RUN. --dry-run prints the number of questions. The same command resumes
    after a stop, and asks nothing twice."""
    opened = open_run(run, user_file=sweep)
    opened.models.require_allowed(opened.sweep.models)
    cells = cells_with_verdict(opened.sweep, run, parts, problems)
    with closing(store_of(run, store)) as replies:
        recorded = replay_cache(replies, opened.models.identity, tags=opened.models.tags)
        probes = asyncio.run(belief_probes(cells, recorded))
        if dry_run:
            about = counted(len(cells), "cell")
            show(f"{counted(len(probes), 'question')} about {about}; nothing was sent")
            return
        raise SystemExit(_asked(opened, run, replies, probes, asks))


def _asked(
    opened: LoadedSweep, run: Path, replies: Store, probes: list[BeliefProbe], asks: AskSettings
) -> int:
    folder = run / PROBES
    folder.mkdir(exist_ok=True)
    with locked(folder):
        file = Probes(run)
        earlier = len(file.known)

        async def work(ask: Ask, added: Addition | None) -> None:
            lanes = opened.file.top.max_cells or MIN_CELLS
            await run_probes(
                probes, ask, file, lanes=lanes, stop_token=opened.stop_token, added=added
            )

        halt, paid = ask_beside(opened, folder, replies, work, asks)
    new = counted(len(file.known) - earlier, "new belief")
    summary = f"{new}, {len(file.known):,} in {run}"
    return say_ended(halt, summary, paid, f"oversight view {run}")
