"""Generating wrong answers for the questions of a file, so many at a time, over stored replies."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from oversight.cache.cache import Cache
from oversight.cache.store import Store
from oversight.engine.accounting.ledger import sum_usage
from oversight.engine.display.progress import Snapshot
from oversight.engine.errors import Halt, UsageError
from oversight.engine.models.router import Models
from oversight.engine.providers.capabilities import missing_abilities
from oversight.engine.runs.observer import Observer
from oversight.engine.runs.session import LocalExecutor
from oversight.engine.runs.workers import failure, run_workers
from oversight.engine.simulation.model import PREFIX
from oversight.engine.stop import StopToken
from oversight.protocols.datasets.generation import Draft, Generator, picked
from oversight.protocols.datasets.known import Known
from oversight.protocols.prompts.forms import solution_form
from oversight.protocols.question import Problem
from oversight.protocols.transcript import Failure


@dataclass
class Generation:
    """The questions of a file, and what came of those that are done.

    A question that is run again asks the same calls: what was paid is in the store, and so the
    same generation goes on after any stop.
    """

    questions: Sequence[Known]
    generator: Generator
    drafts: dict[str, tuple[Draft, ...]] = field(default_factory=dict)
    """The usable ones, at least one, by id of the question."""
    failures: dict[str, Failure] = field(default_factory=dict)
    """Why a question has no wrong answer, by its id."""

    def require_abilities(self) -> None:
        """UsageError if the model cannot be asked so: what it does not take, and the mend."""
        model = self.generator.model
        call = self.generator.compose(self.questions[0], "", solution_form("string"))
        if lacks := () if model.startswith(PREFIX) else missing_abilities(call):
            raise UsageError("\n".join(map(str, lacks)) + "\nNothing was sent.")

    async def run(self, cache: Cache, stop_token: StopToken, lanes: int) -> Halt | None:
        """Go through all questions, `lanes` at a time; why it stopped early, or None.

        Replies in flight at a stop land and are saved. When cancelled they are abandoned, and
        what had landed is saved.
        """
        async with cache:
            await run_workers(
                self.questions,
                lambda known: self._attempt(known, cache),
                self._keep,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        return None if self.complete else stop_token.halt

    @property
    def complete(self) -> bool:
        return len(self.drafts) + len(self.failures) == len(self.questions)

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """Those that have a wrong answer, in the order of their questions."""
        done = [known for known in self.questions if known.id in self.drafts]
        return picked([(known, self.drafts[known.id]) for known in done], seed=seed)

    async def _attempt(self, known: Known, cache: Cache) -> tuple[Draft, ...] | Failure:
        try:
            return await self.generator.write(known, cache)
        except Exception as exc:
            return failure(f"question {known.id}", exc)

    def _keep(self, known: Known, landed: tuple[Draft, ...] | Failure) -> None:
        if isinstance(landed, Failure):
            self.failures[known.id] = landed
        else:
            self.drafts[known.id] = landed


class GenerationSession(LocalExecutor):
    """One go at a generation, from start or resume to its end or its stop."""

    def __init__(self, generation: Generation, models: Models, store: Store, lanes: int) -> None:
        """The models must be prepared; they are closed at the end."""
        super().__init__(models, store)
        self.generation = generation
        self._lanes = lanes

    async def execute(self, observer: Observer) -> Halt | None:
        """Go through the questions that are left; why it stopped early, or None."""
        try:
            async with observer.watching(self.snapshot):
                return await self.run()
        finally:
            await self.close()

    async def run(self) -> Halt | None:
        return await self.generation.run(self.cache, self.models.stop_token, self._lanes)

    def snapshot(self) -> Snapshot:
        """Where the generation stands now, in questions."""
        failures = self.generation.failures.values()
        spent = sum_usage(self.accounts().values()).dollars
        return self.standing(
            len(self.generation.questions),
            len(self.generation.drafts) + len(failures),
            len(failures),
            refused=sum(failure.kind == "declined" for failure in failures),
            spend=f"${spent:.2f}" if spent else "",
            halt=self.models.stop_token.halt,
        )
