"""Producing a result for each item of a data set, several at a time, over stored replies: wrong
answers, proposals, answers in one hand."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ....cache.cache import Cache
from ....cache.call import Call
from ....cache.store import Store
from ....protocols.question import Answer, Problem
from ....protocols.transcript import Failure
from ...display.progress import Snapshot
from ...errors import Halt, UsageError
from ...models.accounting.ledger import sum_usage
from ...models.router import Models
from ...providers.capabilities import missing_abilities
from ...providers.simulated import PREFIX
from ...run.batching import Deferred, run_all
from ...run.cached_models import CachedModels
from ...run.lanes import failure
from ...run.observer import Observer
from ...run.settings import AskSettings
from ...stop import StopToken
from ...system.flags import flag
from ...views.cli.options import STORE, output
from .writing import (
    Draft,
    Generator,
    Known,
    Proposer,
    Rewriter,
    picked,
    proposed,
    solution_form,
)

OUTPUT = output()

Item = TypeVar("Item", Known, Problem)
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSettings(AskSettings):
    """Which model is asked to write, and where its texts go."""

    model: str = flag("Model that writes them: provider/name, or sim/NAME.", required=True)
    output: Path = OUTPUT
    lanes: int = flag("Questions worked on at once.", default=64, least=1, most=100_000)
    store: Path | str | None = STORE


@dataclass
class Production(Generic[Item, Made]):
    """Items, and what came of those that are done.

    An item that is run again asks the same calls: what was paid is in the store, and so the same
    production goes on after any stop.
    """

    items: Sequence[Item]
    first_call: Call
    """An example of the calls, as the model will be asked."""
    make: Callable[[Item, Cache], Awaitable[Made]]
    collect: Callable[[Sequence[tuple[Item, Made]], int], tuple[Problem, ...]]
    """The problems of what is made, in the order of the items, by a seed."""
    made: dict[str, Made] = field(default_factory=dict)
    """Item id -> result."""
    failures: dict[str, Failure] = field(default_factory=dict)
    """Item id -> why it has no result."""

    @property
    def model(self) -> str:
        return self.first_call.model

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """Problems made of the results so far."""
        return self.collect([(i, self.made[i.id]) for i in self.items if i.id in self.made], seed)

    def require_abilities(self) -> None:
        """UsageError if the model cannot be asked so: what it does not take, and the remedy."""
        if lacks := () if self.model.startswith(PREFIX) else missing_abilities(self.first_call):
            raise UsageError("\n".join(map(str, lacks)) + "\nNothing was sent.")

    async def run(
        self, cache: Cache, stop_token: StopToken, lanes: int, replies: Deferred | None = None
    ) -> Halt | None:
        """Go through all items, `lanes` at a time; why it stopped early, or None.

        Replies in flight at a stop land and are saved. When cancelled they are abandoned, and
        what had completed is saved.
        """
        async with cache:
            await run_all(
                self._missing,
                lambda item: self._attempt(item, cache),
                self._keep,
                replies=replies,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        return None if self.done == len(self.items) else stop_token.halt

    @property
    def done(self) -> int:
        return len(self.made) + len(self.failures)

    def _missing(self) -> Iterator[Item]:
        return (i for i in self.items if i.id not in self.made and i.id not in self.failures)

    async def _attempt(self, item: Item, cache: Cache) -> Made | Failure:
        try:
            return await self.make(item, cache)
        except Exception as exc:
            return failure(f"question {item.id}", exc)

    def _keep(self, item: Item, completed: Made | Failure) -> None:
        if isinstance(completed, Failure):
            self.failures[item.id] = completed
        else:
            self.made[item.id] = completed


class ProductionSession(CachedModels):
    """One session of a production, from its start or resume to its end or its stop."""

    def __init__(
        self,
        production: Production[Any, Any],
        models: Models,
        store: Store,
        lanes: int,
        replies: Callable[[Cache], Deferred | None] = lambda cache: None,
    ) -> None:
        """models: prepared; closed at the end. replies: those that come in their own time."""
        super().__init__(models, store)
        self.deferred = replies(self.cache)
        self.production = production
        self._lanes = lanes

    async def execute(self, observer: Observer) -> Halt | None:
        """Process the items that are left; returns why it stopped early, or None."""
        try:
            async with observer.watching(self.snapshot):
                return await self.run()
        finally:
            await self.close()

    async def run(self) -> Halt | None:
        return await self.production.run(
            self.cache, self.models.stop_token, self._lanes, self.deferred
        )

    def snapshot(self) -> Snapshot:
        """The current state of the production, in items."""
        failures = self.production.failures.values()
        spent = sum_usage(self.accounts().values()).dollars
        return self.standing(
            len(self.production.items),
            self.production.done,
            len(failures),
            refused=sum(failure.kind == "declined" for failure in failures),
            spend=f"${spent:.2f}" if spent else "",
            halt=self.models.stop_token.halt,
        )


def generation(
    questions: Sequence[Known], generator: Generator
) -> Production[Known, tuple[Draft, ...]]:
    """Wrong answers for questions: the usable drafts for each, at least one."""
    first = generator.compose(questions[0], "", solution_form("string"))
    return Production(questions, first, generator.write, lambda done, seed: picked(done, seed=seed))


def proposing(
    questions: Sequence[Known], proposer: Proposer
) -> Production[Known, tuple[Answer, ...]]:
    """What a model answers to questions, as proposals to accept or reject, graded."""
    first = proposer.compose(questions[0])
    return Production(
        questions, first, proposer.propose, lambda done, seed: proposed(done, seed=seed)
    )


def rewriting(problems: Sequence[Problem], rewriter: Rewriter) -> Production[Problem, Problem]:
    """Problems with all their answers rewritten by one model; nothing is drawn by the seed."""
    first = rewriter.compose(problems[0].question.answers[0])
    return Production(
        problems, first, rewriter.rewrite, lambda done, seed: tuple(made for _, made in done)
    )
