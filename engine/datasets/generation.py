"""Generating wrong answers for the questions of a file, so many at a time, over stored replies."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from oversight.cache.cache import Cache
from oversight.engine.errors import Halt, UsageError
from oversight.engine.providers.capabilities import missing_abilities
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
        try:
            await run_workers(
                self.questions,
                lambda known: self._attempt(known, cache),
                self._keep,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        except BaseException:
            await cache.abandon()
            raise
        await cache.close()
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
