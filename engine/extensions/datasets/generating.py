"""`oversight dataset generate`: wrong answers that models write, several questions at a time, over
stored replies."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ....cache.cache import Cache
from ....protocols.datasets.jsonl import write_jsonl
from ....protocols.datasets.leak import leakage_check
from ....protocols.question import Problem
from ....protocols.transcript import Failure
from ...analysis.reports.failures import called
from ...display.progress import Snapshot
from ...display.quantity import counted
from ...errors import Halt, UsageError
from ...models.accounting.ledger import Accounting, sum_usage
from ...models.directory import Directory
from ...models.router import Router
from ...providers.capabilities import missing_abilities
from ...providers.settings import environment
from ...providers.simulated import PREFIX
from ...run.cached_models import CachedModels
from ...run.lanes import failure
from ...run.later import Addition, ExecutionWork, added_to, require_extensions, run_all
from ...run.observer import ProgressDisplay
from ...run.settings import AskSettings
from ...run.stores import open_store, store_name
from ...stop import StopToken
from ...sweep.document import Document
from ...system.files import locked
from ...system.flags import flag
from ...views.cli.exit_codes import ExitCode
from ...views.cli.faults import halt_code
from ...views.cli.options import STORE, output
from ...views.cli.output import say, show, typed
from ...views.cli.terminal import under_signals
from .writing import Draft, Generator, Known, picked, solution_form

NAMED = 5
"""Maximum number of failures that are printed one by one."""
OUTPUT = output()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSettings(AskSettings):
    """Which model is asked to write, and where its texts go."""

    model: str = flag("Model that writes them: provider/name, or sim/NAME.", required=True)
    output: Path = OUTPUT
    lanes: int = flag("Questions worked on at once.", default=64, least=1, most=100_000)
    store: Path | str | None = STORE


@dataclass
class Production:
    """Questions, and the wrong answers of those that are done.

    A question that is run again asks the same calls: what was paid is in the store, and so the same
    production goes on after any stop.
    """

    questions: Sequence[Known]
    by: Generator
    made: dict[str, tuple[Draft, ...]] = field(default_factory=dict)
    """Id of a question -> its usable drafts, at least one."""
    failures: dict[str, Failure] = field(default_factory=dict)
    """Id of a question -> why it has none."""

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """Problems made of the results so far, in the order of the questions."""
        done = [(each, self.made[each.id]) for each in self.questions if each.id in self.made]
        return picked(done, seed=seed)

    def require_abilities(self) -> None:
        """UsageError if the model cannot be asked so: what it does not take, and the remedy."""
        if self.by.model.startswith(PREFIX):
            return
        example = self.by.compose(self.questions[0], "", solution_form("string"))
        if lacks := missing_abilities(example):
            raise UsageError("\n".join(map(str, lacks)) + "\nNothing was sent.")

    async def run(
        self, cache: Cache, stop_token: StopToken, lanes: int, added: Addition | None = None
    ) -> Halt | None:
        """Go through all questions, `lanes` at a time; why it stopped early, or None.

        Replies in flight at a stop land and are saved. When cancelled they are abandoned, and
        what had completed is saved.
        """
        async with cache:
            await run_all(
                self._missing,
                lambda known: self._attempt(known, cache),
                self._keep,
                added=added,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        return None if self.done == len(self.questions) else stop_token.halt

    @property
    def done(self) -> int:
        return len(self.made) + len(self.failures)

    def _missing(self) -> Iterator[Known]:
        ended = {*self.made, *self.failures}
        return (each for each in self.questions if each.id not in ended)

    async def _attempt(self, known: Known, cache: Cache) -> tuple[Draft, ...] | Failure:
        try:
            return await self.by.write(known, cache)
        except Exception as exc:
            return failure(f"question {known.id}", exc)

    def _keep(self, known: Known, completed: tuple[Draft, ...] | Failure) -> None:
        if isinstance(completed, Failure):
            self.failures[known.id] = completed
        else:
            self.made[known.id] = completed


def generate_all(work: Production, source: Path, seed: int, settings: GenerateSettings) -> int:
    """Generate missing answers, and write the file unless stopped; returns the exit code.

    source: the file of the questions. seed: of the order of labels."""
    file, model = settings.output, settings.model
    if file.exists() and file.samefile(source):
        raise UsageError(f"-o {file}: that is the file of the questions; name another")
    work.require_abilities()
    if model.startswith(PREFIX):
        say(f"{model} is simulated: its answers are made up, for a trial only")
    directory = Directory(Document.parse("", "generate"), {}, {}, (), environment(Path()))
    caps = settings.price_list, settings.max_cost, settings.max_tokens
    models = Router(directory, [(model, "--model")], Accounting.capped(*caps), StopToken())
    require_extensions(directory, (model,), settings)
    books = file.with_name(f"{file.name}.work")
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(store_name(settings.store))))
        asked = CachedModels(models, store)
        if directory.batched((model,), settings.batch) or books.exists():
            books.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(books))
            work_asked = ExecutionWork(books, models, (model,), asked.cache, settings)
            asked.added = added_to(work_asked)

        async def written() -> Halt | None:
            try:
                async with ProgressDisplay().watching(snapshot):
                    return await work.run(
                        asked.cache, models.stop_token, settings.lanes, asked.added
                    )
            finally:
                await asked.close()

        snapshot = partial(_standing, work, asked)
        halt = under_signals(written, models.stop_token, snapshot)
    if halt is not None:
        done = f"{work.done:,} of {len(work.questions):,} questions done"
        say(f"{str(halt).rstrip('.')}. {done}")
        say(f"nothing is written yet, and no reply is lost; go on with: {typed()}")
        return halt_code(halt)
    return _finished(work, source, work.problems(seed), file)


def _standing(work: Production, asked: CachedModels) -> Snapshot:
    """Where the work stands, in questions."""
    failures = work.failures.values()
    spent = sum_usage(asked.accounts().values()).dollars
    return asked.standing(
        len(work.questions),
        work.done,
        len(failures),
        refused=sum(failure.kind == "declined" for failure in failures),
        spend=f"${spent:.2f}" if spent else "",
        halt=asked.models.stop_token.halt,
    )


def _finished(work: Production, source: Path, problems: Sequence[Problem], file: Path) -> int:
    for id, lost in list(work.failures.items())[:NAMED]:
        say(f"{id}: {called(lost.kind)}: {lost.message}")
    if (more := len(work.failures) - NAMED) > 0:
        say(f"… and {more:,} more that nothing came of")
    if not problems:
        raise UsageError(
            f"{source}: no question got a wrong answer, and {file} is not written; take another "
            "model, or more --drafts"
        )
    new = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(problems, new)
        new.replace(file)
    except OSError as exc:
        raise UsageError(f"-o {file}: cannot be written: {exc.strerror}") from exc
    say(leakage_check(problems).line)
    say(f"inspect it  oversight dataset check {file}")
    done = f"{len(work.made):,} of {len(work.questions):,} questions"
    show(f"{file}: {counted(len(problems), 'problem')} from {done}")
    return ExitCode.FAILED if work.failures else ExitCode.DONE
