"""The loop of commands that have models write many texts: resumable, within limits and a budget."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from annotated_types import Interval

from ....cache.cache import Cache
from ....cache.call import Ask, Call
from ....protocols.transcript import Failure
from ...analysis.reports.health import called
from ...display.progress import Snapshot
from ...errors import Halt, UsageError
from ...models.accounting.ledger import Accounting, sum_usage
from ...models.directory import Directory
from ...models.router import Router
from ...providers.capabilities import missing_abilities
from ...providers.settings import environment
from ...providers.simulated import PREFIX
from ...run.cached_models import CachedModels
from ...run.failures import failure
from ...run.later import Addition, ExecutionWork, added_to, require_extensions, run_all
from ...run.observer import ProgressDisplay
from ...run.settings import AskSettings
from ...run.stores import open_store, store_name
from ...stop import StopToken
from ...sweep.document import Document
from ...system.files import locked
from ...system.settings import flag
from ...views.cli.faults import halt_code
from ...views.cli.flags import STORE, output
from ...views.cli.output import say, typed
from ...views.cli.terminal import under_signals

Item = TypeVar("Item")
Made = TypeVar("Made")

MAX_LISTED = 5
"""Maximum number of failures that are printed one by one."""
OUTPUT = output()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings(AskSettings):
    """Where the texts go, and how many are written at once."""

    output: Path = OUTPUT
    concurrency: int = flag(
        "Texts worked on at once.", default=64, within=Interval(ge=1, le=100_000)
    )
    store: Path | str | None = STORE


@dataclass
class Production(Generic[Item, Made]):
    """Items, and the results of those that are done.

    An item that is run again asks the same calls, whose replies are in the store. So the same
    production goes on after any stop, and pays for nothing twice.
    """

    items: Mapping[str, Item]
    """By id."""
    write: Callable[[Item, Ask], Awaitable[Made]]
    made: dict[str, Made] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return len(self.made) + len(self.failures)

    def results(self) -> list[Made]:
        """The results so far, in the order of the items."""
        return [self.made[id] for id in self.items if id in self.made]

    async def run(
        self, cache: Cache, stop_token: StopToken, lanes: int, added: Addition | None = None
    ) -> Halt | None:
        """Go through all items, `lanes` at a time. Returns why it stopped early, or None.

        Replies in flight at a stop are awaited and saved. When cancelled they are abandoned.
        """
        async with cache:
            await run_all(
                lambda: (id for id in self.items if id not in {*self.made, *self.failures}),
                lambda id: self._attempt(id, cache),
                self._keep,
                added=added,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        return None if self.done == len(self.items) else stop_token.halt

    async def _attempt(self, id: str, cache: Cache) -> tuple[Made] | Failure:
        try:
            return (await self.write(self.items[id], cache),)
        except Exception as exc:
            return failure(id, exc)

    def _keep(self, id: str, completed: tuple[Made] | Failure) -> None:
        if isinstance(completed, Failure):
            self.failures[id] = completed
        else:
            (self.made[id],) = completed

    def list_failures(self) -> None:
        """Print the first failures, one per line."""
        for id, lost in list(self.failures.items())[:MAX_LISTED]:
            say(f"{id}: {called(lost.kind)}: {lost.message}")
        if (more := len(self.failures) - MAX_LISTED) > 0:
            say(f"… and {more:,} more failures")


def require_abilities(model: str, examples: Sequence[Call]) -> None:
    """UsageError for a setting that the model does not take, with the fix. Nothing is sent."""
    if model.startswith(PREFIX):
        say(f"{model} is simulated: its answers are made up, for a trial only")
        return
    lacks = dict.fromkeys(str(lack) for call in examples for lack in missing_abilities(call))
    if lacks:
        raise UsageError("\n".join(lacks) + "\nNothing was sent.")


def go_through(
    work: Production[Item, Made], example: Call, settings: LoopSettings, unit: str
) -> int | None:
    """Ask the example's model until all items are done. None: all are; otherwise the exit code of
    an early stop. unit: the name of an item."""
    model, file = example.model, settings.output
    directory = Directory(Document.parse("", "--agent"), {}, {}, (), environment(Path()))
    directory.choose_apis((model,), [(model, example.effort)] if example.tools else ())
    caps = settings.price_list, settings.max_cost, settings.max_tokens
    models = Router(directory, [(model, "--agent")], Accounting.capped(*caps), StopToken())
    require_extensions(directory, (model,), settings)
    folder = file.with_name(f"{file.name}.work")
    with ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_store(store_name(settings.store))))
        cached = CachedModels(models, store)
        if directory.deferred((model,), settings.batch) or folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
            execution = ExecutionWork(folder, models, (model,), cached.cache, settings)
            cached.added = added_to(execution)

        async def written() -> Halt | None:
            try:
                async with ProgressDisplay().watching(snapshot):
                    lanes, token = settings.concurrency, models.stop_token
                    return await work.run(cached.cache, token, lanes, cached.added)
            finally:
                await cached.close()

        snapshot = partial(_snapshot, work, cached)
        halt = under_signals(written, models.stop_token, snapshot)
    if halt is None:
        return None
    say(f"{str(halt).rstrip('.')}. {work.done:,} of {len(work.items):,} {unit}s done")
    say(f"nothing is written yet, and no reply is lost; go on with: {typed()}")
    return halt_code(halt)


def _snapshot(work: Production[Item, Made], cached: CachedModels) -> Snapshot:
    failures = work.failures.values()
    spent = sum_usage(cached.accounts().values()).dollars
    return cached.snapshot(
        len(work.items),
        work.done,
        len(failures),
        refused=sum(failure.kind == "declined" for failure in failures),
        spend=f"${spent:.2f}" if spent else "",
        halt=cached.models.stop_token.halt,
    )
